"""`SelectTranscript`: which of two transcripts of a recording to believe."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from dcurate.audio.transcripts import durations_of, texts_of
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.kernels.edits import Numbers, count_edits, encoded, numbered

_MARKS = re.compile(r"[^\w\s]")

#: The texts of a row and what is known of them, in the order of `SelectTranscript._columns`.
_Row = tuple[str | None, str | None, str | None, str | None, str | None, float | None]


@dataclass
class SelectTranscript(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Take the better of two transcripts, or a reference, as NeMo Curator's ``SelectBestPredictionStage`` does.

    A recording is transcribed twice, and `Hallucinations` has judged both texts. The first rule that holds decides; its
    name is in ``transcript_reason``:

    * ``short``: the recording is shorter than `min_duration_s`, and there is a reference: the reference.
    * ``no primary``: the primary transcript is null, because its recogniser does not know the language: the fallback,
      or else the reference. ``none`` if both are missing; the text is then null.
    * ``recovered``: the primary transcript looks made up and the fallback does not: the fallback.
    * ``reference``: the primary looks made up, and `use_reference` is on: the reference.
    * ``agreement``: both look made up, but nearly agree: the primary. Agreement is 1 less the word error rate of the
      fallback against the primary, without punctuation and case; that rate is in ``transcript_wer``.
    * ``hallucination``: they do not agree, or there is no fallback: the primary, which one should drop.
    * ``primary``: the primary transcript does not look made up: it is taken.

    Args:
        primary_field: the column of the first transcripts.
        fallback_field: the column of the second ones.
        hallucination_field: the column that says why a first transcript looks made up; empty or null if it does not.
        fallback_hallucination_field: the same for the second ones; null for a blank text.
        reference_field: the column of texts that came with the recordings; None if there are none.
        duration_field: the column of durations, in seconds, for `min_duration_s`.
        min_duration_s: seconds of a recording that is long enough for its recogniser; None for no rule ``short``.
        use_reference: whether the reference is taken where the primary looks made up.
        min_agreement_ratio: agreement that is enough, 0 to 1.
        max_cells: work for a pair of texts, as in `ErrorRates`; those that take more do not agree.
        prefix: comes before the columns ``transcript``, ``transcript_source`` (``primary``, ``fallback``, ``reference``
            or null), ``transcript_reason`` and ``transcript_wer``.
        name: name of the stage.

    Raises:
        PipelineError: `min_agreement_ratio` is not between 0 and 1, or a rule lacks its column.

    Examples:
        >>> rows = {
        ...     "pred_text": ["good day", "you you you", "no no no"],
        ...     "fallback_text": ["good", "how are you", "No, no, no!"],
        ...     "hallucination": ["", "repeated_ngrams", "repeated_ngrams"],
        ...     "fallback_hallucination": ["", "", "repeated_ngrams"],
        ... }
        >>> chosen = SelectTranscript().process(DocumentBatch(data=pa.table(rows))).to_arrow()
        >>> chosen["transcript"].to_pylist(), chosen["transcript_reason"].to_pylist()
        (['good day', 'how are you', 'no no no'], ['primary', 'recovered', 'agreement'])
    """

    primary_field: str = "pred_text"
    fallback_field: str = "fallback_text"
    hallucination_field: str = "hallucination"
    fallback_hallucination_field: str = "fallback_hallucination"
    reference_field: str | None = None
    duration_field: str = "duration"
    min_duration_s: float | None = None
    use_reference: bool = False
    min_agreement_ratio: float = 0.8
    max_cells: int = 100_000_000
    prefix: str = ""
    name: str = "select_transcript"

    def __post_init__(self) -> None:
        if not 0 <= self.min_agreement_ratio <= 1:
            raise PipelineError(
                f"stage {self.name!r}: min_agreement_ratio={self.min_agreement_ratio} must be between 0 and 1"
            )
        for setting in ("min_duration_s", "use_reference"):
            if self.reference_field is None and getattr(self, setting):
                raise PipelineError(
                    f"stage {self.name!r}: {setting}={getattr(self, setting)} takes references; name reference_field"
                )
        if self.max_cells < 1:
            raise PipelineError(f"stage {self.name!r}: max_cells={self.max_cells} must be at least 1")

    def inputs(self) -> Spec:
        return ["data"], [field for field in self._columns if field is not None]

    def outputs(self) -> Spec:
        return ["data"], [self.prefix + f"transcript{part}" for part in ("", "_source", "_reason", "_wer")]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        count_edits(encoded(["a"]), encoded(["b"]), self.max_cells)

    @property
    def _columns(self) -> list[str | None]:
        return [
            self.primary_field,
            self.fallback_field,
            self.hallucination_field,
            self.fallback_hallucination_field,
            self.reference_field,
            None if self.min_duration_s is None else self.duration_field,
        ]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        *texts, duration = self._columns
        blank = [None] * table.num_rows
        columns = [blank if field is None else texts_of(table, field) for field in texts]
        seconds = blank if duration is None else durations_of(table, duration)
        rows: list[_Row] = list(zip(*columns, seconds, strict=True))
        choices = [self._choice(row) for row in rows]
        open_rows = [number for number, choice in enumerate(choices) if choice is None]
        rates = word_error_rates(
            [(rows[number][0] or "", rows[number][1] or "") for number in open_rows], self.max_cells
        )
        wer: list[float | None] = [None] * len(rows)
        for number, rate in zip(open_rows, rates, strict=True):
            wer[number] = rate
            agree = rate is not None and round(rate * 100, 2) <= round(100 - 100 * self.min_agreement_ratio, 9)
            choices[number] = rows[number][0], "primary", "agreement" if agree else "hallucination"
        added = [list(column) for column in zip(*(choice for choice in choices if choice), strict=True)] or [[], [], []]
        for name, column in zip(self.outputs()[1][:3], added, strict=True):
            table = table.append_column(name, pa.array(column, pa.string()))
        return task.with_data(table.append_column(self.outputs()[1][3], pa.array(wer, pa.float64())))

    def _choice(self, row: _Row) -> tuple[str | None, str | None, str] | None:
        """The text, its source and the rule; None if the agreement of the texts decides."""
        primary, fallback, made_up, fallback_made_up, reference, seconds = row
        reference = (reference or "").strip()
        if reference and self.min_duration_s is not None and seconds is not None and 0 < seconds < self.min_duration_s:
            return reference, "reference", "short"
        if primary is None:
            if fallback:
                return fallback, "fallback", "no primary"
            return (reference, "reference", "no primary") if reference else (None, None, "none")
        if not made_up:
            return primary, "primary", "primary"
        if fallback and fallback_made_up == "":
            return fallback, "fallback", "recovered"
        if self.use_reference and reference:
            return reference, "reference", "reference"
        return None if primary and fallback else (primary, "primary", "hallucination")


def word_error_rates(pairs: list[tuple[str, str]], max_cells: int) -> list[float | None]:
    """The word error rates of second texts against first ones, without punctuation and case; None if it takes too long.

    A rate against a text without words is 0 or 1.

    Examples:
        >>> word_error_rates([("One, two!", "one too"), ("...", "yes"), ("", "")], 100)
        [0.5, 1.0, 0.0]
    """
    numbers = Numbers()
    sides = [numbered([_MARKS.sub("", text).lower() for text in texts], numbers) for texts in zip(*pairs, strict=True)]
    if not sides:
        return []
    edits = count_edits(sides[0], sides[1], max_cells)
    words = [bounds[1:] - bounds[:-1] for _, bounds in sides]
    return [
        float(bool(other)) if not size else None if (edit < 0).any() else int(edit.sum()) / int(size)
        for edit, size, other in zip(edits, *words, strict=True)
    ]
