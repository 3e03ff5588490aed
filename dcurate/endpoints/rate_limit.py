"""Rate limits: requests per minute, tokens per minute, and a pause when the server asks for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dcurate.errors import PipelineError

MINUTE_S = 60.0

#: Tokens of an answer, assumed before the first one.
FIRST_GUESS = 256.0
#: Weight of one more answer in the moving average of answer sizes.
_WEIGHT = 0.1


@dataclass(frozen=True)
class Limits:
    """The limits of an endpoint for one run.

    Args:
        requests_per_minute: None for no limit.
        tokens_per_minute: limit of prompts and answers together; None for no limit.
        max_cost: limit of the cost of all answers in the cache; None for no limit.
        max_total_tokens: limit of their tokens, of prompts and answers together; None for no limit.

    Raises:
        PipelineError: a number that is not above zero.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_cost: float | None = None
    max_total_tokens: float | None = None

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if number is not None and not number > 0:
                raise PipelineError(f"{name}={number!r} must be above zero; leave it out for no limit")

    def __bool__(self) -> bool:
        return any(number is not None for number in vars(self).values())

    @property
    def of_all(self) -> bool:
        """Whether there is a limit of all answers together."""
        return self.max_cost is not None or self.max_total_tokens is not None

    def shared(self, slots: int) -> Limits:
        """The share of each of a number of slots.

        Raises:
            PipelineError: several slots, and a limit of all answers together, which one of them cannot know.
        """
        if self.of_all and slots > 1:
            raise PipelineError(f"max_cost and max_total_tokens need one slot, not {slots}; leave num_workers out")
        requests, tokens = self.requests_per_minute, self.tokens_per_minute
        return replace(
            self, requests_per_minute=requests and requests / slots, tokens_per_minute=tokens and tokens / slots
        )


class TokenBucket:
    """A token bucket: it fills at a constant rate, and each request takes its cost.

    In any minute no more is taken than ``per_minute``, as long as nothing costs more than ``burst``. A larger cost is
    taken when the bucket is full, and leaves it with a debt.

    Args:
        per_minute: refill per minute.
        burst: maximum to take at once.

    Examples:
        >>> bucket = TokenBucket(60, 1)
        >>> bucket.take(1, now=0.0), round(bucket.take(1, now=0.0), 2), round(bucket.take(1, now=0.5), 2)
        (0.0, 1.02, 0.52)
    """

    def __init__(self, per_minute: float, burst: float) -> None:
        self.burst = burst
        # The burst counts towards the minute that it falls into.
        self.a_second = max(per_minute - burst, per_minute / 2) / MINUTE_S
        self.level = burst
        self.then: float | None = None

    def take(self, cost: float, now: float) -> float:
        """Take ``cost``, or nothing; returns the seconds to wait before the next try, 0 if it was taken."""
        if self.then is not None:
            self.level = min(self.burst, self.level + (now - self.then) * self.a_second)
        self.then = now
        missing = min(cost, self.burst) - self.level
        if missing > 1e-9:
            return missing / self.a_second
        self.level -= cost
        return 0.0

    def give_back(self, amount: float) -> None:
        """Return tokens taken in excess, or take those taken too few."""
        self.level = min(self.burst, self.level + amount)


class RateLimiter:
    """Admit requests one after the other, as fast as limits and the server allow.

    Args:
        limits: limits of the endpoint.
        clock: seconds, as they pass.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        per_minute, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = TokenBucket(per_minute, max(1.0, per_minute / 60)) if per_minute is not None else None
        self._tokens = TokenBucket(tokens, tokens / 10) if tokens is not None else None
        self._answer = FIRST_GUESS
        self._pause_until = 0.0
        self._queue = asyncio.Lock()

    def hold(self, seconds: float) -> None:
        """Admit nothing for this long."""
        self._pause_until = max(self._pause_until, self._clock() + seconds)

    def wait(self, size: int) -> tuple[float, float]:
        """Seconds to wait before the next try, and the tokens taken; the request may start if the first is 0."""
        now = self._clock()
        if now < self._pause_until:
            return self._pause_until - now, 0.0
        cost = size + self._answer
        seconds = self._tokens.take(cost, now) if self._tokens is not None else 0.0
        if not seconds and self._requests is not None:
            seconds = self._requests.take(1.0, now)
            if seconds and self._tokens is not None:
                self._tokens.give_back(cost)
        return seconds, cost

    async def turn(self, size: int, most: float) -> float:
        """Wait for a turn; gives the tokens that were taken for it.

        Args:
            size: length of the prompt, in tokens.
            most: tokens that the answer can have.
        """
        self._answer = min(self._answer, most)
        async with self._queue:
            while True:
                seconds, cost = self.wait(size)
                if not seconds:
                    return cost
                await asyncio.sleep(seconds)

    def settle(self, taken: float, prompt: int, answer: int) -> None:
        """Report the true cost of a request, for later estimates; ignored if it was not answered."""
        if answer:
            self._answer += _WEIGHT * (answer - self._answer)
        if self._tokens is not None:
            self._tokens.give_back(taken - prompt - answer)
