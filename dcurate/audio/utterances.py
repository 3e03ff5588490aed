"""`WordsToUtterances`: what somebody says at a time, from words and when they are spoken."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from dcurate.audio.segments import answered, positive, text_of
from dcurate.audio.transcripts import texts_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.parts import Part, parts_of, type_of_parts

_NOBODY = ("no-speaker", None)
_TIMES = [("start", pa.float64()), ("end", pa.float64())]


@dataclass(frozen=True)
class UtteranceRules:
    """How words become utterances.

    Args:
        by_speaker: whether an utterance is of one speaker, and a pause or another bandwidth ends it.
        min_duration_s: seconds of an utterance from which on a pause or another bandwidth ends it.
        max_duration_s: seconds of an utterance.
        max_pause_s: seconds between two words of an utterance.
        end_marks: characters that end a sentence.
        sentences_ratio: share of the time after which only lengths decide, 0 to 1; 1 for sentences all along.
        only_sentences: whether words without any end of a sentence are left out, instead of split by length.
    """

    by_speaker: bool
    min_duration_s: float
    max_duration_s: float
    max_pause_s: float
    end_marks: str
    sentences_ratio: float
    only_sentences: bool

    def utterances(self, words: list[Part], seed: str) -> list[list[Part]]:
        """Return the words of each utterance.

        Args:
            words: words with ``word``, ``start``, ``end``, ``speaker`` and ``bandwidth``, in order.
            seed: text that decides the lengths that are drawn where `by_speaker` is off.

        Examples:
            >>> rules = UtteranceRules(True, 1.0, 10.0, 2.0, ".", 1.0, False)
            >>> words = [{"word": w, "start": n, "end": n + 1, "speaker": "a"} for n, w in enumerate(["Yes.", "No."])]
            >>> [[word["word"] for word in spoken] for spoken in rules.utterances(words, "")]
            [['Yes.'], ['No.']]
        """
        longest = self._drawn(seed)
        if not self.by_speaker:
            return self._sentences(words, longest) if words else []
        runs = itertools.groupby(words, key=lambda word: word["speaker"])
        return [
            spoken for speaker, run in runs if speaker not in _NOBODY for spoken in self._sentences(list(run), longest)
        ]

    def _drawn(self, seed: str) -> Callable[[], float]:
        """What gives the longest duration of the next utterance."""
        if self.by_speaker:
            return lambda: self.max_duration_s
        source = random.Random(int(hashlib.md5(seed.encode()).hexdigest()[:8], 16))
        return lambda: source.randint(int(self.min_duration_s), int(self.max_duration_s))

    def _sentences(self, words: list[Part], longest: Callable[[], float]) -> list[list[Part]]:
        """Split where sentences end; by lengths what is too long, and what comes after the last end."""
        ends = [number for number, word in enumerate(words) if (word["word"] or " ")[-1] in self.end_marks]
        if not ends:
            return [] if self.only_sentences else self._lengths(words, longest)
        ends = self._joined(words, ends)
        starts = [0, *[end + 1 for end in ends]]
        wanted = self.sentences_ratio * sum(_seconds(words, *span) for span in zip(starts, ends, strict=False))
        spoken, seconds, start = [], 0.0, 0
        for end in ends:
            duration = _seconds(words, start, end)
            seconds += duration
            enough = self.sentences_ratio < 1.0 and seconds > wanted
            part = words[start : (ends[-1] if enough else end) + 1]
            start += len(part)
            if enough or duration > self.max_duration_s:
                spoken += self._lengths(part, longest)
            elif self._is_speech(part):
                spoken.append(part)
            if enough:
                break
        return spoken + (self._lengths(words[start:], longest) if start < len(words) else [])

    def _joined(self, words: list[Part], ends: list[int]) -> list[int]:
        """The ends that stay when short sentences are joined with those after them."""
        stay, start, number = [], 0, 0
        while number < len(ends):
            if _seconds(words, start, ends[number]) < self.min_duration_s:
                while number + 1 < len(ends) and _seconds(words, start, ends[number + 1]) <= self.max_duration_s:
                    number += 1
            stay.append(ends[number])
            start = ends[number] + 1
            number += 1
        return stay

    def _lengths(self, words: list[Part], longest: Callable[[], float]) -> list[list[Part]]:
        """Split where the time is over, and with `by_speaker` at pauses and other bandwidths."""
        limit, parts = longest(), [words[:1]]
        for word in words[1:]:
            part = parts[-1]
            if word["end"] - part[0]["start"] > limit:
                parts.append([word])
                limit = longest()
            elif self.by_speaker and self._ends(part, word):
                parts.append([word])
            else:
                part.append(word)
        return [part for part in parts if self._is_speech(part)]

    def _ends(self, part: list[Part], word: Part) -> bool:
        """Whether an utterance that is long enough ends before a word."""
        last = part[-1]
        other = word["start"] - last["end"] > self.max_pause_s or word.get("bandwidth") != last.get("bandwidth")
        return other and last["end"] - part[0]["start"] >= self.min_duration_s

    def _is_speech(self, part: list[Part]) -> bool:
        start, end = part[0]["start"], part[-1]["end"]
        if end <= start or (len(part) == 1 and end - start > self.max_duration_s):
            return False
        return any((word["word"] or "").strip() for word in part)


def _seconds(words: list[Part], first: int, last: int) -> float:
    return float(words[last]["end"] - words[first]["start"])


@dataclass
class WordsToUtterances(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make utterances of words, to train recognisers or voices with; NeMo Curator's ``PrepareModuleSegmentsStage``.

    Sentences that are shorter than `min_duration_s` join those after them up to `max_duration_s`. What is longer, and
    what comes after the last end of a sentence, is split by lengths. With `by_speaker`, as voices need, an utterance is
    of one speaker, and one of `min_duration_s` also ends at a pause above `max_pause_s` and where the bandwidth
    changes. Without it, as recognisers need, speakers may change, and the length at which to split is drawn between the
    two durations, in whole seconds, by the text in `id_field`: the same in every run.

    The new column has a list of ``speaker`` (several with commas), ``start``, ``end``, ``text`` and ``words``, and
    with `metrics` the values of each word. It is null where the segments are. A row with a word that has no start or
    end, or ends before it starts, goes to quarantine as ``bad segments``.

    Args:
        segments_field: the column of segments with ``speaker``, ``text`` and ``words``, as `WordsToSegments` makes it;
            segments without text are left out, and with `by_speaker` those of ``no-speaker``.
        by_speaker: whether an utterance is of one speaker; NeMo's ``module="tts"``, otherwise ``"asr"``.
        min_duration_s: seconds of an utterance.
        max_duration_s: the same.
        max_pause_s: seconds between two words of an utterance.
        end_marks: characters that end a sentence.
        sentences_ratio: share of the time after which only lengths decide, 0 to 1.
        only_sentences: whether words without any end of a sentence are left out, instead of split by length.
        id_field: the column of texts that decide what is drawn without `by_speaker`, such as the path of the recording;
            None for the same lengths in every row.
        metrics: fields of the ``metrics`` of segments, in which utterances have a list of the values of their words.
        output_field: the new column.
        name: name of the stage.

    Raises:
        PipelineError: a setting is out of range.

    Examples:
        >>> words = [{"word": w, "start": n, "end": n + 0.9} for n, w in enumerate("Good day to you . How are".split())]
        >>> turns = [{"start": 0.0, "end": 7.0, "speaker": "a", "text": "Good day", "words": words}]
        >>> batch = DocumentBatch(data=pa.table({"spoken_segments": [turns]}))
        >>> spoken = WordsToUtterances(min_duration_s=2.0).process(batch).to_arrow()["utterances"][0].as_py()
        >>> [(utterance["text"], utterance["end"]) for utterance in spoken]
        [('Good day to you .', 4.9), ('How are', 6.9)]
    """

    segments_field: str = "spoken_segments"
    by_speaker: bool = True
    min_duration_s: float = 5.0
    max_duration_s: float = 20.0
    max_pause_s: float = 2.0
    end_marks: str = ".!?。？！"
    sentences_ratio: float = 1.0
    only_sentences: bool = False
    id_field: str | None = None
    metrics: Sequence[str] = ()
    output_field: str = "utterances"
    name: str = "words_to_utterances"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self.name, {"max_duration_s": self.max_duration_s})
        if not 0 <= self.min_duration_s <= self.max_duration_s or not self.max_pause_s >= 0:
            raise PipelineError(
                f"stage {self.name!r}: min_duration_s={self.min_duration_s} must be from 0 to max_duration_s="
                f"{self.max_duration_s}, and max_pause_s={self.max_pause_s} at least 0"
            )
        if not 0 <= self.sentences_ratio <= 1:
            raise PipelineError(f"stage {self.name!r}: sentences_ratio={self.sentences_ratio} must be from 0 to 1")

    def inputs(self) -> Spec:
        return ["data"], [field for field in (self.segments_field, self.id_field) if field is not None]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    @property
    def rules(self) -> UtteranceRules:
        """How words become utterances."""
        return UtteranceRules(
            by_speaker=self.by_speaker,
            min_duration_s=self.min_duration_s,
            max_duration_s=self.max_duration_s,
            max_pause_s=self.max_pause_s,
            end_marks=self.end_marks,
            sentences_ratio=self.sentences_ratio,
            only_sentences=self.only_sentences,
        )

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        kind = type_of_parts(table, self.segments_field)
        seeds = [""] * table.num_rows if self.id_field is None else texts_of(table, self.id_field)
        answers = [
            self._utterances(segments, seed or "") if isinstance(segments, list) else segments
            for segments, seed in zip(parts_of(table, self.segments_field), seeds, strict=True)
        ]
        return answered(task, answers, {self.output_field: pa.list_(self._type(kind))}, self.name)

    def _utterances(self, segments: list[Part], seed: str) -> tuple[list[Part]] | MediaFault:
        words = words_of(segments, "words", self.metrics)
        for number, word in enumerate(words):
            start, end = word["start"], word["end"]
            if start is None or end is None or not float("-inf") < start <= end < float("inf"):
                return MediaFault("bad segments", f"word {number} is from {start} to {end} s")
        return ([utterance(spoken, self.metrics) for spoken in self.rules.utterances(words, seed)],)

    def _type(self, kind: pa.StructType) -> pa.StructType:
        names = {field.name: field.type for field in kind}
        measured = names.get("metrics", pa.struct([]))
        types = {field.name: field.type for field in measured} if pa.types.is_struct(measured) else {}
        word = pa.struct([("word", pa.string()), *_TIMES])
        fields = [("speaker", pa.string()), *_TIMES, ("text", pa.string()), ("words", pa.list_(word))]
        if self.metrics:
            values = [(name, pa.list_(types.get(name, pa.float64()))) for name in self.metrics]
            fields.append(("metrics", pa.struct(values)))
        return pa.struct(fields)


