"""Whole numbers as ids of documents: a range of them for each group of files.

NeMo Curator keeps the ranges in an actor that all workers ask, in the order in which they come. Here the process that
runs the pipelines keeps them, and no worker asks: before a run, the rows of the groups that have no range yet are
counted on the workers, the ranges are given out in the order of the source, and each worker gets them with its work.
So the same files get the same ids, whichever worker is first or dies.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Self

import fsspec
import numpy as np
import orjson

from dcurate.errors import DataError

CURATOR_DEDUP_ID_STR = "_curator_dedup_id"


class IdGeneratorBase:
    """Ranges of ids by group of files.

    Args:
        start_id: the first id that is given out.
        batch_registry: the first and last id of groups, by the hash of their files.

    Examples:
        >>> ids = IdGeneratorBase()
        >>> ids.register_batch(["a.jsonl"], 10), ids.register_batch(["b.jsonl"], 5), ids.register_batch("a.jsonl", 10)
        (0, 10, 0)
        >>> ids.get_batch_range(["b.jsonl"], None)
        (10, 14)
    """

    def __init__(self, start_id: int = 0, batch_registry: Mapping[str, tuple[int, int]] | None = None) -> None:
        self.next_id = start_id
        self.batch_registry = {} if batch_registry is None else batch_registry

    def register_batch(self, files: str | list[str], count: int) -> int:
        """Return the first id of a group of files; `count` ids are set aside for one that is new."""
        return self.register_key(self.hash_files(files), count)

    def register_key(self, key: str, count: int) -> int:
        """Return the first id of a group by the hash of its files; see `register_batch`."""
        if key not in self.batch_registry:
            self.batch_registry[key] = (self.next_id, self.next_id + count - 1)  # type: ignore[index]
            self.next_id += count
        return self.batch_registry[key][0]

    def hash_files(self, filepath: str | list[str]) -> str:
        """Return the hash of a group of files, by which `batch_registry` has it."""
        paths = filepath if isinstance(filepath, list) else [filepath]
        return str(uuid.uuid5(uuid.NAMESPACE_URL, ";".join(map(str, paths))))

    def get_batch_range(self, files: str | list[str] | None, key: str | None) -> tuple[int, int]:
        """Return the first and the last id of a group, given its files or the hash of them.

        Raises:
            ValueError: both are given, or neither.
            KeyError: the group has no ids.
        """
        if files is None and key is not None:
            first, last = self.batch_registry[key]
        elif files is not None and key is None:
            first, last = self.batch_registry[self.hash_files(files)]
        else:
            raise ValueError("Either files or key must be provided")
        return first, last

    def to_disk(self, filepath: str, storage_options: dict[str, Any] | None = None) -> None:
        """Write the ranges to a JSON file, local or in a store."""
        content = orjson.dumps({"next_id": self.next_id, "batch_registry": dict(self.batch_registry)})
        with fsspec.open(str(filepath), "wb", **(storage_options or {})) as file:
            file.write(content)

    @classmethod
    def from_disk(cls, filepath: str, storage_options: dict[str, Any] | None = None) -> Self:
        """Read what `to_disk` wrote, here or in NeMo Curator."""
        with fsspec.open(str(filepath), "rb", **(storage_options or {})) as file:
            held = orjson.loads(file.read())
        return cls(held["next_id"], {key: (first, last) for key, (first, last) in held["batch_registry"].items()})


class IdGenerator(IdGeneratorBase):
    """The ids of the pipelines of this process; see `create_id_generator_actor`."""

    active: IdGenerator | None = None


def create_id_generator_actor(filepath: str | None = None, storage_options: dict[str, Any] | None = None) -> None:
    """Begin to give out ids in this process.

    Args:
        filepath: a file of `write_id_generator_to_disk`, to go on from there.

    Raises:
        ValueError: this process has begun already; call `kill_id_generator_actor` first.
    """
    if IdGenerator.active is not None:
        raise ValueError("the id generator exists already; call kill_id_generator_actor() first")
    IdGenerator.active = IdGenerator() if filepath is None else IdGenerator.from_disk(filepath, storage_options)


def get_id_generator_actor() -> IdGenerator:
    """Return the ids of the pipelines of this process.

    Raises:
        ValueError: there are none.
    """
    if IdGenerator.active is None:
        raise ValueError("this process has no id generator; call create_id_generator_actor() before the pipeline runs")
    return IdGenerator.active


def kill_id_generator_actor() -> None:
    """Forget the ids of this process.

    Raises:
        ValueError: there are none.
    """
    get_id_generator_actor()
    IdGenerator.active = None


def write_id_generator_to_disk(filepath: str, storage_options: dict[str, Any] | None = None) -> None:
    """Write the ids to a JSON file, which `create_id_generator_actor` reads.

    Raises:
        ValueError: there are none in this process.
    """
    get_id_generator_actor().to_disk(filepath, storage_options)


def active_ids() -> IdGeneratorBase:
    """The id generator of this process.

    Raises:
        RuntimeError: there is none.
    """
    try:
        return get_id_generator_actor()
    except ValueError as error:
        raise RuntimeError(
            "ID generator is required when self._generate_ids or self._assign_ids is True, and the actor "
            "'id_generator' does not exist: call create_id_generator_actor() before the pipeline runs"
        ) from error


def numbers_of(span: tuple[int, int], first: int | None, rows: int, what: str) -> Any:
    """The ids of the rows of a group of files.

    Args:
        span: the first and the last id that the group was given.
        first: the id of the first row, if it is another one.
        rows: number of rows that the group has now.
        what: the group, for errors.

    Raises:
        DataError: it has another number of rows than before.
    """
    begin, last = span
    if last - begin + 1 != rows:
        raise DataError(
            f"{what} have {rows:,} rows, but {last - begin + 1:,} ids were given to them before: they have changed "
            "since; begin with a new id generator"
        )
    return np.arange(begin if first is None else first, begin + rows)
