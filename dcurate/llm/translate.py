"""The stage that translates texts segment by segment."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dcurate.core.stage import Spec
from dcurate.endpoints.batch_client import Outcome
from dcurate.endpoints.config import Question, Request
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.generate import Generate, Result
from dcurate.errors import PipelineError, listed, nearest
from dcurate.frames.columns import values, with_column, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.llm.paths import FieldPath
from dcurate.llm.segmenting import MODES, Segments, segments_of
from dcurate.text.extract.stop_words import language_name

OUTPUT_MODES = ("replaced", "raw", "both")

#: The model puts a translation between these marks, so that other text can be removed.
OPENS, CLOSES = "〘", "〙"

TRANSLATOR = (
    "You are an experienced translator. Your translations are accurate and read as if they had been written so."
)
TRANSLATE = (
    "Translate the {source_language} text below into {target_language}. Leave tags, addresses, formulas and program "
    f"code as they are. Put your translation between {OPENS} and {CLOSES}, and write nothing else.\n\n"
    "{source_language}: {text}"
)

#: Meaning of the names in a prompt.
_NAMES = ("source_language", "target_language", "text")

METADATA = "translation_metadata"
ERRORS = "translation_errors"
#: Pairs of pieces and their translations, for the stage that judges them.
PAIRS = "_translation_pairs"


class _Piece(NamedTuple):
    """One text of a row: its path, and its segments."""

    path: FieldPath
    segments: Segments


@dataclass
class TranslateSegments(Generate):
    """Translate one or several columns, by lines or sentences, and join the segments again.

    Code, tags, numbers and JSON stay as they are, and so does the whitespace between pieces. Equal pieces of a batch
    are asked for once. Args: those of `Translate`, and those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = TranslateSegments(client=client, model="llama", source_language="en", target_language="de")
        >>> stage.outputs()[1]
        ['translated_text', 'text', 'translation_errors']
    """

    source_language: str = ""
    target_language: str = ""
    text_field: str | Sequence[str] = "text"
    segmentation_mode: str = "coarse"
    min_segment_chars: int = 0
    output_mode: str = "replaced"
    translation_field: str | None = None
    pairs: bool = False

    def __post_init__(self) -> None:
        for argument in ("source_language", "target_language"):
            if not getattr(self, argument).strip():
                raise PipelineError(f"{self.name}: {argument}= must name a language, such as 'en'")
        for argument, allowed in (("output_mode", OUTPUT_MODES), ("segmentation_mode", MODES)):
            value = getattr(self, argument)
            if value not in allowed:
                raise PipelineError(f"{self.name}: {argument}={value!r} is unknown{nearest(str(value), allowed)}")
        self.system_prompt = TRANSLATOR if self.system_prompt is None else self.system_prompt
        self.prompt = TRANSLATE if self.prompt is None else self.prompt
        self.output_field = self.output_field or "translated_text"
        super().__post_init__()
        for prompt in self._prompts:
            for name in prompt.columns if prompt is not None else ():
                if name not in _NAMES:
                    raise PipelineError(f"{self.name}: the prompt has {{{name}}}; there are {listed(_NAMES)}")

    several: ClassVar[tuple[str, ...]] = ("text_field",)

    @property
    def _paths(self) -> list[FieldPath]:
        return [
            FieldPath(path) for path in ([self.text_field] if isinstance(self.text_field, str) else self.text_field)
        ]

    @property
    def _read(self) -> list[str]:
        return list(dict.fromkeys(path.column for path in self._paths))

    @property
    def _added(self) -> list[str]:
        columns = [] if self.output_mode == "raw" else [str(self.output_field), *self._read]
        columns += [METADATA] if self.output_mode != "replaced" else []
        return [*columns, ERRORS, *([PAIRS] if self.pairs else [])]

    def optional_inputs(self) -> list[str]:
        return [] if self.translation_field is None else [self.translation_field]

    def outputs(self) -> Spec:
        return ["data"], self._added

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        pieces = [self._pieces(task) for task in tasks]
        rows = list(itertools.chain.from_iterable(pieces))
        outcomes = iter(self._ask(list(itertools.chain.from_iterable(map(self._requests, rows)))))
        results: list[list[Outcome]] = []
        for row in rows:
            count = sum(len(piece.segments.places) for piece in row or ())
            results.append(list(itertools.islice(outcomes, count)))
        remaining = iter(zip(rows, results, strict=True))
        return [self._translated(task, list(itertools.islice(remaining, task.num_items))) for task in tasks]

    def _pieces(self, task: DocumentBatch) -> list[list[_Piece] | None]:
        """The texts of each row, segmented; None for a row that already has its translation."""
        table = task.to_arrow()
        column = self.translation_field
        translations = (
            values(table, column) if column is not None and column in table.column_names else [None] * len(table)
        )
        columns = {name: values(table, name) for name in self._read}
        return [
            None
            if str(translations[row] or "").strip()
            else list(self._cut({name: columns[name][row] for name in columns}))
            for row in range(table.num_rows)
        ]

    def _cut(self, row: Mapping[str, Any]) -> Iterator[_Piece]:
        for path in self._paths:
            for text in path.texts(row[path.column]):
                yield _Piece(path, segments_of(text, self.segmentation_mode, self.min_segment_chars))

    def _requests(self, row: list[_Piece] | None) -> Iterator[Question]:
        names = {"source_language": self.source_language, "target_language": self.target_language}
        languages = {name: language_name(code) or code for name, code in names.items()}
        config = self._config()
        for piece in row or ():
            for text in piece.segments.texts:
                yield Request(self._messages({**languages, "text": text}), str(self.model), config)

    def _process_llm_response(self, response: list[str]) -> str:
        """The text between the last marks; all of it if there are none."""
        text = response[0]
        start, stop = text.rfind(OPENS), text.rfind(CLOSES)
        translation = text[start + 1 : stop if stop > start else None] if start >= 0 else text
        if not translation.strip():
            raise RequestError(f"the translation is empty in the answer {text[:80]!r}", "empty answer")
        return translation

    def _translated(self, task: DocumentBatch, rows: list[tuple[list[_Piece] | None, list[Outcome]]]) -> DocumentBatch:
        results: list[Result] = []
        for pieces, outcomes in rows:
            translated = [self._result(outcome, None) for outcome in outcomes]
            failure = next((result for result in translated if isinstance(result, RequestError)), None)
            texts = [result[0] for result in translated if isinstance(result, list)]
            results.append(failure or (None if pieces is None else [_row(pieces, texts)]))
        return self._placed(task, results)

    def _with_results(self, table: Any, results: list[Result]) -> Any:
        """The table with translations, by `output_mode`; rows without one are unchanged."""
        rows: list[_Row | None] = [result[0] if isinstance(result, list) else None for result in results]
        if self.output_mode != "raw":
            table = self._replaced(table, rows)
        if self.output_mode != "replaced":
            table = with_text(table, METADATA, [None if row is None else self._metadata(row) for row in rows])
        errors = [str(result) if isinstance(result, RequestError) else "" for result in results]
        table = with_text(table, ERRORS, errors)
        if self.pairs:
            pairs = [None if row is None else json.dumps(row.all_pairs, ensure_ascii=False) for row in rows]
            table = with_text(table, PAIRS, pairs)
        return table

    def _replaced(self, table: Any, rows: Sequence[_Row | None]) -> Any:
        output = str(self.output_field)
        before = values(table, output) if output in table.column_names else [None] * len(table)
        outputs: list[str | None] = []
        columns = {name: values(table, name) for name in self._read}
        for number, row in enumerate(rows):
            if row is None:
                outputs.append(before[number] if self.translation_field == output else None)
                continue
            for path in self._paths:
                cell = columns[path.column][number]
                columns[path.column][number] = path.replaced(cell, row.texts.get(path.path, []))
            outputs.append(self._output({name: columns[name][number] for name in columns}, row))
        for name, content in columns.items():
            text = all(value is None or isinstance(value, str) for value in content)
            table = with_text(table, name, content) if text else with_column(table, name, content)
        return with_text(table, output, outputs)

    def _output(self, cells: Mapping[str, Any], row: _Row) -> str | None:
        """The translation: the column's for one column, a JSON of all for several."""
        if len(self._paths) > 1:
            return json.dumps(row.texts, ensure_ascii=False)
        cell = cells[self._paths[0].column]
        return cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)

    def _metadata(self, row: _Row) -> str:
        by_name = {path.path.rpartition(".")[2]: path for path in self._paths}
        translated = {name: row.texts.get(path.path, []) for name, path in by_name.items()}
        metadata = {
            "target_lang": self.target_language,
            "translation": {
                name: texts if "*" in by_name[name].path else "".join(texts) for name, texts in translated.items()
            },
            "segmented_translation": {name: row.pairs.get(path.path, []) for name, path in by_name.items()},
        }
        return json.dumps(metadata, ensure_ascii=False)


class _Row(NamedTuple):
    """A translated row: its texts, and the pairs of segments, by path."""

    texts: dict[str, list[str]]
    pairs: dict[str, list[dict[str, str]]]

    @property
    def all_pairs(self) -> list[dict[str, str]]:
        return list(itertools.chain.from_iterable(self.pairs.values()))


def _row(pieces: Sequence[_Piece], translations: Sequence[str]) -> _Row:
    waiting = iter(translations)
    row = _Row({}, {})
    for piece in pieces:
        mine = list(itertools.islice(waiting, len(piece.segments.places)))
        row.texts.setdefault(piece.path.path, []).append(piece.segments.joined(mine))
        pairs = row.pairs.setdefault(piece.path.path, [])
        pairs += [{"src": src, "tgt": tgt.strip()} for src, tgt in zip(piece.segments.texts, mine, strict=True)]
    return row
