"""`OfficeExtract`: office files and ebooks as rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.stage import Spec
from dcurate.documents.columns import DOCUMENT, document_columns
from dcurate.documents.losses import counted
from dcurate.documents.stage import FileExtract
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.faults import quarantined
from dcurate.media.heads import File
from dcurate.media.refs import BYTES
from dcurate.media.stage import with_columns

#: What the text of a row is.
Output: TypeAlias = Literal["text", "markdown"]

#: The reason for which a file without text is dropped.
NO_TEXT = "no text"


@dataclass
class OfficeExtract(FileExtract):
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
        max_unpacked: a file that unpacks to more goes to quarantine as ``"zip bomb"``.
        reading: limits of each file; `timeout_s` is 60 and `memory` 2 GiB unless given.

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
    max_unpacked: int | str = "1GiB"
    name: str = "office_extract"

    function: ClassVar[str] = "dcurate.documents.office.child:read_office"

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise PipelineError(f"{self.name}: output={self.output!r} is not one of {listed(get_args(Output))}")
        parse_bytes(self.max_unpacked, f"{self.name}: max_unpacked")
        super().__post_init__()

    def requires(self) -> dict[str, str]:
        return dict.fromkeys(("lxml", "openpyxl", "pypdfium2", "striprtf"), "documents")

    def outputs(self) -> Spec:
        return ["data"], [self.text_field, "kind", "author", *DOCUMENT.names]

    @property
    def options(self) -> Mapping[str, Any]:
        return {"output": self.output, "notes": self.notes, "max_unpacked": parse_bytes(self.max_unpacked)}

    def look(self, files: Sequence[File]) -> Sequence[Any]:
        return self.called([file.data for file in files])

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows of files that could be read; the others are in its rejections."""
        read = self.answers(DocumentBatch.given(task).to_arrow())
        result = quarantined(task, read, self.name)
        documents = [answer.value for answer in read if isinstance(answer, ChildAnswer)]
        columns = pa.schema([(self.text_field, pa.string()), ("kind", pa.string()), ("author", pa.string()), *DOCUMENT])
        values = [
            {
                **document_columns(document),
                self.text_field: document["text"],
                "kind": document["kind"],
                "author": document["author"],
            }
            for document in documents
        ]
        rows = with_columns(result.to_arrow(), pa.Table.from_pylist(values, columns))
        rows = rows.drop_columns([name for name in (BYTES,) if name in rows.column_names])
        filled = pa.array([bool(document["text"]) for document in documents], pa.bool_())
        dropped = self._dropped(rows.filter(pc.invert(filled)), NO_TEXT)
        lost = counted(document["losses"] for document in documents)
        return replace(result, data=rows.filter(filled), rejections=(*result.rejections, *dropped), found=lost)
