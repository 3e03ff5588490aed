"""The stage that identifies the language and script of documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column
from dcurate.kernels.scripts import SCRIPTS, script_signals
from dcurate.text.identifier import Identifier
from dcurate.text.signals import Needs, Signals, text_as_column

_KANA_AND_KANJI = ("Hira", "Kana", "Hani")


@dataclass
class LanguageId(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Add the language of each document, its confidence, and the script; keep all documents.

    Languages are ISO 639-1 codes, ISO 639-3 where there is none, and ``und`` where a text has no letters or no
    model is sure; about 420 are known, see `Identifier`. Scripts are ISO 15924 codes: that of most characters
    of the whole text, ``Zyyy`` if none has one, and ``Jpan`` for what is in Japanese. The ``lang`` extra is needed.

    Args:
        text_field: the column that is looked at; a null text counts as empty.
        language_field: the column for the language.
        score_field: the column for how sure it is, from 0 to 1; 0 for ``und``.
        script_field: the column for the script, or None.
        paragraphs_field: a column for a list of the languages of the paragraphs, what ``text.split("\n\n")`` gives;
            None by default, as it takes longer.
        max_chars: characters at the beginning of a text, or paragraph, used to identify the language.

    Raises:
        PipelineError: ``max_chars`` is below 1, or two columns have the same name.
        ResourceError: the ``lang`` extra is not installed.

    Examples:
        >>> import pandas as pd
        >>> stage = LanguageId(paragraphs_field="languages")
        >>> stage.setup()
        >>> texts = ["Wer das liest, kann Deutsch.\n\nThis is an English sentence.", "1969"]
        >>> rows = stage.process(DocumentBatch(data=pd.DataFrame({"text": texts}))).to_pandas()
        >>> rows["language"].tolist(), rows["script"].tolist(), [list(found) for found in rows["languages"]]
        (['en', 'und'], ['Latn', 'Zyyy'], [['de', 'en'], ['und']])
    """

    text_field: str = "text"
    language_field: str = "language"
    score_field: str = "language_score"
    script_field: str | None = "script"
    paragraphs_field: str | None = None
    max_chars: int = 1000
    name: str = "language_id"

    def __post_init__(self) -> None:
        if self.max_chars < 1:
            raise PipelineError(f"stage {self.name!r}: max_chars={self.max_chars} must be at least 1")
        fields = self.outputs()[1]
        if len(set(fields)) < len(fields):
            raise PipelineError(f"stage {self.name!r}: columns {fields} must have different names")

    def requires(self) -> dict[str, str]:
        return {"pycld2": "lang"}

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        fields = (self.language_field, self.score_field, self.script_field, self.paragraphs_field)
        return ["data"], [field for field in fields if field is not None]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        Signals(text_as_column("a"), Needs()).of(script_signals)
        Identifier(self.max_chars).identify("a")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._identifier = Identifier(self.max_chars)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        signals = Signals(text_column(table, self.text_field), Needs())
        texts = list(signals.texts())
        guesses = self._identifier.identify_all(texts)
        languages = [guess.language for guess in guesses]
        table = with_column(table, self.language_field, languages)
        table = with_column(table, self.score_field, np.array([guess.score for guess in guesses], np.float64))
        if self.script_field is not None:
            table = with_column(table, self.script_field, _scripts(signals, languages))
        if self.paragraphs_field is not None:
            table = with_column(table, self.paragraphs_field, [self._of_paragraphs(text) for text in texts])
        return task.with_data(table)

    def _of_paragraphs(self, text: str) -> list[str]:
        return [guess.language for guess in self._identifier.identify_all(text.split("\n\n"))]


def _scripts(signals: Signals, languages: list[str]) -> list[str]:
    scripts = [SCRIPTS[script] for script in signals.of(script_signals).script]
    return [
        "Jpan" if language == "ja" and script in _KANA_AND_KANJI else script
        for language, script in zip(languages, scripts, strict=True)
    ]
