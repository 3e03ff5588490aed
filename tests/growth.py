"""Texts made of what a grammar consists of, and a law: the time that they take grows with their length."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

#: Lengths at which the time is taken. At the last, work that reads all that is before each character takes more than
#: the law allows, even if it reads 50 GB a second.
LENGTHS = (10_000, 100_000, 300_000)
#: Lengths for patterns of two tokens, of which there are many.
SHORT = (10_000, 100_000)
#: Texts of this length are tried too, beyond the lengths of a test: 1,000,000 for the whole of a law that is cut short.
BYTES = int(os.environ.get("DCURATE_GROWTH_BYTES", "0"))
#: Times below this say nothing, in CPU seconds.
FLOOR_S = 0.25
#: How much more than linear is allowed.
ALLOWED = 2

Pattern = Callable[[int], str]


def repeated(*tokens: str) -> Pattern:
    """The same tokens again and again."""
    unit = "".join(tokens)
    return lambda length: (unit * (length // len(unit) + 1))[:length]


def followed(first: str, second: str) -> Pattern:
    """One token again and again, then another: what opens often before what closes."""
    return lambda length: first * (length // 2 // len(first)) + second * (length // 2 // len(second))


def singles(tokens: Iterable[str]) -> Iterator[Pattern]:
    """Each token again and again."""
    return map(repeated, tokens)


def pairs(tokens: Sequence[str]) -> Iterator[Pattern]:
    """Each two of some tokens in turn, and one after the other."""
    for two in itertools.permutations(tokens, 2):
        yield repeated(*two)
        yield followed(*two)


def patterns(tokens: Sequence[str], together: Sequence[str] | None = None) -> Iterator[Pattern]:
    """Each token alone, and each two of some of them in turn and one after the other.

    Args:
        together: those of which pairs are made; all if not given.
    """
    yield from singles(tokens)
    yield from pairs(tokens if together is None else together)


def beyond(longest: int, bytes_each: int) -> Iterator[int]:
    """Lengths above one, up to `BYTES`; no more than ten times the last, as one that grows too fast takes for ever."""
    while longest < BYTES // bytes_each:
        longest = min(10 * longest, BYTES // bytes_each)
        yield longest


def assert_linear(
    work: Callable[[Any], object],
    made: Iterable[Callable[[int], Any]],
    lengths: Sequence[int] = LENGTHS,
    before: str = "",
    bytes_each: int = 1,
) -> None:
    """Fail for a pattern that takes more than twice as long as its length explains: 20 times for 10 times the text.

    Shorter texts come first, so that what grows too fast is found before it takes for ever. A text that takes less than
    `FLOOR_S` is within the law, as it allows that much for any.

    Args:
        lengths: in ascending order; the first is compared with a quarter of it.
        before: what each text begins with.
        bytes_each: how many bytes one of the length is, where it is the number of members or keys, say.
    """
    lengths = (*lengths, *beyond(lengths[-1], bytes_each))
    warm = True
    for pattern in made:
        for shorter, longer in zip((lengths[0] // 4, *lengths), lengths, strict=False):
            text = before + pattern(longer) if before else pattern(longer)
            least = pattern(shorter)
            if warm:
                work(least)  # compiles and loads, once
                warm = False
            most_s = _seconds(work, text)
            if most_s <= FLOOR_S:
                continue
            least_s = min(_seconds(work, before + least if before else least) for _ in range(3))
            allowed_s = ALLOWED * longer / shorter * least_s + FLOOR_S
            if most_s > allowed_s:
                most_s = min(most_s, *(_seconds(work, text) for _ in range(2)))  # others made it slow, or it is
            assert most_s <= allowed_s, (
                f"{text[:60]!r}...: {shorter} characters take {least_s:.3f} s, {longer} take {most_s:.3f} s"
            )


def assert_quick(work: Callable[[], object], most_s: float) -> None:
    """Fail for work that takes more CPU seconds each time: three times, as the first call may compile and load."""
    taken = []
    for _ in range(3):
        taken.append(_seconds(lambda _: work(), None))
        if taken[-1] <= most_s:
            return
    raise AssertionError(f"it took {min(taken):.3f} s, and at most {most_s} s are allowed")


def _seconds(work: Callable[[Any], object], text: Any) -> float:
    """Return the CPU time; without collections of garbage, which look at what other tests have left too."""
    gc.disable()
    try:
        begin = time.thread_time()
        work(text)
        return time.thread_time() - begin
    finally:
        gc.enable()
