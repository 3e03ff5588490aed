"""Remove the documents whose ids are listed in files."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.dedup.removal_ids import RemovalIds, SortedIds
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.ids import id_keys
from dcurate.fs.stores import Directory

#: The column of ids that are made where documents have none; the name is NeMo Curator's.
CURATOR_DEDUP_ID_STR = "_curator_dedup_id"
REASON = "id_to_remove"


@dataclass
class RemoveIds(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Remove the documents whose ids are listed in Parquet files.

    Ids are text or whole numbers, in any order; there may be more than fit in memory: each host sorts them once, in
    files (16 bytes an id) in its folder for temporary files, which the last worker removes. Every document with such an
    id goes, also if several have it; a document without an id stays. The report counts the documents that went.

    Args:
        ids_to_remove_path: Parquet files, directories or globs, as `ParquetReader` takes them.
        id_field: the column of ids in the documents.
        duplicate_id_field: the column of ids in the Parquet files.
        read_kwargs: for reading these, as `ParquetReader` takes them, with ``storage_options``.
        drop_id_field: whether the documents that stay lose their column of ids.
        found_url: a folder for notes of which ids were found, for `ids_found`.
        storage_options: fsspec's, for that folder.
        name: name of the stage.

    Raises:
        DataError: ids are text on one side and numbers on the other, so that none could be equal.

    Examples:
        >>> RemoveIds("results/ExactDuplicateIds", id_field="id").inputs()
        ([], ['id'])
    """

    ids_to_remove_path: str | list[str]
    id_field: str = CURATOR_DEDUP_ID_STR
    duplicate_id_field: str = "id"
    read_kwargs: dict[str, Any] | None = None
    drop_id_field: bool = False
    found_url: str | None = None
    storage_options: dict[str, Any] | None = None
    name: str = "text_duplicates_removal"
    _sorted: SortedIds | None = field(default=None, init=False, repr=False, compare=False)

    several: ClassVar[tuple[str, ...]] = ("ids_to_remove_path",)

    def inputs(self) -> Spec:
        return [], [self.id_field]

    def dropped_columns(self) -> list[str]:
        return [self.id_field] if self.drop_id_field else []

    def settings(self) -> dict[str, Any]:
        return {"id_field": self.id_field, "drop_id_field": self.drop_id_field, "ids": self._ids.version}

    @property
    def cheap_setup(self) -> bool:
        return True

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._sorted = self._ids.opened()  # held, so that the files stay until slots are set up

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._sorted = self._ids.opened()

    def teardown(self) -> None:
        if self._sorted is not None:
            self._sorted.close()
            self._sorted = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self._sorted = self._sorted or self._ids.opened()
        table = task.to_arrow()
        try:
            matches = self._sorted.find(id_keys(table, self.id_field), table.num_rows)
        except DataError as error:
            raise DataError(f"ids of {task.key} in column {self.id_field!r}: {error}") from error
        if self.found_url is not None and task.key is not None:
            _note(Directory(self.found_url, self.storage_options or {}), task.key, matches.places, len(self._sorted))
        kept = task.keep(~matches.rows, self.name, REASON)
        return replace(kept, data=kept.to_arrow().drop_columns([self.id_field])) if self.drop_id_field else kept

    @property
    def _ids(self) -> RemovalIds:
        return RemovalIds(self.ids_to_remove_path, self.duplicate_id_field, self.read_kwargs or {})


class IdsFound(NamedTuple):
    """The number of distinct ids to remove, and of those found in documents."""

    ids: int
    found: int


def ids_found(url: str, storage_options: dict[str, Any] | None = None) -> IdsFound:
    """Return the counts in the ``found_url`` of a `RemoveIds`, over all batches.

    It takes an eighth of a byte of memory for each id.
    """
    folder = Directory(url, storage_options or {})
    ids, bits = 0, np.zeros(0, np.uint8)
    for name in folder.files():
        noted = np.load(io.BytesIO(folder.read(name) or b""))
        if not ids:
            ids = int(noted[-1])
            bits = np.zeros(-(-ids // 8), np.uint8)
        places = noted[:-1]
        np.bitwise_or.at(bits, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))
    return IdsFound(ids, int(np.bitwise_count(bits).sum()))


def _note(folder: Directory, key: BatchKey, places: npt.NDArray[np.int64], ids: int) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.append(places, ids))
    folder.write(f"{key.digest}.npy", buffer.getvalue(), "tmp")
