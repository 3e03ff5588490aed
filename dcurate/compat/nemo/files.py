"""Files and folders, as `nemo_curator.utils` has functions for them: listed, named, read and written with fsspec."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import posixpath
import tarfile
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from dask.utils import parse_bytes
from fsspec.core import split_protocol, url_to_fs
from fsspec.implementations.local import LocalFileSystem

from dcurate.compat.nemo.verbose import log_progress
from dcurate.fs.atomic import atomic_write
from dcurate.fs.stores import BESIDE, META_DIR

#: Endings of the files of each type.
FILETYPE_TO_DEFAULT_EXTENSIONS = {
    "parquet": [".parquet"],
    "jsonl": [".jsonl", ".json"],
    "megatron": [".bin", ".idx"],
}
#: What a writer may do with an output directory that exists.
_MODES = ("append", "error", "ignore", "overwrite")
#: Bytes that `FSPath.get_bytes_cat_ranges` requests at a time.
_PART = 10 << 20

_log = logging.getLogger("dcurate.compat.nemo")


def get_default_file_extensions(input_filetype: str) -> list[str]:
    """The endings of a type of files.

    Raises:
        ValueError: the type is not known.
    """
    if input_filetype not in FILETYPE_TO_DEFAULT_EXTENSIONS:
        raise ValueError(f"Unsupported filetype: {input_filetype}")
    return FILETYPE_TO_DEFAULT_EXTENSIONS[input_filetype]


# Stores


def get_fs(path: str, storage_options: Mapping[str, Any] | None = None) -> Any:
    """The fsspec file system of a path."""
    return url_to_fs(str(path), **(storage_options or {}))[0]


def _fs_of(path: str, fs: Any, storage_options: Mapping[str, Any] | None) -> Any:
    if fs is not None and storage_options is not None:
        raise ValueError("fs and storage_options cannot be provided together")
    return get_fs(path, storage_options) if fs is None else fs


def is_remote_url(url: str) -> bool:
    """Whether a path is on another machine.

    Examples:
        >>> [is_remote_url(url) for url in ("s3://bucket/a", "/data/a", "file:///data/a")]
        [True, False, False]
    """
    return split_protocol(str(url))[0] not in (None, "file", "local")


class FSPath:
    """A path with its file system."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path

    def open(self, mode: str = "rb", **options: Any) -> Any:
        return self._fs.open(self._path, mode, **options)

    def __str__(self) -> str:
        return self._path

    def __repr__(self) -> str:
        return f"FSPath({self._path})"

    def as_posix(self) -> str:
        """The path, with the first of the protocols in front of it."""
        protocols = getattr(self._fs, "protocol", None)
        if not protocols or protocols == "file":
            return self._path
        return f"{protocols if isinstance(protocols, str) else protocols[0]}://{self._path}"

    def get_bytes_cat_ranges(self, *, part_size: int = _PART) -> bytes:
        """Read the file by requests for `part_size` bytes, of which the file system makes several at a time."""
        size = self._fs.size(self._path)
        starts = range(0, size or 0, part_size)
        if not starts:
            return b""
        ends = [min(start + part_size, size) for start in starts]
        parts = self._fs.cat_ranges([self._path] * len(starts), [*starts], ends, on_error="raise")
        return b"".join(parts).ljust(size, b"\0")


# Folders


