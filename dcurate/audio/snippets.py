"""Snippets: contiguous segments of a recording, for training on long sound."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.segments import answered, each, positive, text_of
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.hub.tokenizer_files import load_tokenizer_file
from dcurate.media.parts import Part, parts_of, type_of_parts

_LOSSES = ("too_long", "too_short", "no_text")


@dataclass
class PlanSnippets(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Pack neighbouring segments into snippets as long as they may be; NeMo Curator's ``SnippetCutPlannerStage``.

    Nothing is cut: ``snippets`` has a list of ``start`` and ``end`` in seconds, with the ``segments`` of each. They can
    be segments of other stages, such as `SegmentRows`. ``snippet_losses`` counts those that are ``too_long`` (a single
    segment), ``too_short``, or have ``no_text``. Segments come sorted and apart, as from `DropOverlappingSegments`.

    Args:
        segments_field: the column of segments.
        max_duration_s: seconds of a snippet.
        min_duration_s: the same.
        max_gap_s: seconds between two segments of a snippet.
        prefix: comes before the names of the new columns.
        name: name of the stage.

    Raises:
        PipelineError: a setting is negative, or `min_duration_s` exceeds `max_duration_s`.

    Examples:
        >>> spans = [(0.0, 4.0), (5.0, 9.0), (50.0, 52.0)]
        >>> segments = [{"start": start, "end": end, "text": "yes"} for start, end in spans]
        >>> batch = DocumentBatch(data=pa.table({"separate_segments": [segments]}))
        >>> snippets = PlanSnippets().process(batch).to_arrow()["snippets"][0].as_py()
        >>> [(snippet["start"], snippet["end"], len(snippet["segments"])) for snippet in snippets]
        [(0.0, 9.0, 2), (50.0, 52.0, 1)]
    """

    segments_field: str = "separate_segments"
    max_duration_s: float = 600.0
    min_duration_s: float = 0.5
    max_gap_s: float = 30.0
    prefix: str = ""
    name: str = "plan_snippets"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self.name, {"max_duration_s": self.max_duration_s})
        if not 0 <= self.min_duration_s <= self.max_duration_s or not self.max_gap_s >= 0:
            raise PipelineError(
                f"stage {self.name!r}: min_duration_s={self.min_duration_s} must be from 0 to max_duration_s="
                f"{self.max_duration_s}, and max_gap_s={self.max_gap_s} at least 0"
            )

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field]

    def outputs(self) -> Spec:
        return ["data"], [self.prefix + "snippets", self.prefix + "snippet_losses"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        kind = type_of_parts(table, self.segments_field)
        snippet = pa.struct([("start", pa.float64()), ("end", pa.float64()), ("segments", pa.list_(kind))])
        types = (pa.list_(snippet), pa.struct([(name, pa.int64()) for name in _LOSSES]))
        answers = each(parts_of(table, self.segments_field), self.planned)
        return answered(task, answers, dict(zip(self.outputs()[1], types, strict=True)), self.name)

    def planned(self, segments: list[Part]) -> tuple[list[Part], dict[str, int]]:
        """Return the snippets of some segments, and how many are left out by reason."""
        packed: list[Part] = []
        for segment in segments:
            last = packed[-1] if packed else None
            if (
                last is not None
                and segment["end"] - last["start"] <= self.max_duration_s
                and segment["start"] - last["end"] <= self.max_gap_s
            ):
                last["end"] = segment["end"]
                last["segments"].append(segment)
            else:
                packed.append({"start": segment["start"], "end": segment["end"], "segments": [segment]})
        losses, kept = dict.fromkeys(_LOSSES, 0), []
        for snippet in packed:
            loss = self._loss(snippet)
            if loss is None:
                kept.append(snippet)
            else:
                losses[loss] += 1
        return kept, losses

    def _loss(self, snippet: Part) -> str | None:
        duration = snippet["end"] - snippet["start"]
        if duration > self.max_duration_s:
            return "too_long"
        if duration < self.min_duration_s:
            return "too_short"
        return None if any(map(text_of, snippet["segments"])) else "no_text"


@dataclass
class DropRepetitiveSnippets(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Leave out snippets in whose text a sequence of tokens comes too often, as recognisers that got stuck write them.

    The rule is that of NeMo Curator's ``SnippetRepetitionFilterStage``. The texts of the segments are joined by spaces.

    Args:
        tokenizer: a file ``tokenizer.json`` of Hugging Face.
        snippets_field: the column of snippets, as `PlanSnippets` makes it.
        ngram_size: tokens of a sequence; a shorter text stays.
        max_repeats: how often one may come.
        output_field: the new column.
        name: name of the stage.

    Raises:
        PipelineError: a number is below 1.
        DataError: the tokenizer does not exist; as the stage is set up.

    Examples:
        >>> DropRepetitiveSnippets("whisper/tokenizer.json", ngram_size=5).max_repeats
        3
    """

    tokenizer: str
    snippets_field: str = "snippets"
    ngram_size: int = 10
    max_repeats: int = 3
    output_field: str = "fresh_snippets"
    name: str = "drop_repetitive_snippets"

    uses_only_named_columns: ClassVar[bool] = True
    paths: ClassVar[tuple[str, ...]] = ("tokenizer",)

    _tokenizer: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.tokenizer, str) or not self.tokenizer.endswith(".json"):
            raise PipelineError(f"stage {self.name!r}: tokenizer={self.tokenizer!r} must be a tokenizer.json")
        for setting in ("ngram_size", "max_repeats"):
            if getattr(self, setting) < 1:
                raise PipelineError(f"stage {self.name!r}: {setting}={getattr(self, setting)} must be at least 1")

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if not name.startswith("_")}

    def requires(self) -> dict[str, str]:
        return {"tokenizers": "tokens"}

    def inputs(self) -> Spec:
        return ["data"], [self.snippets_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer_file(self.tokenizer, f"stage {self.name!r}")

    def teardown(self) -> None:
        self._tokenizer = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.setup()
        table = DocumentBatch.given(task).to_arrow()
        kind = type_of_parts(table, self.snippets_field)
        answers = each(parts_of(table, self.snippets_field), self._fresh)
        return answered(task, answers, {self.output_field: pa.list_(kind)}, self.name)

    def _fresh(self, snippets: list[Part]) -> tuple[list[Part]]:
        return ([snippet for snippet in snippets if not self.is_repetitive(snippet)],)

    def is_repetitive(self, snippet: Part) -> bool:
        """Whether a sequence of tokens comes too often in the text of a snippet."""
        text = " ".join(map(text_of, snippet.get("segments") or [])).strip()
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return repeats(ids, self.ngram_size, self.max_repeats)


def repeats(tokens: list[int], size: int, max_repeats: int) -> bool:
    """Whether a sequence of some tokens comes more often than it may.

    Examples:
        >>> repeats([1, 2, 1, 2, 1, 2], 2, 2), repeats([1, 2, 1, 2, 1, 2], 2, 3)
        (True, False)
    """
    counts = Counter(zip(*(tokens[start:] for start in range(min(size, len(tokens) + 1))), strict=False))
    return len(tokens) >= size and max(counts.values(), default=0) > max_repeats
