"""`FilterByHeardLanguage`: transcripts in another language than the one that was heard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate.audio.languages import is_one_language, language_code
from dcurate.audio.transcripts import texts_of
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.text.identifier import Identified, Identifier


@dataclass
class FilterByHeardLanguage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drop recordings whose text is in another language than the one that was heard.

    The heard language is a column, as `Transcribe` makes it with `heard_language_field`; the language of the text is
    that of `LanguageId`. Dropped rows are rejected as ``other language``. Rows of which one of the two is not known are
    kept: nothing was heard, the text is shorter than `min_chars`, its language is ``und``, or less sure than
    `min_score`. Languages that differ in sound only or in spelling only count as one: Bokmål and Nynorsk; Chinese and
    Cantonese; Bosnian, Croatian, Montenegrin and Serbian; Indonesian and Malay; Tagalog and Filipino.

    The text may be the transcript, whose language a recogniser sometimes makes up, or one that came with the recording.

    Args:
        text_field: the column of texts.
        heard_language_field: the column of languages that were heard: codes of ISO 639, or English names.
        min_score: how sure the language of the text must be, 0 to 1.
        min_chars: characters of the shortest text whose language is believed.
        text_language_field: a new column for the language of the text, null where it is not known; None for none.
        name: name of the stage.

    Raises:
        PipelineError: `min_score` is not between 0 and 1, or `min_chars` below 0.
        ResourceError: the ``lang`` extra is not installed.

    Examples:
        >>> rows = {"pred_text": ["Das ist ein deutscher Satz.", "This is an English sentence."], "heard": ["de", "de"]}
        >>> stage = FilterByHeardLanguage(heard_language_field="heard")
        >>> kept = stage.process(DocumentBatch(data=pa.table(rows)))
        >>> kept.num_items, kept.rejections[0].reason
        (1, 'other language')
    """

    text_field: str = "pred_text"
    heard_language_field: str = "heard_language"
    min_score: float = 0.5
    min_chars: int = 20
    text_language_field: str | None = None
    name: str = "heard_language"

    _identifier: Identifier | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.min_score, bool) or not isinstance(self.min_score, int | float):
            raise PipelineError(f"{self.name}: min_score={self.min_score!r} must be a number from 0 to 1")
        if not 0 <= self.min_score <= 1:
            raise PipelineError(f"{self.name}: min_score={self.min_score!r} must be a number from 0 to 1")
        if type(self.min_chars) is not int or self.min_chars < 0:
            raise PipelineError(f"{self.name}: min_chars={self.min_chars!r} must be a whole number from 0 on")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_identifier": None}

    def requires(self) -> dict[str, str]:
        return {"pycld2": "lang"}

    def inputs(self) -> Spec:
        return ["data"], [self.text_field, self.heard_language_field]

    def outputs(self) -> Spec:
        return ["data"], [] if self.text_language_field is None else [self.text_language_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        Identifier().identify("a")  # compiles the kernels

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._identifier = self._identifier or Identifier()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        batch = DocumentBatch.given(task)
        table = batch.to_arrow()
        self.check_columns(table.column_names)
        self.setup()
        assert self._identifier is not None
        texts = [text or "" for text in texts_of(table, self.text_field)]
        written = list(map(self._believed, texts, self._identifier.identify_all(texts)))
        heard = [None if name is None else language_code(name) for name in texts_of(table, self.heard_language_field)]
        keeps = [
            one is None or other is None or is_one_language(one, other)
            for one, other in zip(heard, written, strict=True)
        ]
        if self.text_language_field is not None:
            batch = batch.with_data(with_column(table, self.text_language_field, pa.array(written, pa.string())))
        return batch.keep(np.array(keeps, np.bool_), self.name, "other language")

    def _believed(self, text: str, guess: Identified) -> str | None:
        sure = guess.language != "und" and guess.score >= self.min_score
        return guess.language if sure and len(text.strip()) >= self.min_chars else None
