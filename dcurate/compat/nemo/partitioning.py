"""Stages that list files and put them into groups, as NeMo Curator does."""

from __future__ import annotations

import logging
import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import fsspec
import orjson
from fsspec.core import url_to_fs

from dcurate.compat.nemo.files import (
    FSPath,
    get_all_file_paths_and_size_under,
    get_all_file_paths_under,
    has_extension,
    infer_dataset_name_from_path,
    parse_bytes_string_to_int,
)
from dcurate.compat.nemo.stages import ProcessingStage, Resources
from dcurate.compat.nemo.tasks import EmptyTask, FileGroupTask, TaskBatch
from dcurate.core.batch import Batch, BatchKey
from dcurate.core.stage import SourceStage
from dcurate.io.partition import group_name

_log = logging.getLogger("dcurate.compat.nemo")

#: Larger groups of files are warned of.
_LARGE = 512_000_000
_READABLE = (".jsonl", ".json", ".parquet")


@dataclass
class FilePartitioningStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """List files and put them into groups: a task for each.

    Args:
        file_paths: a file, folder or glob, of which the files below are taken; or a list of these, of which only
            the files directly in the folders are.
        files_per_partition: files of a group, in the order of their paths; one if `blocksize` is not given either.
        blocksize: bytes of a group at most, as a number or as ``"128MB"``: files are sorted by size, and packed.
        file_extensions: endings of the files that are taken; by default of JSON Lines and Parquet.
        storage_options: for fsspec.
        limit: the number of groups that are made at most.

    Raises:
        ValueError: both `files_per_partition` and `blocksize` are given.

    Examples:
        >>> FilePartitioningStage("in", blocksize="1 kB").groups([("c", 800), ("a", 300), ("b", 700)])
        [['a', 'b'], ['c']]
        >>> FilePartitioningStage("in", files_per_partition=2).groups([("c", 800), ("a", 300), ("b", 700)])
        [['a', 'b'], ['c']]
    """

    file_paths: str | list[str]
    files_per_partition: int | None = None
    blocksize: int | str | None = None
    file_extensions: list[str] | None = None
    storage_options: dict[str, Any] | None = None
    limit: int | None = None
    name: str = "file_partitioning"

    def __post_init__(self) -> None:
        if self.files_per_partition is not None and self.blocksize is not None:
            raise ValueError("Both 'files_per_partition' and 'blocksize' were specified, but only one is allowed")
        self.file_extensions = list(_READABLE) if self.file_extensions is None else self.file_extensions
        self.storage_options = self.storage_options or {}
        self.resources = Resources(cpus=0.5)
        if self._bytes > _LARGE:
            _log.warning("Blocksize is greater than 512 MB: %s; a worker holds a whole group in memory", self.blocksize)

    @property
    def _bytes(self) -> int:
        return _LARGE if self.blocksize is None else parse_bytes_string_to_int(self.blocksize)

    def num_workers(self) -> int | None:
        return 1

    def process(self, _: EmptyTask) -> list[FileGroupTask]:
        """List the files; return a task for each group of them."""
        sizes = dict(self.files())
        if not sizes:
            _log.warning("no files found under %s", self.file_paths)
        groups = self.groups(list(sizes.items()))
        for group in groups:
            self._check_size(group, sum(sizes[path] for path in group))
        return self._tasks(groups, self._get_dataset_name(list(sizes)), {})

    def files(self) -> list[tuple[str, int]]:
        """Return the files and their sizes, in the order of their paths.

        Raises:
            FileNotFoundError: there is nothing at a path.
            TypeError: the paths are neither text nor a list.
        """
        if not isinstance(self.file_paths, str | os.PathLike | list | tuple):
            raise TypeError(f"Invalid file paths: {self.file_paths}, must be a string or list of strings")
        paths, is_one = self.file_paths, isinstance(self.file_paths, str | os.PathLike)
        return sorted(
            file
            for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)
            for file in get_all_file_paths_and_size_under(
                os.fspath(path), is_one, self.file_extensions, self.storage_options
            )
        )

    def groups(self, files: Sequence[tuple[str, int]]) -> list[list[str]]:
        """Put files, given with their sizes, into groups."""
        if self.blocksize is not None:
            return self._partition_by_size(list(files), self._bytes)
        return self._partition_by_count(sorted(path for path, _ in files), self.files_per_partition or 1)

    def _partition_by_count(self, files: list[Any], count: int) -> list[list[Any]]:
        return [files[start : start + count] for start in range(0, len(files), count)]

    def _partition_by_size(self, files: list[tuple[str, int]], blocksize: int) -> list[list[str]]:
        groups: list[list[str]] = []
        room = -1
        for path, size in sorted(files, key=lambda file: (file[1], file[0])):
            if size > room:
                groups.append([])
                room = blocksize
            groups[-1].append(path)
            room -= size
        return groups

    def _get_dataset_name(self, files: list[str]) -> str:
        return infer_dataset_name_from_path(files[0]) if files else "dataset"

    def _tasks(self, groups: list[list[Any]], name: str, metadata: dict[str, Any]) -> list[FileGroupTask]:
        made = groups if self.limit is None else groups[: self.limit]
        about = {"total_partitions": len(groups), **metadata}
        return [
            FileGroupTask(
                dataset_name=name, data=group, _metadata={"partition_index": n, **about, "source_files": group}
            )
            for n, group in enumerate(made)
        ]

    def _check_size(self, group: list[str], size: int) -> None:
        if size > self._bytes:
            advice = "set blocksize, or fewer files_per_partition" if self.blocksize is None else "raise blocksize"
            _log.warning(
                "File group task has exceeded the storage limit per partition: %s has %d bytes (limit %d); %s, "
                "or split large files with nemo_curator.utils.split_large_files",
                group,
                size,
                self._bytes,
                advice,
            )

    def engine_form(self, before: list[Any], is_last: bool) -> PartitionSource | None:
        """Return the source that takes the place of this stage at the beginning of a pipeline."""
        return None if before else PartitionSource(self)


