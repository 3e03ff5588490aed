"""`PdfExtract`: PDFs as rows of text, with signals of their pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.stage import Spec, WorkerMetadata
from dcurate.documents.columns import DOCUMENT, document_columns
from dcurate.documents.columns import PAGE as PAGE_SIGNALS
from dcurate.documents.interleaved import PAGE, interleaved_table
from dcurate.documents.losses import counted
from dcurate.documents.stage import FileExtract
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.faults import quarantined
from dcurate.media.heads import File
from dcurate.media.interleaved.schema import SCHEMA
from dcurate.media.ocr.files import model_files
from dcurate.media.refs import BYTES, REF, refs_of
from dcurate.media.stage import with_columns

#: What the text of a row is.
Output: TypeAlias = Literal["text", "markdown", "interleaved"]

#: Which pages are read by OCR, and where pages go that OCR cannot read.
Ocr: TypeAlias = Literal["off", "auto", "always"]
Hard: TypeAlias = Literal["set aside", "vision"]

#: The reason for which a file without pages is dropped; it is whole, and there is nothing to read in it.
NO_PAGES = "no pages"
#: Arguments that are options of the extraction under the same names.
_OPTIONS = (
    "password", "max_pages", "most_pages", "max_chars_per_page", "max_objects_per_page", "keep_headers",
    "join_hyphens", "shapes", "crop", "forms",
)  # fmt: skip
#: How a process ends in which pdfium could not get memory.
_ABORTED = "crashed: SIGABRT"


@dataclass
class PdfExtract(FileExtract):
    r"""Extract the text of PDFs, with signals of each page and document.

    A row is a PDF: a reference to its bytes in the column ``media_ref``, as `PdfReader` gives it, or the bytes
    themselves in a column ``bytes``, which is left out of the result. The row keeps its other columns and gets:

    * ``text``: the body in reading order, without headers, footers and page numbers; pages are parted by an empty line.
      It is empty for a scan. ``page_spans``: the first byte of each page in it, in UTF-8, and one past the last.
    * ``title``, ``producer``, ``creator`` and ``declared_language``, as the file has them; null if it has none.
    * ``n_pages``, ``n_characters``, ``characters_per_page``, ``n_fonts``.
    * ``image_share`` (of the area, mean over pages), ``scanned_share`` and ``rotated_share`` (of pages),
      ``text_over_image`` and ``broken_share`` (of characters: those over pictures, and those without a known meaning).
    * ``pages``: the signals of each page, and its size in points.
    * ``truncated``: ``"length"`` for a file that was cut off at a limit of crawlers (1 MiB, 5 MiB), ``"no end mark"``
      for another one without its end, else null. Its text goes as far as it could be read. A reason that the crawler
      gave in a column ``truncated`` stays.
    * ``losses``: what of the document is not in the text, each with ``what`` it is, a ``count`` and ``where`` the first
      is; null if nothing is known to be missing. The report counts them, and a notice sums them up.

    PDFs are read in a child process with limits of time and memory. One that cannot be read is one row in quarantine,
    with its reason: ``"encrypted"``, ``"truncated"``, ``"damaged"``, ``"not a PDF: HTML"``, ``"too many pages"``,
    ``"timed out"``, ``"out of memory"``, ``"crashed: SIGSEGV"`` and the like; the column ``media_fault`` says more.
    What ends the child process is tried once more, alone. A file without pages is dropped: ``"no pages"``.

    Args:
        output: ``"text"``; ``"markdown"``, with headings, lists and tables; or ``"interleaved"``: a row for the
            metadata of each PDF, and for each piece of its text and each figure, in order, with a column ``page``.
        text_field: the column for the text.
        id_field: the column with ids for interleaved rows; None for the place of the file.
        ocr: pages that are read by OCR: none (``"off"``), those whose text is not in the file (``"auto"``), or
            ``"always"`` all. Then each of ``pages`` says where it went (``route``: ``"text"``, ``"ocr"``, ``"vision"``
            or ``"set aside"``), why, how much it needed OCR, and how sure OCR was. A page takes seconds.
        ocr_models: the folder of the models; None for those of the package `rapidocr`.
        hard: where pages go that OCR cannot read: ``"set aside"``, or ``"vision"`` for a stage that asks a vision
            model. They have no text.
        max_pages: pages to read of a file; None for all.
        most_pages: a file that has more goes to quarantine as ``"too many pages"``.
        max_chars_per_page: characters to read of a page; the others are left out, and counted in ``losses``.
        max_objects_per_page: drawings of a page to look at for tables, figures and what covers text.
        keep_headers: whether headers, footers and page numbers stay in the text.
        join_hyphens: whether words that were broken at the end of a line are joined.
        shapes: whether pages whose fonts have no map to Unicode, or a wrong one, are read by the shapes of their
            glyphs.
        crop: whether text outside the crop box of a page is left out; viewers do not show it.
        forms: whether the values of form fields, ``☒`` or ``☐`` for boxes and radio buttons, and free-text notes are in
            the text, where they are on the page.
        repair: whether a file that was cut off is read as far as it goes.
        password: for encrypted files; None for none.
        reading: limits of each PDF; `timeout_s` is 60 and `memory` 1 GiB unless given, with OCR 600 and 3 GiB.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> import pyarrow as pa
        >>> from dcurate import DocumentBatch
        >>> from dcurate.media import FileReading
        >>> page = b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/MediaBox[0 0 99 99]/Resources<</Font<</F 5 0 R>>>>>>"
        >>> parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[3 0 R]>>", page]
        >>> parts += [b"<</Length 33>>stream\nBT /F 9 Tf 9 50 Td (A word) Tj ET \nendstream"]
        >>> parts += [b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
        >>> objects = b"".join(b"%d 0 obj\n%b\nendobj\n" % each for each in enumerate(parts, 1))
        >>> pdf = b"%PDF-1.4\n" + objects + b"trailer<</Root 1 0 R>>\n%%EOF"
        >>> stage = PdfExtract(reading=FileReading(timeout_s=20))
        >>> batch = DocumentBatch(data=pa.table({"bytes": pa.array([pdf, b"<html>"], pa.large_binary())}))
        >>> found = stage.process(batch)
        >>> found.to_arrow().select(["text", "n_pages", "truncated"]).to_pylist(), found.rejections[0].reason
        ([{'text': 'A word', 'n_pages': 1, 'truncated': None}], 'not a PDF: HTML')
        >>> stage.teardown()
    """

    output: Output = "text"
    text_field: str = "text"
    id_field: str | None = None
    ocr: Ocr = "off"
    ocr_models: str | None = None
    hard: Hard = "set aside"
    max_pages: int | None = None
    most_pages: int = 100_000
    max_chars_per_page: int = 200_000
    max_objects_per_page: int = 50_000
    keep_headers: bool = False
    join_hyphens: bool = True
    shapes: bool = True
    crop: bool = True
    forms: bool = True
    repair: bool = True
    password: str | None = None
    name: str = "pdf_extract"

    readers: ClassVar[str] = "PdfReader"

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise PipelineError(f"{self.name}: output={self.output!r} is not one of {listed(get_args(Output))}")
        if self.max_pages is not None and self.max_pages < 1:
            raise PipelineError(f"{self.name}: max_pages={self.max_pages!r} must be at least 1, or None for all")
        for argument in ("most_pages", "max_chars_per_page", "max_objects_per_page"):
            if getattr(self, argument) < 1:
                raise PipelineError(f"{self.name}: {argument}={getattr(self, argument)!r} must be at least 1")
        for argument, allowed in (("ocr", get_args(Ocr)), ("hard", get_args(Hard))):
            if getattr(self, argument) not in allowed:
                raise PipelineError(
                    f"{self.name}: {argument}={getattr(self, argument)!r} is not one of {listed(allowed)}"
                )
        super().__post_init__()

    def requires(self) -> dict[str, str]:
        return {"pypdfium2": "documents", **({} if self.ocr == "off" else {"onnxruntime": "documents"})}

    def inputs(self) -> Spec:
        return ["data"], [self.id_field] if self.id_field else []

    def optional_inputs(self) -> list[str]:
        return [] if self.output == "interleaved" else ["truncated"]

    def dropped_columns(self) -> list[str]:
        return [REF, BYTES] if self.output == "interleaved" else super().dropped_columns()

    def outputs(self) -> Spec:
        if self.output == "interleaved":
            return ["data"], [*SCHEMA.names, PAGE]
        return ["data"], [self.text_field, *DOCUMENT.names]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if self.ocr != "off":
            model_files(self.ocr_models)  # raises here if there are none
        super().setup(worker_metadata)

    def look(self, files: Sequence[File]) -> Sequence[Any]:
        return [_judged(answer) for answer in self.called([file.data for file in files])]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows of PDFs that could be read; the others are in its rejections."""
        read = self.answers(DocumentBatch.given(task).to_arrow())
        result = quarantined(task, read, self.name)
        empty = pa.array([answer is None for answer in read if not isinstance(answer, MediaFault)], pa.bool_())
        rows = result.to_arrow()
        dropped = self._dropped(rows.filter(empty), NO_PAGES)
        rows = rows.filter(pc.invert(empty))
        answers = [answer for answer in read if isinstance(answer, ChildAnswer)]
        if self.output == "interleaved":
            rows = interleaved_table(rows, answers, self._ids(rows, str(task.key or "")))
        else:
            rows = self._with_columns(rows, [self._row(answer) for answer in answers])
        lost = counted(answer.value["losses"] for answer in answers)
        return replace(result, data=rows, rejections=(*result.rejections, *dropped), found=lost)

    @property
    def function(self) -> str:
        package = "dcurate.documents"
        return f"{package}.child:read_pdf" if self.ocr == "off" else f"{package}.ocr.child:read_pdf_with_ocr"

    @property
    def default_limits(self) -> tuple[float, int | str]:
        return (60.0, "1GiB") if self.ocr == "off" else (600.0, "3GiB")

    @property
    def options(self) -> Mapping[str, Any]:
        return {
            "output": self.output,
            "markdown": self.output != "text",
            "links": self.output != "text",
            **{name: getattr(self, name) for name in _OPTIONS},
            "repair": self.repair,
            "signals": [field.name for field in PAGE_SIGNALS],
            **({} if self.ocr == "off" else {"ocr": {"ocr": self.ocr, "models": self.ocr_models, "hard": self.hard}}),
        }

    def _row(self, answer: ChildAnswer) -> dict[str, Any]:
        return {**document_columns(answer.value), self.text_field: answer.value[self.output]}

    def _ids(self, rows: pa.Table, key: str) -> list[str]:
        if self.id_field is not None:
            return [str(value) for value in rows[self.id_field].to_pylist()]
        refs = refs_of(rows) if REF in rows.column_names else [None] * rows.num_rows
        return [
            f"{key}:{row}" if ref is None else "#".join(filter(None, (ref.path, ref.member)))
            for row, ref in enumerate(refs)
        ]

    def _with_columns(self, rows: pa.Table, records: Sequence[Mapping[str, Any]]) -> pa.Table:
        """The rows with what was found in their files, in place of columns of the same names."""
        columns = pa.schema([(self.text_field, pa.string()), *DOCUMENT])
        table = pa.Table.from_pylist(list(records), columns)
        if "truncated" in rows.column_names and pa.types.is_string(rows["truncated"].type):
            known = rows["truncated"].to_pylist()  # by the crawler
            truncated = [was or now for was, now in zip(known, table["truncated"].to_pylist(), strict=True)]
            table = with_columns(table, pa.table({"truncated": pa.array(truncated, pa.string())}))
        return with_columns(rows.drop_columns([name for name in (BYTES,) if name in rows.column_names]), table)


def _judged(answer: ChildAnswer | MediaFault) -> ChildAnswer | MediaFault | None:
    """An answer; its fault under the name that the stage gives it; None for a file without pages."""
    if isinstance(answer, ChildAnswer):
        return answer
    if answer.reason == NO_PAGES:
        return None
    return MediaFault("out of memory", answer.detail) if answer.reason == _ABORTED else answer
