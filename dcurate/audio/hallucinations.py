"""`Hallucinations`: transcripts that a speech recogniser made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from dcurate.audio.transcripts import durations_of, texts_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError, shown
from dcurate.frames.document import DocumentBatch

#: Languages with long words: agglutinative ones and those with compounds, as in NeMo Curator.
_LONG_WORDS = frozenset({"fi", "hu", "et", "de", "nl", "da", "sv", "no"})
#: Characters of a phrase from which on it also matches what begins with it.
_BEGINNING = 8
_MARKS = str.maketrans(dict.fromkeys(".?!,", ""))


@dataclass
class Hallucinations(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add why a transcript looks made up by its recogniser.

    The rules and limits are those of NeMo Curator's ``WhisperHallucinationStage``.

    Reasons, with commas where there are several: ``repeated_ngrams`` (few different words), ``long_word``,
    ``phrase_match`` (a known phrase, or what begins with one of 8 characters or more) and ``high_char_rate``. The
    empty text if there is none; null for a text that is null or blank.

    Args:
        phrases: what the recogniser is known to make up, such as of silence; ``. ? ! ,`` do not count.
        text_field: the column of transcripts.
        duration_field: the column of durations, in seconds; one that is null or not above 0 has no rate.
        language_field: the column of languages, ISO 639-1; None if no text is in one with long words.
        hallucination_field: the column for the reasons.
        max_repeated_ratio: different words by words up to which a text is repeated.
        min_long_word_chars: characters of a long word.
        min_long_compound_chars: the same in Finnish, Hungarian, Estonian, German, Dutch, Danish, Swedish and Norwegian.
        min_longer_ratio: how much longer than the second longest a word is long, by that one's length; not in these
            languages.
        max_char_rate: characters of words per second.
        name: name of the stage.

    Raises:
        PipelineError: `phrases` is not a list of texts.

    Examples:
        >>> texts = {"pred_text": ["Thank you for watching.", "no no no no", "good day"], "duration": [2.0, 2.0, 0.1]}
        >>> stage = Hallucinations(["Thank you"])
        >>> stage.process(DocumentBatch(data=pa.table(texts))).to_arrow()["hallucination"].to_pylist()
        ['phrase_match', 'repeated_ngrams', 'high_char_rate']
    """

    phrases: Sequence[str] = ()
    text_field: str = "pred_text"
    duration_field: str = "duration"
    language_field: str | None = None
    hallucination_field: str = "hallucination"
    max_repeated_ratio: float = 0.4
    min_long_word_chars: int = 25
    min_long_compound_chars: int = 35
    min_longer_ratio: float = 3.0
    max_char_rate: float = 40.0
    name: str = "hallucinations"

    def __post_init__(self) -> None:
        is_list = isinstance(self.phrases, Sequence) and not isinstance(self.phrases, str | bytes)
        if not is_list or not all(isinstance(phrase, str) for phrase in self.phrases):
            raise PipelineError(f"stage {self.name!r}: phrases={shown(self.phrases)} must be a list of texts")

    def inputs(self) -> Spec:
        fields = (self.text_field, self.duration_field, self.language_field)
        return ["data"], [field for field in fields if field is not None]

    def outputs(self) -> Spec:
        return ["data"], [self.hallucination_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        texts, durations = texts_of(table, self.text_field), durations_of(table, self.duration_field)
        languages = texts_of(table, self.language_field) if self.language_field is not None else [None] * len(texts)
        phrases = {phrase.strip().translate(_MARKS) for phrase in self.phrases if phrase.strip()}
        sizes = {len(phrase) for phrase in phrases if len(phrase) >= _BEGINNING}
        found: list[str | None] = []
        for text, duration, language in zip(texts, durations, languages, strict=True):
            if text is None or not text.strip():
                found.append(None)
                continue
            words = text.split()
            hits = {
                "repeated_ngrams": len(set(words)) / len(words) <= self.max_repeated_ratio,
                "long_word": self._is_long(words, (language or "").lower().strip() in _LONG_WORDS),
                "phrase_match": _matches(text, phrases, sizes),
                "high_char_rate": (duration or 0) > 0 and sum(map(len, words)) / (duration or 1) > self.max_char_rate,
            }
            found.append(", ".join(reason for reason, hit in hits.items() if hit))
        return task.with_data(table.append_column(self.hallucination_field, pa.array(found, pa.string())))

    def _is_long(self, words: list[str], in_long_words: bool) -> bool:
        lengths = sorted(map(len, words))
        if in_long_words:
            return lengths[-1] >= self.min_long_compound_chars
        if lengths[-1] >= self.min_long_word_chars:
            return True
        return len(lengths) > 1 and (lengths[-1] - lengths[-2]) / lengths[-2] >= self.min_longer_ratio


def _matches(text: str, phrases: set[str], sizes: set[int]) -> bool:
    plain = text.strip().translate(_MARKS)
    return any(
        form in phrases or any(form[:size] in phrases for size in sizes if size <= len(form))
        for form in {plain, plain.replace("-", " ")}
    )
