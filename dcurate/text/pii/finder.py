"""Find personal data in the texts of a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, StageError, listed, nearest
from dcurate.frames.text import TextColumn, character_places
from dcurate.kernels.pii.scan import KINDS, PiiSpans, find_pii
from dcurate.text.pii.recognizers import Entity, Recognizer


class PersonalData(NamedTuple):
    """Personal data in a column: its spans, and the names of the numbers in ``spans.kinds``."""

    spans: PiiSpans
    names: tuple[str, ...]

    def totals(self) -> dict[str, int]:
        """Return the total of each kind that occurs."""
        counts = np.bincount(self.spans.kinds, minlength=len(self.names))
        return {name: int(count) for name, count in zip(self.names, counts, strict=True) if count}


@dataclass(frozen=True)
class PiiFinder:
    """Finds personal data: by rules, and by a recogniser if one is given.

    Args:
        supported_entities: what to look for: of `KINDS`, and labels of the recogniser; all by default.
        public_ips_only: leave out IP addresses that the world cannot reach: private, reserved, of documentation.
        recognizer: finds names, say: a function of a text to begin, end and label of what is in it.

    Raises:
        PipelineError: an entity that no rule finds, and no recogniser is given.

    Examples:
        >>> text = "Write to jo@example.org."
        >>> column = TextColumn(np.array([0, 24]), np.frombuffer(text.encode(), np.uint8))
        >>> spans, names = PiiFinder().find(column)
        >>> names[spans.kinds[0]], text[spans.starts[0] : spans.stops[0]]
        ('EMAIL_ADDRESS', 'jo@example.org')
    """

    supported_entities: Sequence[str] | None = field(default=None, hash=False)
    public_ips_only: bool = True
    recognizer: Recognizer | None = None

    def __post_init__(self) -> None:
        if isinstance(self.supported_entities, str):
            raise PipelineError(f"supported_entities={self.supported_entities!r} must be a list of entities")
        wanted = self.supported_entities or ()
        unknown = [name for name in wanted if name not in KINDS]
        if unknown and self.recognizer is None:
            raise PipelineError(
                f"no rule finds {listed(unknown)}; give a recognizer that does{nearest(unknown[0], KINDS)}"
            )

    @property
    def kinds(self) -> int:
        """The kinds that the rules find, as bits."""
        wanted = KINDS if self.supported_entities is None else self.supported_entities
        return sum(1 << number for number, kind in enumerate(KINDS) if kind in wanted)

    def load_model(self) -> None:
        """Load the recogniser's model, if it has one."""
        load = getattr(self.recognizer, "load_model", None)
        if load is not None:
            load()

    def find(self, column: TextColumn) -> PersonalData:
        """Personal data in all texts of a column.

        Raises:
            StageError: the recogniser raised, or answered what is no place in the text; without the text.
        """
        spans = find_pii(*column, np.arange(len(column)), self.kinds, self.public_ips_only)
        return PersonalData(spans, KINDS) if self.recognizer is None else self._with_recognized(column, spans)

    def _with_recognized(self, column: TextColumn, spans: PiiSpans) -> PersonalData:
        names = {kind: number for number, kind in enumerate(KINDS)}
        rows: list[tuple[int, int, int]] = []
        bounds = [0]
        for row, text in enumerate(_encoded(column)):
            first, last = spans.bounds[row], spans.bounds[row + 1]
            known = list(zip(spans.starts[first:last], spans.stops[first:last], spans.kinds[first:last], strict=True))
            origin = int(column.offsets[row])
            for start, stop, label in self._recognized(text):
                if self.supported_entities is None or label in self.supported_entities:
                    known.append((origin + start, origin + stop, names.setdefault(label, len(names))))
            rows.extend(_apart(known))
            bounds.append(len(rows))
        starts, stops, kinds = np.array(rows, np.int64).reshape(-1, 3).T
        return PersonalData(PiiSpans(np.array(bounds), starts, stops, kinds.astype(np.int16)), tuple(names))

    def _recognized(self, text: bytes) -> list[Entity]:
        """Return the findings of the recognizer with byte offsets. Its errors may quote the text and are hidden."""
        assert self.recognizer is not None
        places = character_places(text)
        try:
            entities = list(self.recognizer(text.decode(errors="surrogatepass")))
        except Exception as error:
            raise StageError(
                f"the recognizer raised {type(error).__name__} on a text of {len(places) - 1} characters "
                "(its message is omitted, because it may quote the text)"
            ) from None
        for start, stop, label in entities:
            if not (0 <= start <= stop < len(places) and isinstance(label, str)):
                raise StageError(
                    f"the recognizer returned ({start!r}, {stop!r}, ...) for a text of {len(places) - 1} characters; "
                    "it must return begin, end and label"
                )
        return [(int(places[start]), int(places[stop]), label) for start, stop, label in entities if start < stop]


def _apart(spans: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Return the spans in order; of overlapping ones, the first in the list."""
    taken: list[tuple[int, int, int]] = []
    for span in spans:
        if all(span[1] <= start or stop <= span[0] for start, stop, _ in taken):
            taken.append(span)
    return iter(sorted(taken))


def _encoded(column: TextColumn) -> Iterator[bytes]:
    offsets, data = column
    for row in range(len(column)):
        yield data[offsets[row] : offsets[row + 1]].tobytes()


def counted(found: PersonalData) -> npt.NDArray[np.int64]:
    """Count the spans of each kind in each text, of shape (texts, kinds)."""
    texts = np.repeat(np.arange(len(found.spans.bounds) - 1), np.diff(found.spans.bounds))
    counts = np.zeros((len(found.spans.bounds) - 1, len(found.names)), np.int64)
    np.add.at(counts, (texts, found.spans.kinds.astype(np.int64)), 1)
    return counts
