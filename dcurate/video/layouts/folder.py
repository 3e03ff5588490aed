"""`VideoFolderReader` and `VideoFolderWriter`: films and clips with ``metadata.jsonl``, as Hugging Face has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dcurate.media.folder import MediaFolderReader, MediaFolderWriter
from dcurate.media.rows import part_columns

_PART = part_columns("video")


@dataclass
class VideoFolderReader(MediaFolderReader):
    r"""Read folders of films with metadata, the ``videofolder`` of Hugging Face.

    A row is one of a file ``metadata.jsonl``, ``metadata.csv`` or ``metadata.parquet``, in any folder below, with its
    columns as they are and `media_ref`, which refers to the film that ``file_name`` names, relative to the folder
    of the file of metadata. Rows with ``video_start_s`` and ``video_stop_s``, as `VideoFolderWriter` writes them for
    clips, refer to a clip, and those with ``video_stream`` to a track. Files that no row names are not read;
    `MediaReader` reads folders without metadata.

    Rows go to quarantine whose film is not there (``missing``, ``no path``) or lies elsewhere (``outside of
    root``), or whose clip none can be (``bad segment``).

    Args:
        file_paths: folders, or files of metadata, local or URLs.
        files_per_partition: files of metadata of one split.
        blocksize: split size, as bytes or ``"128MiB"``.
        fields: the columns to keep, in this order, ``file_name`` among them; all by default.
        read_kwargs: as for `DocumentReader`.
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
        >>> _ = Path(folder.name, "a.mp4").write_bytes(b"not really a film")
        >>> _ = Path(folder.name, "metadata.csv").write_text("file_name,text\na.mp4,hello\n")
        >>> [batch] = Pipeline("read", stages=[VideoFolderReader(folder.name)]).run(InlineExecutor(), observers=[])
        >>> [row] = batch.to_arrow().to_pylist()
        >>> row["text"], row["media_ref"]["path"].rpartition("/")[2], row["media_ref"]["size"]
        ('hello', 'a.mp4', 17)
        >>> folder.cleanup()
    """

    name: str = "video_folder_reader"

    part: ClassVar[tuple[str, ...]] = _PART


@dataclass
class VideoFolderWriter(MediaFolderWriter):
    r"""Write folders of films with metadata, which ``load_dataset("videofolder", data_dir=...)`` reads.

    Each batch becomes a folder with ``metadata.jsonl`` and the films, byte for byte, each once for all of its
    clips, under their ``file_name``. Rows of `VideoFolderReader` are written as their lines were, but for what
    stages changed; a row that means a clip has its times in ``video_start_s`` and ``video_stop_s``, and
    one that means a track its number in ``video_stream``. A row whose
    bytes cannot be fetched goes to quarantine.

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: as for `JsonlWriter`.
        fields: the columns to write besides ``file_name``; all by default.
        mode: what to do about existing files, as for `JsonlWriter`; ``"append"`` is refused.
        max_rows_per_file: split larger batches into several folders.
        storage_options: for fsspec, also of the films.
        separate_by: a column; rows of each of its values go to a folder of their own.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow as pa
        >>> from dcurate import BatchKey, DocumentBatch
        >>> rows = pa.table({"bytes": [b"not really a film"], "file_name": ["a.mp4"], "text": ["hello"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> files = VideoFolderWriter(folder.name).process(DocumentBatch(data=rows, key=BatchKey("rows")))
        >>> [path.rpartition("/")[2] for path in files.data], Path(files.data[1]).read_text()
        (['a.mp4', 'metadata.jsonl'], '{"file_name":"a.mp4","text":"hello"}\n')
        >>> folder.cleanup()
    """

    name: str = "video_folder_writer"

    part: ClassVar[tuple[str, ...]] = _PART
    readers: ClassVar[str] = "MediaReader or VideoFolderReader"
