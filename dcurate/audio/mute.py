"""`MuteWords`: spans of a transcript as seconds of its recording, so that these can be muted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from dcurate.audio.segments import answered
from dcurate.audio.transcripts import texts_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.parts import Part, parts_of, type_of_parts
from dcurate.media.refs import REF, refs_of

#: A column of intervals, in seconds.
INTERVALS = pa.list_(pa.struct([("start", pa.float64()), ("end", pa.float64())]))


@dataclass
class MuteWords(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Find the seconds of a recording in which spans of its transcript are spoken, and take their words out.

    Spans are places in a text, such as those of personal data from `FindPii`. A word of which a span has a letter is
    muted, with `pad_s` before and after it; so is all between the first and the last word of a span. The new column has
    these intervals, sorted and apart, in seconds of the recording (not of a segment of it), so that they also hold for
    the rows that `SegmentRows` makes. `CutAudio` with ``mute_field`` makes them silent. In the column of words, the
    ``word`` of muted words becomes `replacement`; other fields stay. The text stays, too: replace it by `PiiModifier`
    after this stage. Only what a recogniser wrote down, and gave the right times, can be found.

    The letters and digits of the text must be those of the words, in their order; white space, punctuation and case may
    differ. A row goes to quarantine, as its sound would not be muted: ``words do not match``, ``no words`` if they are
    null, ``bad spans`` if one is outside the text or has no letter or digit, and ``bad segments`` if a word has no
    times. Rows without spans pass as they are.

    Args:
        spans_field: the column of spans: lists of structures with ``start`` and ``end``, in characters of the text.
        text_field: the column of transcripts.
        words_field: the column of words, as `Transcribe` makes it; seconds count from the start of the row's segment.
        pad_s: seconds that are muted before and after a word.
        replacement: what is written for a muted word.
        output_field: the new column; null where the spans are.
        name: name of the stage.

    Raises:
        PipelineError: `pad_s` is not from 0 to 10 seconds.
        DataError: a column holds something else.

    Examples:
        >>> words = [{"word": "call", "start": 0.5, "end": 0.75}, {"word": "Jo.", "start": 1.0, "end": 1.5}]
        >>> rows = pa.table({"pred_text": ["Call Jo."], "pii_spans": [[{"start": 5, "end": 7}]], "words": [words]})
        >>> [row] = MuteWords(pad_s=0.25).process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        >>> row["muted"], [word["word"] for word in row["words"]]
        ([{'start': 0.75, 'end': 1.75}], ['call', '<muted>'])
    """

    spans_field: str = "pii_spans"
    text_field: str = "pred_text"
    words_field: str = "words"
    pad_s: float = 0.1
    replacement: str = "<muted>"
    output_field: str = "muted"
    name: str = "mute_words"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.pad_s, bool) or not isinstance(self.pad_s, int | float) or not 0 <= self.pad_s <= 10:
            raise PipelineError(f"{self.name}: pad_s={self.pad_s!r} must be from 0 to 10 seconds")

    def inputs(self) -> Spec:
        return ["data"], [self.spans_field, self.text_field, self.words_field]

    def optional_inputs(self) -> list[str]:
        return [REF]

    def outputs(self) -> Spec:
        return ["data"], [self.words_field, self.output_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        type_of_parts(table, self.spans_field)
        word = type_of_parts(table, self.words_field)
        refs = refs_of(table) if REF in table.column_names else [None] * table.num_rows
        starts = [0.0 if ref is None else ref.start_s or 0.0 for ref in refs]
        columns = (parts_of(table, self.spans_field), texts_of(table, self.text_field), self._words(table, word))
        answers = [self._muted(*row) for row in zip(*columns, starts, strict=True)]
        kind = table.schema.field(self.words_field).type
        return answered(task, answers, {self.words_field: kind, self.output_field: INTERVALS}, self.name)

    def _words(self, table: pa.Table, word: pa.StructType) -> list[list[Part] | MediaFault | None]:
        known = word.get_field_index("word") >= 0 and not pa.types.is_nested(word.field("word").type)
        if not known and pa.types.is_struct(getattr(table.schema.field(self.words_field).type, "value_type", None)):
            raise DataError(f"column {self.words_field!r} holds {word}, not words with their text in the field 'word'")
        return parts_of(table, self.words_field)

    def _muted(self, spans: Any, text: str | None, words: Any, start_s: float) -> Any:
        """The words and the intervals of a row, or what is wrong with it."""
        for part in (spans, words):
            if isinstance(part, MediaFault):
                return part
        if not spans:
            return words, spans
        try:
            numbers = numbers_of(text or "", words, spans)
        except MediaError as error:
            return error.fault
        times = []
        for some in (words[part.start : part.stop] for part in numbers):
            first, last = min(word["start"] for word in some), max(word["end"] for word in some)
            times.append((start_s + first - self.pad_s, start_s + last + self.pad_s))
        gone = {number for part in numbers for number in part}
        kept = [{**word, "word": self.replacement} if number in gone else word for number, word in enumerate(words)]
        return kept, apart(times)


class _Letters(NamedTuple):
    """The letters of texts, and the number of the text or character that each is of."""

    letters: str
    numbers: list[int]


def numbers_of(text: str, words: Sequence[Part] | None, spans: Sequence[Part]) -> list[range]:
    """Return the numbers of the words that spans of a text are made of.

    Raises:
        MediaError: a span is not in the text, or the words are not those of the text.

    Examples:
        >>> words = [{"word": "My"}, {"word": "number"}, {"word": "is"}, {"word": "5-55"}]
        >>> numbers_of("My number: is 555.", words, [{"start": 14, "end": 17}])
        [range(3, 4)]
    """
    if words is None:
        raise MediaError("no words", f"{len(spans)} spans of the text, and no words with times")
    here, there = _matched(text, words)
    numbers = []
    for span in spans:
        first, last = (bisect_left(here.numbers, span[side]) for side in ("start", "end"))
        if not 0 <= span["start"] < span["end"] <= len(text) or first == last:
            raise MediaError("bad spans", f"one from {span['start']} to {span['end']} in {len(text)} characters")
        numbers.append(range(there.numbers[first], there.numbers[last - 1] + 1))
    return numbers


def _matched(text: str, words: Sequence[Part]) -> tuple[_Letters, _Letters]:
    """The same letters of a text and of words: with punctuation if that is the same, too."""
    tests: list[Callable[[str], bool]] = [lambda character: not character.isspace(), str.isalnum]
    for is_letter in tests:
        here = _letters(enumerate(text), is_letter)
        there = _letters(((number, word["word"] or "") for number, word in enumerate(words)), is_letter)
        if here.letters == there.letters:
            return here, there
    raise MediaError("words do not match", f"{len(words)} words have other letters than the text")


def _letters(texts: Iterable[tuple[int, str]], is_letter: Callable[[str], bool]) -> _Letters:
    letters, numbers = list[str](), list[int]()
    for number, text in texts:
        some = "".join(filter(is_letter, text)).casefold()
        letters.append(some)
        numbers += [number] * len(some)
    return _Letters("".join(letters), numbers)


def apart(times: Sequence[tuple[float, float]]) -> list[Part]:
    """Return intervals that cover others, sorted, none before 0, and none that touch.

    Examples:
        >>> apart([(3.0, 4.0), (-1.0, 1.0), (0.5, 2.0)])
        [{'start': 0.0, 'end': 2.0}, {'start': 3.0, 'end': 4.0}]
    """
    made: list[Part] = []
    for start, end in sorted(times):
        if made and start <= made[-1]["end"]:
            made[-1]["end"] = max(made[-1]["end"], end)
        else:
            made.append({"start": max(0.0, start), "end": end})
    return made