def words_of(segments: list[Part], words_field: str, metrics: Sequence[str], text_field: str = "text") -> list[Part]:
    """The words of segments with text, each with its speaker and the metrics of its segment.

    Examples:
        >>> words_of([{"speaker": "a", "text": "yes", "words": [{"word": "yes", "start": 0, "end": 1}]}], "words", [])
        [{'word': 'yes', 'start': 0, 'end': 1, 'speaker': 'a', 'bandwidth': None}]
    """
    return [
        {
            **{"word": "", "start": None, "end": None},
            **word,
            "speaker": segment.get("speaker"),
            **{name: (segment.get("metrics") or {}).get(name) for name in ("bandwidth", *metrics)},
        }
        for segment in segments
        if text_of({"text": segment.get(text_field)})
        for word in segment.get(words_field) or []
    ]


def utterance(words: list[Part], metrics: Sequence[str]) -> Part:
    """What is said in some words: the speakers, the time, the text and the words themselves."""
    speakers = dict.fromkeys(word["speaker"] for word in words if word["speaker"] is not None)
    spoken: Part = {
        "speaker": ",".join(speakers) or None,
        "start": words[0]["start"],
        "end": words[-1]["end"],
        "text": " ".join(word["word"] or "" for word in words),
        "words": [{name: word[name] for name in ("word", "start", "end")} for word in words],
    }
    return spoken | ({"metrics": {name: [word[name] for word in words] for name in metrics}} if metrics else {})
