"""`FileStage`: the base of stages that look at the file of each row."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa

from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError, shown
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.isolate.sandbox import ChildAnswer, Sandbox
from dcurate.media.faults import quarantined
from dcurate.media.heads import File, heads
from dcurate.media.refs import LARGEST_FILE, NO_REFERENCE, Ref, check_has_media, fetched, has_segments, refs_of


@dataclass(frozen=True)
class FileReading:
    """How a stage reads the files of rows.

    Args:
        max_file_bytes: size of the largest file that is fetched, in bytes or as text such as ``"256MiB"``; a larger one
            goes to quarantine as ``too large``.
        sandbox: whether files are decoded in a child process with limits of time and memory, so that a decoder that
            hangs or dies costs one row; None for what the stage does by itself.
        timeout_s: seconds of CPU time for a file in the child process, and ten times as many by the clock; None for
            what the stage allows by itself.
        memory: memory of the child process in bytes, or text such as ``"2GiB"``; None likewise.
        storage_options: options of fsspec for the files.

    Raises:
        PipelineError: a limit that is not above zero.

    Examples:
        >>> FileReading(max_file_bytes="1MiB", timeout_s=10)
        FileReading(max_file_bytes=1048576, sandbox=None, timeout_s=10, memory=None)
    """

    max_file_bytes: int | str = LARGEST_FILE
    sandbox: bool | None = None
    timeout_s: float | None = None
    memory: int | str | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_file_bytes", parse_bytes(self.max_file_bytes, "max_file_bytes"))
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_bytes(self.memory, "memory"))
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise PipelineError(f"timeout_s={self.timeout_s!r} must be above zero")

    @property
    def limits(self) -> Self:
        """The settings that decide the rows."""
        return replace(self, sandbox=None, storage_options=None)


@dataclass
class FileStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Look at the file of each row, and add columns; the base of stages for images, documents and other media.

    Files are references in the column ``media_ref``, as `MediaReader` and `WebDatasetReader` make them, or bytes in a
    column ``bytes``. About 64 MiB are held at a time. A row whose file cannot be fetched or read goes to quarantine
    with the reason.

    A subclass lists its `columns` and reads a file in one of two ways: by a method `read`, in the process of the stage;
    or by a `function`, which may run in a child process, so that a file that hangs or kills it costs one row. A stage
    to which the start of a file can be enough sets `reads_heads`.

    Args:
        reading: limits, and whether files are read in a child process.

    Raises:
        PipelineError: a setting of `reading` has no effect on this stage.

    Examples:
        >>> from dcurate.media import FileStage, MediaError
        >>> @dataclass
        ... class NetpbmSize(FileStage):
        ...     name: str = "netpbm_size"
        ...     columns = {"width": pa.int64(), "height": pa.int64()}
        ...
        ...     def read(self, file):
        ...         words = file.data.split(None, 3)
        ...         if len(words) < 4 or words[0] not in (b"P5", b"P6"):
        ...             raise MediaError("not a netpbm file")
        ...         return int(words[1]), int(words[2])
        >>> batch = DocumentBatch(data=pa.table({"bytes": [b"P5 30 20 255 ...", b"GIF89a..."]}))
        >>> sized = NetpbmSize().process(batch)
        >>> sized.to_arrow().select(["width", "height"]).to_pylist(), sized.rejections[0].reason
        ([{'width': 30, 'height': 20}], 'not a netpbm file')
    """

    _: KW_ONLY
    reading: FileReading = FileReading()

    #: The class of `reading`.
    takes: ClassVar[type[FileReading]] = FileReading
    #: When `function` runs in a child process: always, or where ``sandbox=True`` asks for it.
    in_child: ClassVar[Literal["always", "on request"]] = "always"
    #: Files after which the child process is replaced.
    recycle_items: ClassVar[int] = 10_000
    #: Whether `function` reads files through this process, and yields answers, as `Sandbox.stream` calls it.
    serves_files: ClassVar[bool] = False
    #: Whether the first 64 KiB of a file are read first, and all of it only where they are not enough.
    reads_heads: ClassVar[bool] = False
    #: Whether `max_file_bytes` holds for files of which the head is enough, too.
    limits_heads: ClassVar[bool] = False
    #: Whether a row that has no file is kept, with nulls in the columns, instead of going to quarantine.
    keeps_rows_without: ClassVar[bool] = False
    #: The readers that make such rows, for the message about rows without files.
    readers: ClassVar[str] = "MediaReader or WebDatasetReader"

    _sandbox: Sandbox | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reading, kind = self.reading, self.takes
        if not isinstance(reading, kind):
            raise PipelineError(f"{self.name}: reading={shown(reading)} must be a {kind.__name__}(...)")
        if not self.function and reading.sandbox:
            raise PipelineError(f"{self.name}: it does not decode files in a child process; leave out sandbox=True")
        if self.function and self.in_child == "always" and reading.sandbox is False:
            raise PipelineError(f"{self.name}: it always reads files in a child process; leave out sandbox=False")
        if not self._has_child and (reading.timeout_s is not None or reading.memory is not None):
            hint = "; give sandbox=True, too" if self.function else ""
            raise PipelineError(f"{self.name}: timeout_s and memory are limits of a child process{hint}")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns that the stage adds, and their types."""
        return {}

    @property
    def function(self) -> str:
        """The function that reads a file, as ``"package.module:function"``; empty if `read` does.

        It gets the bytes and `options`, and returns a dictionary that JSON can hold, or a pair of it and a list of byte
        strings. A `MediaError` that it raises is the fault of the file.
        """
        return ""

    @property
    def options(self) -> Mapping[str, Any]:
        """What `function` gets with each file; JSON must be able to hold it."""
        return {}

    @property
    def default_limits(self) -> tuple[float, int | str]:
        """Seconds of CPU time and memory of the child process, where `reading` does not set them."""
        return 60.0, "2GiB"

    def is_enough(self, head: bytes) -> bool:
        """Whether the first bytes of a file are all that is needed of it."""
        return True

    def needs_tail(self, head: bytes) -> bool:
        """Whether the last bytes of a file are needed besides the first; they are then in its `tail`."""
        return False

    def read(self, file: File) -> Sequence[Any]:
        """Return the values of the columns for a file, in order.

        Raises:
            MediaError: the file cannot be read.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method read(file), or a function")

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        """Return the values of the columns, in order, from what `function` returned."""
        return [answer.value.get(name) for name in self.columns]

    def look(self, files: Sequence[File]) -> Sequence[Any]:
        """Return the values of the columns for each file, or its `MediaFault`; in order."""
        if not self.function:
            return [_outcome(self.read, file) for file in files]
        answers = self.called([file.data for file in files])
        return [answer if isinstance(answer, MediaFault) else self.row(answer) for answer in answers]

    def counted(self, rows: Sequence[Any]) -> dict[str, int]:
        """Return what the report counts, by kind.

        Args:
            rows: values of the columns for each good file.
        """
        return {}

    def inputs(self) -> Spec:
        return ["data"], []

    def columns_read(self) -> None:
        """None: the columns with places of files are not known before."""

    def outputs(self) -> Spec:
        return ["data"], list(self.columns)

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        self.check_media(columns)

    def check_media(self, columns: Sequence[str]) -> None:
        """Refuse rows without files.

        Raises:
            PipelineError: no column refers to files or holds them.
        """
        check_has_media(columns, self.name, self.readers)

    def settings(self) -> dict[str, Any]:
        settings = {name: value for name, value in super().settings().items() if not name.startswith("_")}
        return {**settings, "reading": self.reading.limits}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._end()
        if self._has_child:
            timeout_s, memory = self.default_limits
            self._sandbox = Sandbox(
                self.function,
                self.options,
                timeout_s=self.reading.timeout_s or timeout_s,
                memory_bytes=parse_bytes(self.reading.memory or memory),
                recycle_items=self.recycle_items,
                serves_files=self.serves_files,
            )

    def teardown(self) -> None:
        self._end()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        answers = self.answers(DocumentBatch.given(task).to_arrow())
        if self.keeps_rows_without:
            blank = [None] * len(self.columns)
            answers = [blank if _is_without_file(answer) else answer for answer in answers]
        kept = quarantined(task, answers, self.name)
        rows = [answer for answer in answers if not isinstance(answer, MediaFault)]
        return replace(self.with_values(kept, rows), found=self.counted(rows))

    def with_values(self, batch: DocumentBatch, rows: Sequence[Any]) -> DocumentBatch:
        """Return the batch of good files with the columns."""
        values = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        added = [
            pa.array(column, kind, from_pandas=True) for column, kind in zip(values, self.columns.values(), strict=True)
        ]
        table = with_columns(batch.to_arrow(), pa.table(dict(zip(self.columns, added, strict=True))))
        return replace(batch.with_data(table), rejections=batch.rejections)

    def answers(self, rows: pa.Table) -> list[Any]:
        """Return what `look` says of the file of each row, or why it cannot be fetched.

        Raises:
            PipelineError: the rows have no files.
        """
        self.check_media(rows.column_names)
        answers: list[Any] = []
        for files in self.files(rows):
            looked = iter(self.look([file for file in files if isinstance(file, File)]))
            answers += [next(looked) if isinstance(file, File) else file for file in files]
        return answers

    def files(self, rows: pa.Table) -> Iterator[list[File | MediaFault]]:
        """Yield the files of rows, or their heads, about 64 MiB at a time; each with the segment that its row means."""
        start = 0
        for files in self._fetched(rows):
            refs = refs_of(rows.slice(start, len(files))) if has_segments(rows) else [None] * len(files)
            yield [
                self._of_ref(file, ref) if ref and isinstance(file, File) else file
                for file, ref in zip(files, refs, strict=True)
            ]
            start += len(files)

    def _of_ref(self, file: File, ref: Ref) -> File | MediaFault:
        """The file with the segment that a row means; one of its tracks is nothing that the whole file can tell."""
        if ref.stream is not None:
            return MediaFault("a track", f"the row means track {ref.stream} of a film; {self.name} reads whole files")
        return file._replace(start_s=ref.start_s, stop_s=ref.stop_s)

    def _fetched(self, rows: pa.Table) -> Iterator[list[File | MediaFault]]:
        limit, options = parse_bytes(self.reading.max_file_bytes), self.reading.storage_options
        if self.reads_heads:
            head_limit = limit if self.limits_heads else None
            read = partial(heads, rows, self.is_enough, limit=limit, head_limit=head_limit, tails=self.needs_tail)
            for _, files in read(storage_options=options):
                yield files
        else:
            for _, contents in fetched(rows, limit=limit, storage_options=options):
                yield [data if isinstance(data, MediaFault) else File(data, len(data)) for data in contents]

    def called(self, items: Sequence[bytes]) -> list[ChildAnswer | MediaFault]:
        """Call `function` on files, in the child process if there is one."""
        if not self._has_child:
            function, options = pkgutil.resolve_name(self.function), dict(self.options)
            return [_outcome(lambda data: _answer(function(data, options)), data) for data in items]
        if self._sandbox is None:
            self.setup()
        assert self._sandbox is not None
        return self._sandbox.map(items)

    @property
    def _has_child(self) -> bool:
        return bool(self.function) and (self.in_child == "always" or bool(self.reading.sandbox))

    def _end(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None


def with_columns(rows: pa.Table, added: pa.Table) -> pa.Table:
    """Return rows with further columns, in place of columns of the same names.

    Examples:
        >>> with_columns(pa.table({"a": [1], "b": [2]}), pa.table({"b": ["x"]})).to_pylist()
        [{'a': 1, 'b': 'x'}]
    """
    for name in added.column_names:
        if name in rows.column_names:
            rows = rows.set_column(rows.column_names.index(name), name, added[name])
        else:
            rows = rows.append_column(name, added[name])
    return rows


def _is_without_file(answer: Any) -> bool:
    return isinstance(answer, MediaFault) and answer.reason == NO_REFERENCE


def _answer(result: Any) -> ChildAnswer:
    return ChildAnswer(*result) if isinstance(result, tuple) else ChildAnswer(result, [])


def _outcome(function: Any, file: Any) -> Any:
    try:
        return function(file)
    except MediaError as error:
        return error.fault
