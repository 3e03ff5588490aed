"""Texts made of what a grammar consists of, and a law: the time that they take grows with their length."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

#: Lengths at which the time is taken; each is four times the one before.
LENGTHS = (1_000, 4_000, 16_000, 64_000)
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


def patterns(tokens: Sequence[str], pairs: Sequence[str] | None = None) -> Iterator[Pattern]:
    """Each token alone, and each two of some of them in turn and one after the other.

    Args:
        pairs: those of which pairs are made; all if not given.
    """
    yield from map(repeated, tokens)
    for two in itertools.permutations(tokens if pairs is None else pairs, 2):
        yield repeated(*two)
        yield followed(*two)


def assert_linear(
    work: Callable[[str], object], made: Iterable[Pattern], lengths: Sequence[int] = LENGTHS, before: str = ""
) -> None:
    """Fail for a pattern that takes more than twice four times as long when it is four times as long.

    Shorter texts come first, so that what grows too fast is found before it takes for ever.

    Args:
        before: what each text begins with.
    """
    work(before + "Some words.\n" * 10)
    for pattern in made:
        for shorter, longer in zip((lengths[0] // 4, *lengths), lengths, strict=False):
            text = before + pattern(longer)
            if _seconds(work, text) > FLOOR_S:
                most = min(_seconds(work, text) for _ in range(2))
                least = min(_seconds(work, before + pattern(shorter)) for _ in range(3))
                assert most <= ALLOWED * longer / shorter * least + FLOOR_S, (
                    f"{text[:60]!r}...: {shorter} characters take {least:.3f} s, {longer} take {most:.3f} s"
                )


def _seconds(work: Callable[[str], object], text: str) -> float:
    begin = time.thread_time()
    work(text)
    return time.thread_time() - begin
