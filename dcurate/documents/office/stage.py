"""`OfficeExtract`: office files and ebooks as rows of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.spec import StageSpec
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.documents.columns import DOCUMENT, document_columns, with_columns
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.media.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES, REF, fetched, has_media
from dcurate.media.sandbox import Answer, Sandbox

#: What the text of a row is.
Output: TypeAlias = Literal["text", "markdown"]

#: The reason for which a file without text is dropped.
NO_TEXT = "no text"


@dataclass
class OfficeExtract(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Extract the text of DOCX, PPTX, XLSX, ODT, ODS, ODP, EPUB and RTF files.

    A row is a file: a reference to its bytes in the column ``media_ref``, or the bytes themselves in a column
    ``bytes``, which is left out of the result. What a file is, its content says, not its name. The row keeps its other
    columns and gets those of `PdfExtract`; signals that only PDFs have are null. A page is a slide, a sheet or a
    chapter; documents of word processors have one. Two columns are new: ``kind`` (``"docx"``, ``"pptx"``, ...) and
    ``author``.

    Text keeps headings, lists, tables (cells parted by tabs, in Markdown by bars), footnotes, links and speaker notes.
    It leaves out headers and footers, hidden text, hidden slides and sheets, and what tracked changes deleted.
    Macros, scripts, links to other files and external entities are never followed.

    Files are read in a child process with limits of time and memory. One that cannot be read is one row in quarantine,
    with its reason: ``"encrypted"``, ``"legacy format"`` (.doc, .xls, .ppt), ``"broken zip"``, ``"zip bomb"``,
    ``"external entities"``, ``"damaged"``, ``"not an office file"``, ``"timed out"`` and the like; the column
    ``media_fault`` says more. A file without text is dropped: ``"no text"``.

    Args:
        output: ``"text"`` or ``"markdown"``.
        text_field: the column for it.
        notes: whether speaker notes come after each slide.
        timeout_s: seconds that one file may take.
        memory: bytes that the child process may take, or text such as ``"2GiB"``.
        largest_file: a larger one goes to quarantine as ``"too large"``.
        max_unpacked: a file that unpacks to more goes to quarantine as ``"zip bomb"``.
        storage_options: for fsspec.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> import pyarrow as pa
        >>> from dcurate import DocumentBatch
        >>> files = [rb"{\rtf1 A word.}", b"%PDF-1.7"]
        >>> stage = OfficeExtract()
        >>> found = stage.process(DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.large_binary())})))
        >>> found.to_arrow().select(["text", "kind"]).to_pylist(), found.rejections[0].reason
        ([{'text': 'A word.', 'kind': 'rtf'}], 'not an office file')
        >>> stage.teardown()
    """

    output: Output = "text"
    text_field: str = "text"
    notes: bool = True
    timeout_s: float = 60.0
    memory: int | str = "2GiB"
    largest_file: int | str = "256MiB"
    max_unpacked: int | str = "1GiB"
    storage_options: dict[str, Any] | None = None
    name: str = "office_extract"

    spec = StageSpec(ignore_failures=True)
    uses_only_named_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._sandbox: Sandbox | None = None
        if self.output not in get_args(Output):
            raise PipelineError(f"{self.name}: output={self.output!r} is none of {listed(get_args(Output))}")
        if not self.timeout_s > 0:
            raise PipelineError(f"{self.name}: timeout_s={self.timeout_s!r} must be above zero")
        for argument in ("memory", "largest_file", "max_unpacked"):
            parse_bytes(getattr(self, argument), f"{self.name}: {argument}")

    def requires(self) -> dict[str, str]:
        return dict.fromkeys(("lxml", "openpyxl", "pypdfium2", "striprtf"), "documents")

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        settings = {name: value for name, value in super().settings().items() if not name.startswith("_")}
        settings.pop("storage_options", None)
        return settings

    def outputs(self) -> Spec:
        return ["data"], [self.text_field, "kind", "author", *DOCUMENT.names]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._sandbox = Sandbox(
            "dcurate.documents.office.child:read_office",
            {"output": self.output, "notes": self.notes, "max_unpacked": parse_bytes(self.max_unpacked)},
            timeout_s=self.timeout_s,
            memory_bytes=parse_bytes(self.memory),
            recycle_items=1000,
        )

    def teardown(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows of files that could be read; the others are in its rejections."""
        table = DocumentBatch.given(task).to_arrow()
        if not has_media(table):
            raise PipelineError(
                f"{self.name}: the rows have no column {REF!r} or {BYTES!r}, but {listed(table.column_names)}; "
                "read the files with MediaReader"
            )
        read = list(self._read(table))
        result = quarantined(task, read, self.name)
        found = [each.value for each in read if isinstance(each, Answer)]
        columns = pa.schema([(self.text_field, pa.string()), ("kind", pa.string()), ("author", pa.string()), *DOCUMENT])
        values = [
            {**document_columns(each), self.text_field: each["text"], "kind": each["kind"], "author": each["author"]}
            for each in found
        ]
        rows = with_columns(result.to_arrow(), pa.Table.from_pylist(values, columns))
        rows = rows.drop_columns([name for name in (BYTES,) if name in rows.column_names])
        filled = np.array([bool(each["text"]) for each in found], np.bool_)
        empty = rows.filter(pa.array(~filled))
        dropped = [Rejection(self.name, NO_TEXT, empty.num_rows, empty.nbytes, empty)] if empty.num_rows else []
        return replace(result, data=rows.filter(pa.array(filled)), rejections=(*result.rejections, *dropped))

    def _read(self, table: pa.Table) -> Iterator[Answer | MediaFault]:
        if self._sandbox is None:
            self.setup()
        assert self._sandbox is not None
        limit = parse_bytes(self.largest_file)
        for _, files in fetched(table, limit=limit, storage_options=self.storage_options or {}):
            answers = iter(self._sandbox.map([data for data in files if isinstance(data, bytes)]))
            for data in files:
                yield data if isinstance(data, MediaFault) else next(answers)
