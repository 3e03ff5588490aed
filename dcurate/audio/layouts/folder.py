"""`AudioFolderReader` and `AudioFolderWriter`: recordings with ``metadata.jsonl``, as Hugging Face has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dcurate.media.folder import MediaFolderReader, MediaFolderWriter
from dcurate.media.rows import part_columns

_PART = part_columns("audio")


@dataclass
class AudioFolderReader(MediaFolderReader):
    r"""Read folders of recordings with metadata, the ``audiofolder`` of Hugging Face.

    A row is one of a file ``metadata.jsonl``, ``metadata.csv`` or ``metadata.parquet``, in any folder below, with its
    columns as they are and `media_ref`, which refers to the recording that ``file_name`` names, relative to the folder
    of the file of metadata. Rows with ``audio_start_s`` and ``audio_stop_s``, as `AudioFolderWriter` writes them for
    segments, refer to a segment. Files that no row names are not read; `MediaReader` reads folders without metadata.

    Rows go to quarantine whose recording is not there (``missing``, ``no path``) or lies elsewhere (``outside of
    root``), or whose segment none can be (``bad segment``).

    Args:
        file_paths: folders, or files of metadata, local or URLs.
        files_per_partition: files of metadata of one split.
        blocksize: split size, as bytes or ``"128MiB"``.
        fields: the columns to keep, in this order, ``file_name`` among them; all by default.
        read_kwargs: arguments as for `DocumentReader`.
        storage_options: for fsspec.
        schema: types of columns by name, instead of guessing.
        limit: number of rows to read, at most: the first ones in the order of the files.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines that cannot be read.
        delimiter: of files ``metadata.csv``, as ``quote``, ``escape`` and ``header`` are; see `CsvReader`.
        frames: ``"cudf"`` to have the rows on a GPU. Untested on a GPU.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.wav").write_bytes(b"not really a recording")
        >>> _ = Path(folder.name, "metadata.csv").write_text("file_name,text\na.wav,hello\n")
        >>> [batch] = Pipeline("read", stages=[AudioFolderReader(folder.name)]).run(InlineExecutor(), observers=[])
        >>> [row] = batch.to_arrow().to_pylist()
        >>> row["text"], row["media_ref"]["path"].rpartition("/")[2], row["media_ref"]["size"]
        ('hello', 'a.wav', 22)
        >>> folder.cleanup()
    """

    name: str = "audio_folder_reader"

    part: ClassVar[tuple[str, ...]] = _PART


@dataclass
class AudioFolderWriter(MediaFolderWriter):
    r"""Write folders of recordings with metadata, which ``load_dataset("audiofolder", data_dir=...)`` reads.

    Each batch becomes a folder with ``metadata.jsonl`` and the recordings, byte for byte, each once for all of its
    segments, under their ``file_name``. Rows of `AudioFolderReader` are written as their lines were, but for what
    stages changed; a row that means a segment has its times in ``audio_start_s`` and ``audio_stop_s``. A row whose
    bytes cannot be fetched goes to quarantine.

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: arguments as for `JsonlWriter`.
        fields: the columns to write besides ``file_name``; all by default.
        mode: what to do about existing files, as for `JsonlWriter`; ``"append"`` is refused.
        max_rows_per_file: split larger batches into several folders.
        storage_options: for fsspec, also of the recordings.
        separate_by: a column; rows of each of its values go to a folder of their own.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow as pa
        >>> from dcurate import BatchKey, DocumentBatch
        >>> rows = pa.table({"bytes": [b"not really a recording"], "file_name": ["a.wav"], "text": ["hello"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> files = AudioFolderWriter(folder.name).process(DocumentBatch(data=rows, key=BatchKey("rows")))
        >>> [path.rpartition("/")[2] for path in files.data], Path(files.data[1]).read_text()
        (['a.wav', 'metadata.jsonl'], '{"file_name":"a.wav","text":"hello"}\n')
        >>> folder.cleanup()
    """

    name: str = "audio_folder_writer"

    part: ClassVar[tuple[str, ...]] = _PART
    readers: ClassVar[str] = "MediaReader or AudioFolderReader"