def is_not_empty(path: str, fs: Any = None, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Whether there is a folder with anything in it."""
    fs = _fs_of(path, fs, storage_options)
    return bool(fs.isdir(path) and fs.ls(path, detail=False))


def delete_dir(path: str, fs: Any = None, storage_options: Mapping[str, Any] | None = None) -> None:
    """Delete a folder, if there is one, with all that is in it."""
    fs = _fs_of(path, fs, storage_options)
    if fs.isdir(path):
        fs.rm(path, recursive=True)


def create_or_overwrite_dir(path: str, fs: Any = None, storage_options: Mapping[str, Any] | None = None) -> None:
    """Make an empty folder. One that is there is deleted with all that is in it."""
    fs = _fs_of(path, fs, storage_options)
    if is_not_empty(path, fs):
        _log.warning("%s is not empty: deleting it", path)
        delete_dir(path, fs)
    fs.makedirs(path, exist_ok=True)


def check_output_mode(mode: str, fs: Any, path: str, append_mode_implemented: bool = False) -> None:
    """Make an output directory, as the mode of a writer has it.

    Args:
        mode: ``"overwrite"`` deletes one that exists, ``"error"`` refuses it, ``"ignore"`` and ``"append"`` keep it.
        fs: the file system.
        path: path of the directory.
        append_mode_implemented: whether the writer knows ``"append"``.

    Raises:
        ValueError: an unknown mode.
        NotImplementedError: the writer does not append.
        FileExistsError: the directory exists, and the mode is ``"error"``.
    """
    wanted = mode.strip().lower()
    if wanted not in _MODES:
        raise ValueError(f"Invalid mode: {mode!r}. Allowed: {[*_MODES]}")
    if wanted == "append" and not append_mode_implemented:
        raise NotImplementedError("append mode is not implemented yet")
    if wanted == "error" and fs.exists(path):
        raise FileExistsError(f"Output directory {path} already exists")
    if wanted == "overwrite":
        delete_dir(path, fs)
    fs.makedirs(path, exist_ok=True)


# Lists of files


def has_extension(path: str, extensions: str | Collection[str] | None) -> bool:
    """Whether a file has one of some endings, in letters of any case; any is right if None.

    Examples:
        >>> has_extension("a/b.JSONL", "jsonl"), has_extension("a.jsonl.gz", [".jsonl"]), has_extension("a", None)
        (True, False, True)
    """
    if extensions is None:
        return True
    wanted = [extensions] if isinstance(extensions, str) else extensions
    endings = tuple(f".{extension.lstrip('.').casefold()}" for extension in wanted)
    return posixpath.basename(path).casefold().endswith(endings)


def _is_record(path: str) -> bool:
    """Whether a file is in a folder of records of a run, which NeMo Curator does not have."""
    return any(folder == META_DIR or folder.endswith(BESIDE) for folder in path.split("/")[:-1])


def _found(
    path: str,
    below: bool,
    extensions: str | Collection[str] | None,
    storage_options: Mapping[str, Any] | None,
    fs: Any,
) -> Iterator[tuple[str, int]]:
    """Yield the files of a file, folder or pattern, with their sizes."""
    fs = get_fs(path, storage_options) if fs is None else fs
    for root in fs.expand_path(path, recursive=False):
        if fs.isdir(root):
            files = fs.find(root, maxdepth=None if below else 1, detail=True)
        else:
            files = {root: fs.info(root)} if fs.exists(root) else {}
        for name, info in files.items():
            if has_extension(name, extensions) and not _is_record(name.removeprefix(root)):
                size = info.get("size")
                yield fs.unstrip_protocol(name) if is_remote_url(path) else name, -1 if size is None else int(size)


def get_all_file_paths_under(
    path: str,
    recurse_subdirectories: bool = False,
    keep_extensions: str | Collection[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    fs: Any = None,
) -> list[str]:
    """The files in a folder, sorted.

    Args:
        path: a folder, a file or a pattern; on another machine by its URL.
        recurse_subdirectories: whether to include those of folders in it.
        keep_extensions: only files with such endings, such as ``"jsonl"`` or ``[".jsonl", ".json"]``.
        storage_options: for fsspec.
        fs: the file system, if not that of the path.
    """
    return sorted(name for name, _ in _found(path, recurse_subdirectories, keep_extensions, storage_options, fs))


def get_all_file_paths_and_size_under(  # noqa: PLR0917 - as in NeMo Curator
    path: str,
    recurse_subdirectories: bool = False,
    keep_extensions: str | Collection[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    fs: Any = None,
    sort_by_size: bool = True,
) -> list[tuple[str, int]]:
    """The files in a folder with their sizes in bytes (-1 if unknown), sorted by size or else by path.

    The other arguments are those of `get_all_file_paths_under`.
    """
    files = _found(path, recurse_subdirectories, keep_extensions, storage_options, fs)
    return sorted(files, key=lambda file: file[1] if sort_by_size else file[0])


def infer_dataset_name_from_path(path: str, *, path_kind: str = "file") -> str:
    """The name that tasks of a file or folder give as that of their dataset, in small letters.

    Examples:
        >>> infer_dataset_name_from_path("/data/Books/part-0.jsonl")
        'books'
        >>> infer_dataset_name_from_path("part-0.jsonl")
        'part-0'
        >>> infer_dataset_name_from_path("s3://bucket/Books/")
        'books'
        >>> infer_dataset_name_from_path("/data/Books/", path_kind="directory")
        'books'
    """
    protocol, location = split_protocol(path)
    if path_kind == "directory" or protocol is not None:
        return str(location).rstrip("/").rpartition("/")[2].lower()
    return (Path(path).parent.name or Path(path).stem).lower()


# Contents


def read_json_file(path: str, fs: Any) -> Any:
    """Read a JSON file."""
    with fs.open(path, "rb") as file:
        return json.load(file)


def write_json_file(path: str, payload: Any, fs: Any) -> None:
    """Write a JSON file with sorted keys; on a local file system, whole or not at all."""
    if isinstance(fs, LocalFileSystem):
        write_json_atomically(Path(path), payload)
        return
    fs.makedirs(posixpath.dirname(path), exist_ok=True)
    with fs.open(path, "wb") as file:
        file.write(_json(payload))


def _json(payload: Any, **how: Any) -> bytes:
    return f"{json.dumps(payload, **{'sort_keys': True, **how})}\n".encode()


def fsync_directory(path: str | os.PathLike[str]) -> None:
    """Write the entries of a folder to the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json_atomically(path: Path, payload: Any, **how: Any) -> None:
    """Write a JSON file, whole or not at all.

    Args:
        path: path of the file, whose folder is made if there is none.
        payload: what to write.
        how: `indent`, `separators` and `sort_keys` of `json.dumps`.
    """
    data = _json(payload, **how)
    with atomic_write(path) as file:
        file.write(data)
    with suppress(OSError):  # not every shared file system can do it
        fsync_directory(Path(path).parent)


def write_json_atomically_if_absent(path: Path, payload: Any, **how: Any) -> bool:
    """Write a JSON file unless there is one, and return whether it was written.

    The arguments are those of `write_json_atomically`.
    """
    data, folder = _json(payload, **how), Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{Path(path).name}.") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
    with suppress(OSError):
        fsync_directory(folder)
    return True


class JsonEncoderCustom(json.JSONEncoder):
    """Encodes UUIDs, too."""

    def default(self, obj: Any) -> Any:
        return str(obj) if isinstance(obj, uuid.UUID) else super().default(obj)


def write_bytes(  # noqa: PLR0913 - as in NeMo Curator
    buffer: bytes,
    dest: Path,
    desc: str,
    source_video: str,
    *,
    verbose: bool,
    backup_and_overwrite: bool = False,
    overwrite: bool = False,
) -> None:
    """Write a local file, in a folder that is made if there is none.

    Args:
        buffer: what to write.
        dest: where. A file that exists stays as it is, unless `overwrite`.
        desc: what it is, for the log.
        source_video: what it was made from, for the log.
        verbose: whether to log it.
        backup_and_overwrite: not implemented, neither in NeMo Curator.
        overwrite: whether to replace a file that exists.
    """
    if dest.exists():
        if backup_and_overwrite:
            raise NotImplementedError("Backup and overwrite is not implemented")
        _log.warning("%s %s already exists, %s", desc, dest, "overwriting" if overwrite else "skipping")
        if not overwrite:
            return
    if verbose:
        log_progress("Writing %s for %s to %s", desc, source_video, dest)
    dest.parent.mkdir(parents=True, exist_ok=True)
    dest.write_bytes(buffer)


def write_parquet(data: list[dict[str, Any]], dest: Path, desc: str, source_video: str, **how: Any) -> None:
    """Write rows as a Parquet file. The arguments are those of `write_bytes`."""
    write_bytes(pd.DataFrame(data).to_parquet(index=False), dest, desc, source_video, **how)


def write_json(data: dict[str, Any], dest: Path, desc: str, source_video: str, **how: Any) -> None:
    """Write an object as indented JSON. The arguments are those of `write_bytes`."""
    write_bytes(json.dumps(data, indent=4, cls=JsonEncoderCustom).encode(), dest, desc, source_video, **how)


def write_csv(dest: Path, desc: str, source_video: str, data: list[list[str]], **how: Any) -> None:
    """Write rows as a CSV file. The arguments are those of `write_bytes`."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(data)
    write_bytes(text.getvalue().encode(), dest, desc, source_video, **how)


def tar_safe_extract(tar: tarfile.TarFile, path: str) -> None:
    """Extract an archive into a folder.

    Raises:
        ValueError: a file would be, or link to what is, outside the folder, or is a device.
    """
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    folder = os.path.realpath(path)
    for member in tar.getmembers():
        for name in (member.name, *([member.linkname] if member.issym() or member.islnk() else [])):
            target = os.path.normpath(os.path.join(folder, name))
            role = "symlink target" if name == member.linkname else "path"
            if os.path.isabs(name):
                raise ValueError(f"Absolute {role} not allowed in {member.name}: {name}")
            if os.path.commonpath([folder, target]) != folder:
                outside = (
                    "Path traversal attempt detected"
                    if role == "path"
                    else "Symlink target outside extraction directory"
                )
                raise ValueError(f"{outside}: {member.name} leads to {name}")
        if member.isdev():
            raise ValueError(f"Device files not allowed: {member.name}")
        tar.extract(member, path, **safely)


# Arguments


def parse_bytes_string_to_int(size: float | str) -> int:
    """A number of bytes.

    Examples:
        >>> parse_bytes_string_to_int("1.5 GiB"), parse_bytes_string_to_int("128MB"), parse_bytes_string_to_int("100")
        (1610612736, 128000000, 100)
    """
    return int(parse_bytes(size))


def pandas_select_columns(df: pd.DataFrame, columns: list[str] | None, file_path: str) -> pd.DataFrame | None:
    """Those of some columns that a frame has, in the order given; None if it has none of them."""
    if columns is None:
        return df
    if missing := [name for name in columns if name not in df.columns]:
        _log.warning("%s has no columns %s", file_path, missing)
    present = [name for name in columns if name in df.columns]
    return df[present] if present else None


def resolve_filename_column(add_filename_column: bool | str) -> str | None:
    """The column for the names of files, as an argument requests it: True means ``"file_name"``, False none.

    Raises:
        ValueError: it is neither a bool nor a name.
    """
    if isinstance(add_filename_column, str):
        return add_filename_column
    if not isinstance(add_filename_column, bool):
        raise ValueError(f"Invalid value for add_filename_column: {add_filename_column}")
    return "file_name" if add_filename_column else None
