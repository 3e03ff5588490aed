"""Concurrent requests of one slot: each prompt sent once, answers in order."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from dcurate.endpoints.budget import Budget
from dcurate.endpoints.cache import Answers
from dcurate.endpoints.client import AsyncLLMClient, LLMClient
from dcurate.endpoints.config import Answer, Question
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.event_loop import Loop
from dcurate.errors import ResourceError, RunError

#: The outcome of a request; None for a row without one.
Outcome: TypeAlias = Answer | RequestError | None

#: Consecutive failures after which the run ends. Refused rows count until the first answer: before it, the settings
#: are the likely cause.
GIVE_UP_AFTER = 20

#: Seconds between two checks of an endpoint that is still starting.
_LOOK_EVERY_S = 0.5


class BatchClient:
    """A slot's client, its event loop, and its cache of answers.

    Args:
        client: the slot works with a copy.
        slots: number of slots that share the client's limits.

    Raises:
        ResourceError: a package or a key is missing.
        DataError: the folder of the cache cannot be used.
    """

    def __init__(self, client: AsyncLLMClient | LLMClient, slots: int = 1) -> None:
        self.client: AsyncLLMClient = copy.deepcopy(client).asynchronous()
        self.client.limits = self.client.limits.shared(slots)
        self.client.setup()
        self._kept: Answers | None = self.client.cache.open() if self.client.cache is not None else None
        limited = self._kept is not None and self.client.limits.of_all
        self._budget = Budget(self.client.limits, self.client.prices, self._kept) if limited and self._kept else None
        self._recent: dict[bytes, Answer] = {}
        self._counts: dict[str, float] = defaultdict(float)
        self._failed_in_a_row = 0
        self._has_answered = False
        self._loop = Loop()

    def ask(self, questions: Sequence[Question | None], *, stop_at_failure: bool = False) -> list[Outcome]:
        """The outcome of each request. Equal requests with a seed are sent once.

        Args:
            stop_at_failure: send no more requests after the first failure.

        Raises:
            ResourceError: no request will be answered.
            RunError: too many requests in a row failed.
        """
        call = _BatchCall(self, questions, stop_at_failure)
        before = self._recent if any(key in self._recent for key in call.questions) else {}
        try:
            return self._loop.run(call.run())
        finally:
            # A call that fails may be made again with parts of its rows, to find out which is at fault.
            self._recent = before | call.answered if call.incomplete or before else {}

    def wait_for_endpoint(self, seconds: float) -> list[str] | None:
        """The models of the endpoint; waits for a limited time if it does not respond yet.

        Raises:
            ResourceError: it does not answer in time, or refuses to.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                return self._loop.run(self.client.models())
            except RequestError as error:
                if time.monotonic() >= end:
                    waited = f" after {seconds:g} s" if seconds else ""
                    raise ResourceError(
                        f"the endpoint cannot be reached{waited}: {error}; start it, or check base_url="
                    ) from error
            time.sleep(min(_LOOK_EVERY_S, max(0.0, end - time.monotonic())))

    def take_counts(self) -> dict[str, float]:
        """Counts of requests, answers and costs since the last call."""
        counts, self._counts = dict(self._counts), defaultdict(float)
        return counts

    def close(self) -> None:
        """Close connections, files and the loop."""
        self._loop.run(self.client.close())
        self._loop.close()
        if self._kept is not None:
            self._kept.close()

    def found(self, key: bytes) -> Answer | None:
        """A cached answer."""
        answer = self._recent.get(key)
        if answer is None and self._kept is not None:
            answer = self._kept.get(key)
        if answer is not None:
            self._counts["cached"] += 1
        return answer

    @asynccontextmanager
    async def budgeted(self, question: Question) -> AsyncIterator[None]:
        """Ask a request within the limit of cost, if there is one.

        Raises:
            ResourceError: the limit is reached.
        """
        if self._budget is None:
            yield
            return
        reserved = await self._budget.reserve(question)
        try:
            yield
        finally:
            self._budget.settle(reserved)

    def keep(self, key: bytes, question: Question, answer: Answer) -> None:
        """Record an answer: its cost, and its cache entry."""
        self._failed_in_a_row, self._has_answered = 0, True
        counts = self._counts
        counts["requests"] += answer.requests
        counts["retries"] += answer.retries
        counts["prompt_tokens"] += answer.prompt_tokens
        counts["completion_tokens"] += answer.completion_tokens
        if answer.cut:
            counts["cut_answers"] += answer.cut
        cost = self.client.cost(answer, question.model)
        if cost:
            counts["cost"] += cost
        if self._kept is not None:
            self._kept.put(key, answer, question.model)

    def note(self, failure: RequestError) -> None:
        """Record a failure.

        Raises:
            RunError: it is one of many in a row.
        """
        self._counts["requests"] += failure.attempts
        self._counts["retries"] += failure.attempts - 1
        self._counts["failed"] += 1
        self._failed_in_a_row += failure.again or not self._has_answered
        if self._failed_in_a_row >= GIVE_UP_AFTER:
            raise RunError(
                f"{self._failed_in_a_row} requests in a row have failed, the last with: {failure}; "
                "fix the endpoint or the settings, then resume the run"
            )


class _BatchCall:
    """One call of `BatchClient.ask`."""

    def __init__(self, batch_client: BatchClient, questions: Sequence[Question | None], stop_at_failure: bool) -> None:
        self.batch_client = batch_client
        self.stop_at_failure = stop_at_failure
        self.outcomes: list[Outcome] = [None] * len(questions)
        self.answered: dict[bytes, Answer] = {}
        self.incomplete = True
        self.failure: RequestError | None = None
        self.places: dict[bytes, list[int]] = {}
        self.questions: dict[bytes, Question] = {}
        for place, question in enumerate(questions):
            if question is not None:
                key = question.key if question.repeats else question.key + place.to_bytes(8, "big")
                self.places.setdefault(key, []).append(place)
                self.questions[key] = question

    async def run(self) -> list[Outcome]:
        waiting = iter(self.questions.items())
        workers = min(self.batch_client.client.max_concurrent_requests, len(self.questions))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(waiting))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        self.incomplete = self.failure is not None
        return self.outcomes

    async def _work(self, waiting: Iterator[tuple[bytes, Question]]) -> None:
        for key, question in waiting:
            if self.failure is not None and self.stop_at_failure:
                return
            self._put(key, await self._asked(key, question))

    async def _asked(self, key: bytes, question: Question) -> Answer | RequestError:
        known = self.batch_client.found(key)
        if known is not None:
            return known
        async with self.batch_client.budgeted(question):
            try:
                answer = await self.batch_client.client.ask(question)
            except RequestError as failure:
                self.batch_client.note(failure)
                return failure
            self.batch_client.keep(key, question, answer)
        return answer

    def _put(self, key: bytes, outcome: Answer | RequestError) -> None:
        if isinstance(outcome, Answer):
            self.answered[key] = outcome
        else:
            self.failure = outcome
        for place in self.places[key]:
            self.outcomes[place] = outcome
