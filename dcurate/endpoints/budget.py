"""A limit of what answers may cost, over all runs that share a cache of answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from dcurate.endpoints.cache import Answers
from dcurate.endpoints.config import Question
from dcurate.endpoints.rate_limit import FIRST_GUESS, Limits
from dcurate.errors import ResourceError

_PER_MILLION = 1e6
#: Characters of a quarter of a prompt: the upper estimate is a token for each character.
_TOKENS_PER_SIZE = 4


class Budget:
    """What may still be spent; requests in flight count with an upper estimate.

    Args:
        limits: the limits of cost and tokens.
        prices: prices of models, as `AsyncLLMClient` has them.
        answers: the cache, which knows what its answers took.
    """

    def __init__(self, limits: Limits, prices: Mapping[str, tuple[float, float]], answers: Answers) -> None:
        self._limits, self._prices, self._answers = limits, prices, answers
        self._reserved: list[tuple[float, float]] = []
        self._settled = asyncio.Event()

    async def reserve(self, question: Question) -> tuple[float, float]:
        """Set cost and tokens of a request aside, at the upper estimate; waits for requests in flight if need be.

        Raises:
            ResourceError: the request may exceed the limit, and nothing in flight could change that.
        """
        completion = question.most if math.isfinite(question.most) else FIRST_GUESS
        upper = self._taken(question.model, _TOKENS_PER_SIZE * question.size, completion)
        while (exceeded := self._exceeded(upper)) and self._reserved:
            self._settled.clear()
            await self._settled.wait()
        if exceeded:
            raise ResourceError(exceeded)
        self._reserved.append(upper)
        return upper

    def settle(self, reserved: tuple[float, float]) -> None:
        """Note that a request has an answer, which the cache holds, or has failed."""
        self._reserved.remove(reserved)
        self._settled.set()

    def _taken(self, model: str, prompt: float, completion: float) -> tuple[float, float]:
        """The cost and the tokens of a request."""
        prices = self._prices.get(model, (0.0, 0.0))
        return (prompt * prices[0] + completion * prices[1]) / _PER_MILLION, prompt + completion

    def _exceeded(self, upper: tuple[float, float]) -> str:
        """Which limit a request would exceed, as a sentence; empty if none."""
        spent = [self._taken(model, *tokens) for model, tokens in self._answers.spent().items()]
        cost, tokens = (sum(taken[place] for taken in spent) for place in (0, 1))
        coming = [sum(taken[place] for taken in (*self._reserved, upper)) for place in (0, 1)]
        for name, limit, used, more in (
            ("max_cost", self._limits.max_cost, cost, coming[0]),
            ("max_total_tokens", self._limits.max_total_tokens, tokens, coming[1]),
        ):
            if limit is not None and used + more > limit:
                return (
                    f"{name}={limit:g} is reached: the answers in {self._answers.folder!r} have taken {used:.6g}, and "
                    f"the next may take up to {upper[name != 'max_cost']:.6g}; they are kept: raise {name}, then resume"
                )
        return ""