@dataclass
class PartitionSource(SourceStage[Batch, Batch]):
    """A source whose splits are the groups of files of a partitioning stage.

    Args:
        stage: the partitioning stage.
    """

    stage: FilePartitioningStage
    name: str = "file_partitioning"

    def splits(self) -> Iterator[Batch]:
        self.stage.setup()
        names = Counter[str]()
        for task in self.stage.process(EmptyTask()):
            name = group_name([str(path) for path in task.data])
            names[name] += 1
            key = BatchKey(name if names[name] == 1 else f"{name}#{names[name]}")
            yield TaskBatch(task=task, key=key)

    def num_workers(self) -> int | None:
        """None: the files are listed on the driver, and what follows may run in this source's slots."""
        return None

    def settings(self) -> dict[str, Any]:
        attributes = vars(self.stage)
        return {name: attributes[name] for name in ("files_per_partition", "blocksize") if name in attributes}

    def process(self, task: Batch) -> Batch:
        return task


@dataclass
class ClientPartitioningStage(FilePartitioningStage):
    """List the files of a store, or those that a list names, and put them into groups.

    Args:
        file_paths: the folder.
        input_list_json_path: a JSON file with the list of the files, instead of those in the folder.
    """

    input_list_json_path: str | None = None
    name: str = "client_partitioning"
    _fs: Any = field(default=None, init=False, repr=False)
    _root: str | None = field(default=None, init=False, repr=False)

    def setup(self, worker_metadata: Any = None) -> None:
        self._fs, self._root = url_to_fs(self.file_paths, **(self.storage_options or {}))

    def process(self, _: EmptyTask) -> list[FileGroupTask]:
        """List the files; return a task for each group of them.

        Raises:
            RuntimeError: `setup` was not called.
            ValueError: the list names a file that is not in the folder.
        """
        if not self._fs or not self._root:
            raise RuntimeError("Stage not initialized. Call setup() before process().")
        paths = [path for path in self._list_relative() if has_extension(path, self.file_extensions)]
        paths = paths[: self.limit] if self.limit else paths
        files = [FSPath(self._fs, posixpath.join(self._root, path)) for path in paths]
        groups = self._partition_by_count(files, self.files_per_partition or 1)
        name = infer_dataset_name_from_path(str(self.file_paths))
        return self._tasks(groups, name, {"storage_options": self.storage_options})

    def _list_relative(self) -> list[str]:
        """The paths of the files below the folder."""
        root = str(self._root)
        if self.input_list_json_path:
            return _read_list_json_rel(root, self.input_list_json_path, self.storage_options or {})
        paths = get_all_file_paths_under(root, True, self.file_extensions, fs=self._fs)
        return sorted(posixpath.relpath(path, root) for path in paths)


def _read_list_json_rel(root: str, json_url: str, storage_options: dict[str, Any]) -> list[str]:
    """The paths below a folder that a JSON file lists.

    Raises:
        TypeError: it holds no list.
        ValueError: a path is not in the folder.
    """
    with fsspec.open(json_url, "rb", **storage_options) as file:
        listed = orjson.loads(file.read())
    if not isinstance(listed, list):
        raise TypeError(f"List JSON at {json_url} must be an array.")
    prefix = root.rstrip("/") + "/"
    for path in listed:
        if not str(path).startswith(prefix):
            raise ValueError(f"Input path {path} is not under root {prefix}")
    return sorted({str(path).removeprefix(prefix) for path in listed})
