"""The stage that changes documents."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard

from dcurate.core.extras import required_by
from dcurate.core.names import short
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.columns import column_of, values, with_column, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column, with_layout
from dcurate.text.modifier import ColumnModifier, DocumentModifier, TextModifier
from dcurate.text.rules import checked, one_or_many, unique

#: What is counted of values for which a function gave None.
NULLED = "values that became null"
#: Counts texts that a function of `Modify` replaced by True or False.
JUDGED = "texts that became true or false"

Modification: TypeAlias = Callable[..., Any] | DocumentModifier


@dataclass
class Modify(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Replace columns with the output of a modifier, or add the output as new columns.

    Args:
        modifier_fn: a modifier, a function, or a list of these, applied in turn.
        input_fields: the column that is read; a list of one for each modifier; or a list of lists for modifiers
            that read several columns, whose values are then given by name.
        output_fields: the column that is written, one for all or a list; by default the one that was read.
        name: name of the stage; by default that of the modifier.

    A null stays null under a modifier of one column; functions receive the value of the column.

    Raises:
        PipelineError: lists of different lengths, or several columns read and none named to write.
        DataError: when it works: a built-in modifier is given a column that does not hold text.

    Examples:
        >>> import pandas as pd
        >>> from dcurate.text.modifiers import UrlRemover
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["at www.example.org"]}))
        >>> Modify([UrlRemover(), str.strip]).process(batch).to_pandas()["text"].tolist()
        ['at']
    """

    modifier_fn: Modification | list[Modification]
    input_fields: str | list[str] | list[list[str]] = "text"
    output_fields: str | list[str] | list[str | None] | None = None
    name: str = "modifier_fn"

    def __post_init__(self) -> None:
        names = [_name_of(modifier) for modifier in self._modifiers]
        if self.name == "modifier_fn":
            self.name = names[0] if len(names) == 1 else short("modifier_chain_of_" + "_".join(names))
        self._columns()

    @property
    def _modifiers(self) -> list[Modification]:
        return checked(self.modifier_fn, "modifier or function", _is_modification)

    def _columns(self) -> list[tuple[list[str], str]]:
        """The columns that each modifier reads, and the one that it writes."""
        count = len(self._modifiers)
        if self.input_fields is None:
            raise PipelineError("input_fields=None names no column; give the column that the modifier reads")
        reads = [one_or_many(fields) for fields in _one_each(one_or_many(self.input_fields), count, "input_fields")]
        writes = _one_each(one_or_many(self.output_fields), count, "output_fields")
        for number, (read, write) in enumerate(zip(reads, writes, strict=True)):
            if write is None and len(read) != 1:
                raise PipelineError(
                    f"a modifier that reads {len(read)} columns needs output_fields to name one to write"
                )
            writes[number] = write or read[0]
        return list(zip(reads, writes, strict=True))

    def requires(self) -> dict[str, str]:
        return required_by(self._modifiers)

    def inputs(self) -> Spec:
        made: set[str] = set()
        read: list[str] = []
        for fields, target in self._columns():
            read.extend(name for name in fields if name not in made)
            made.add(target)
        return ["data"], unique(read)

    def outputs(self) -> Spec:
        return ["data"], unique(target for _, target in self._columns())

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        for modifier in self._modifiers:
            if isinstance(modifier, ColumnModifier):
                modifier.prepare()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        for modifier in self._modifiers:
            if isinstance(modifier, DocumentModifier):
                modifier.load_model()

    @property
    def cheap_setup(self) -> bool:
        return not any(isinstance(modifier, DocumentModifier) and modifier.loads_model for modifier in self._modifiers)

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about values for which a function gave None, or True or False: it may be a slip."""
        more = super().remarks(found)
        if found.get(JUDGED):
            more.append(
                f"the function of stage {self.name!r} gave True or False for {found[JUDGED]:,} texts, which these "
                "replace now; to drop rows by it, use Score and then Filter"
            )
        if not found.get(NULLED):
            return more
        return [
            *more,
            f"the function of stage {self.name!r} gave None for {found[NULLED]:,} values, which are null now; "
            "if that is not meant, have it return the new value",
        ]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table, counts = DocumentBatch.given(task).to_arrow(), Counter[str]()
        for modifier, (fields, target) in zip(self._modifiers, self._columns(), strict=True):
            if _by_column(modifier) and len(fields) == 1:
                new_texts, new_counts = modifier.modify_and_count(text_column(table, fields[0]))
                counts.update(new_counts)
                table = with_layout(table, target, new_texts, fields[0])
                continue
            if isinstance(modifier, TextModifier):
                for name in fields:
                    column_of(table, name, text=True)
            texts = {field: values(table, field) for field in fields}
            new = _modified(modifier, texts)
            if not isinstance(modifier, DocumentModifier):
                lost = sum(made is None and any(row) for made, *row in zip(new, *texts.values(), strict=True))
                counts.update({NULLED: lost} if lost else {})
                judged = target in fields and all(isinstance(made, bool | None) for made in new)
                judged = judged and all(isinstance(text, str | None) for text in texts[target])
                counts.update({JUDGED: sum(made is not None for made in new)} if judged else {})
            is_text = all(value is None or isinstance(value, str) for value in new)
            table = with_text(table, target, new) if is_text else with_column(table, target, new)
        return replace(task.with_data(table), found=counts)


def _by_column(modifier: Modification) -> TypeGuard[ColumnModifier]:
    return isinstance(modifier, ColumnModifier) and not modifier.overrides("modify_document", "modify_column")


def _modified(modifier: Modification, columns: dict[str, list[Any]]) -> list[Any]:
    function = modifier.modify_document if isinstance(modifier, DocumentModifier) else modifier
    if len(columns) > 1:
        return [function(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    (column,) = columns.values()
    if isinstance(modifier, DocumentModifier):
        return [None if value is None else function(value) for value in column]
    return [function(value) for value in column]


def _one_each(entries: list[Any], count: int, argument: str) -> list[Any]:
    if len(entries) not in (1, count):
        raise PipelineError(
            f"{argument} has {len(entries)} entries for {count} modifiers; give one each, or one for all"
        )
    return entries * count if len(entries) == 1 else entries


def _is_modification(value: Any) -> bool:
    return isinstance(value, DocumentModifier) or callable(value)


def _name_of(modifier: Modification) -> str:
    if isinstance(modifier, DocumentModifier):
        return modifier.name
    return str(modifier.__name__) if inspect.isroutine(modifier) else type(modifier).__name__
