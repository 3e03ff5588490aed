"""Extract rows from records, and count the records without one."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from dcurate.core.batch import Rejection
from dcurate.core.extras import required_by
from dcurate.core.part import check_kind
from dcurate.core.spec import StageSpec
from dcurate.core.stage import ProcessingStage
from dcurate.download.configured import EqualBySettings
from dcurate.errors import DataError, PipelineError, ResourceError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.records import fits_column, table_of

#: Handling of failed downloads and unreadable records.
OnError = Literal["quarantine", "raise"]
#: Errors that are not a record's fault: something is missing, here or altogether.
OURS = (PipelineError, ResourceError, MemoryError)

_COLUMNS = ("file", "record", "id", "error")


@dataclass(frozen=True)
class Skipped:
    """A record without a row: yielded by an iterator, or returned by an extractor, in place of a row.

    Args:
        reason: short and stable, so that it can be counted: ``"redirect"``.
        fault: False if a rule left it out, True if it is damaged and goes to quarantine.
        id: its own name: a URL, a title.
        detail: the error message.
        trace: the traceback of an error.

    Examples:
        >>> Skipped("redirect", id="A page")
        Skipped(reason='redirect', fault=False, id='A page', detail='', trace='')
    """

    reason: str
    fault: bool = False
    id: str = ""
    detail: str = ""
    trace: str = ""


class DocumentExtractor(EqualBySettings, ABC):
    """Make a row from a record.

    Examples:
        >>> class Upper(DocumentExtractor):
        ...     def extract(self, record):
        ...         return {"text": record["raw"].upper()} if record["raw"] else Skipped("empty")
        ...     def input_columns(self):
        ...         return ["raw"]
        ...     def output_columns(self):
        ...         return ["text"]
        >>> Upper().extract({"raw": "some text"})
        {'text': 'SOME TEXT'}
    """

    in_recipes: ClassVar[bool] = True

    @abstractmethod
    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | None:
        """Return the row as a dictionary; None, or `Skipped` with the reason, if the record has none."""

    @abstractmethod
    def input_columns(self) -> list[str]:
        """The required keys of the records."""

    @abstractmethod
    def output_columns(self) -> list[str]:
        """The keys of the rows."""


def row_of(
    extractor: DocumentExtractor | None, record: dict[str, Any], kept: Sequence[str]
) -> dict[str, Any] | Skipped:
    """Return the row of a record, or the reason to skip it.

    Args:
        extractor: None where the records are the rows.
        kept: keys of the record that the row has too.
    """
    which = next((str(record[key]) for key in ("url", "id", "title") if record.get(key)), "")
    try:
        row = extractor.extract(record) if extractor else record
    except OURS:
        raise
    except Exception as error:  # an extractor is a person's code, and other records are not lost with this one
        return failure("extraction failed", error, which)
    if row is None or isinstance(row, Skipped):
        skipped = row or Skipped("no text")
        return replace(skipped, id=skipped.id or which)
    row = {**row, **{key: record[key] for key in kept if key in record}}
    for column, value in row.items():
        if isinstance(value, str) and not value.isascii() and not fits_column(value):
            return Skipped("not Unicode", True, which, f"lone surrogates in {column!r}")
    return row


def failure(reason: str, error: Exception, which: str = "") -> Skipped:
    """An exception as the reason why a record has no row."""
    return Skipped(reason, True, which, f"{type(error).__name__}: {error}", traceback.format_exc(limit=-20))


def check_on_error(on_error: str) -> None:
    """Refuse a setting that is neither ``"quarantine"`` nor ``"raise"``."""
    if on_error not in ("quarantine", "raise"):
        raise PipelineError(f"on_error={on_error!r} must be 'quarantine' or 'raise'")


def refuse_where_asked(skipped: Skipped, on_error: OnError, where: str) -> None:
    """Raise for an unreadable record, if it should end the run."""
    if skipped.fault and on_error == "raise":
        raise DataError(
            f"{where}: {skipped.reason}: {skipped.detail}; "
            "set on_error='quarantine' to set such records aside and go on"
        )


class Losses:
    """Records without a row, grouped by reason.

    Args:
        stage: name of the stage that left them out.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._records: dict[tuple[str, bool], list[dict[str, Any]]] = {}

    def add(self, skipped: Skipped, file: str, number: int) -> None:
        """Count a record, with its file and its number in it."""
        record = {"file": file, "record": number, "id": skipped.id, "error": skipped.detail, "traceback": skipped.trace}
        shown = {key: _encodable(value) for key, value in record.items() if value or key in _COLUMNS}
        self._records.setdefault((skipped.reason, skipped.fault), []).append(shown)

    def rejections(self) -> Iterator[Rejection]:
        """One rejection for each reason."""
        for (reason, fault), records in self._records.items():
            data = table_of(records, _COLUMNS)
            yield Rejection(self.stage, reason, len(records), data.nbytes, data, fault)


def _encodable(value: Any) -> Any:
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


@dataclass
class ExtractDocuments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row from each record of a batch.

    A record on which the extractor raises goes to quarantine alone. So does a record that crashes the process in native
    code, or, with ``with_(timeout_s=...)``, one that takes too long: the engine isolates it.

    Args:
        extractor: makes a row of a record.
        kept: columns of the records that the rows have too.
        on_error: ``"quarantine"``, or ``"raise"`` to end the run at the first record on which it raises.

    Raises:
        PipelineError: ``on_error`` is neither.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch
        >>> from dcurate.download import DocumentExtractor
        >>> class Title(DocumentExtractor):
        ...     def extract(self, record):
        ...         return {"text": record["title"].strip()} if record["title"] else None
        ...     def input_columns(self):
        ...         return ["title"]
        ...     def output_columns(self):
        ...         return ["text"]
        >>> batch = DocumentBatch(data=pd.DataFrame({"title": [" A title ", ""]}))
        >>> ExtractDocuments(Title()).process(batch).to_pandas().text.tolist()
        ['A title']
    """

    extractor: DocumentExtractor
    kept: Sequence[str] = ()
    on_error: OnError = "quarantine"

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_kind(type(self).__name__, "extractor", self.extractor, DocumentExtractor)
        self.spec = StageSpec(ignore_failures=self.on_error == "quarantine")
        self.name = f"extract_{type(self.extractor).__name__.lower()}"

    def settings(self) -> dict[str, Any]:
        """The settings that affect the rows."""
        return {"extractor": self.extractor, "kept": list(self.kept)}

    def requires(self) -> dict[str, str]:
        return required_by([self.extractor])

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [*self.extractor.input_columns(), *self.kept]

    def columns_read(self) -> None:
        """None: an extractor is given whole records."""

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], [*self.extractor.output_columns(), *self.kept]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows, with the counts of skipped records."""
        losses, rows = Losses(self.name), list[Mapping[str, Any]]()
        for number, record in enumerate(task.to_arrow().to_pylist()):
            row = row_of(self.extractor, record, self.kept)
            if not isinstance(row, Skipped):
                rows.append(row)
                continue
            refuse_where_asked(row, self.on_error, f"{task.key}, record {row.id or number}")
            losses.add(row, str(record.get("source_id") or ""), number)
        return replace(task, data=table_of(rows, self.outputs()[1]), rejections=tuple(losses.rejections()))
