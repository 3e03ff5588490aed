"""Stages for pictures with NeMo Curator's names and arguments: shards are read and written as dcurate does.

Pictures of any format are read, on a CPU, and keep their names, captions, JSON and bytes: NeMo Curator reads ``.jpg``
files alone, calls them after their number, and writes them as new JPEGs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from dcurate.compat.nemo.earlier import earlier_names
from dcurate.compat.nemo.image_tasks import ImageBatch, ImageObject
from dcurate.compat.nemo.stages import ProcessingStage, Spec, changed_stage
from dcurate.compat.nemo.tasks import DocumentBatch, FileGroupTask
from dcurate.compat.nemo.verbose import log_progress
from dcurate.media.names import kind_of
from dcurate.media.refs import Ref
from dcurate.media.samples import KEY, MEMBERS
from dcurate.media.webdataset import WebDatasetReader

_log = logging.getLogger("dcurate.compat.nemo")


@earlier_names(task_batch_size="dali_batch_size", batch_size="dali_batch_size")
@dataclass
class ImageReaderStage(ProcessingStage[FileGroupTask, ImageBatch]):
    """Read the pictures of WebDataset shards.

    A picture is called after its shard and sample, ``{shard}_{key}``; its caption (``.txt``) and JSON are in its
    metadata. Pixels are decoded when a stage looks at them. Samples that cannot be read are logged.

    Args:
        dali_batch_size: pictures of a batch at most.
        verbose, num_threads, num_gpus_per_worker: taken, and without effect: reading needs no GPU.
    """

    dali_batch_size: int = 100
    verbose: bool = True
    num_threads: int = 8
    num_gpus_per_worker: float = 0.25
    name: str = "image_reader"

    def outputs(self) -> Spec:
        return ["data"], ["image_data", "image_path", "image_id"]

    def process(self, task: FileGroupTask) -> list[ImageBatch]:
        """Return the pictures of the shards, in batches.

        Raises:
            ValueError: there are no shards.
        """
        if not task.data:
            raise ValueError(f"No tar file paths in task {task.task_id}")
        pictures = [picture for path in task.data for picture in self._pictures(str(path))]
        size = self.dali_batch_size
        return [
            ImageBatch(
                dataset_name="tar_files",
                data=pictures[start : start + size],
                _metadata={**task._metadata, "source_files": list(task.data)},
            )
            for start in range(0, len(pictures), size)
        ]

    def _pictures(self, path: str) -> Iterator[ImageObject]:
        reader = WebDatasetReader(path)
        shard = path.rpartition("/")[2].partition(".")[0]
        without_picture = 0
        for split in reader.splits():
            made = reader.process(split)
            for batch in made if isinstance(made, list) else [made] if made is not None else []:
                for gone in batch.rejections:
                    _log.warning("%s: %d samples or members cannot be read: %s", path, gone.rows, gone.reason)
                for row in batch.to_arrow().to_pylist():
                    if kind_of(row["file_name"] or "") == "image":
                        yield _picture(path, shard, row)
                    else:
                        without_picture += 1
        if without_picture:
            _log.warning("%s: %d samples have no picture", path, without_picture)


def _picture(path: str, shard: str, row: dict[str, Any]) -> ImageObject:
    parsed = orjson.loads(row["json"]) if _is_json(row.get("json")) else None
    about = dict(parsed) if isinstance(parsed, dict) else {}
    if row.get("txt") is not None:
        about.setdefault("caption", row["txt"])
    about.setdefault("key", row[KEY])
    return ImageObject.of(
        Ref(**row["media_ref"]),
        [Ref(**ref) for ref in row[MEMBERS]],
        image_path=f"{path}/{row['file_name']}",
        image_id=f"{shard}_{row[KEY]}",
        metadata=about,
    )


def _is_json(text: Any) -> bool:
    try:
        return text is not None and orjson.loads(text) is not None
    except orjson.JSONDecodeError:
        return False


class ImageDuplicatesRemovalStage(ProcessingStage[ImageBatch, ImageBatch]):
    """Leave out pictures whose ids are listed in Parquet files.

    Args:
        removal_parquets_dir: the folder of the files.
        duplicate_id_field: the column with the ids.
        verbose: whether their number is logged.
        name: name of the stage.
        num_workers_per_node: slots on each host, by its place in 26.07; later ``with_`` takes it.
    """

    def __init__(
        self,
        removal_parquets_dir: str,
        duplicate_id_field: str = "id",
        verbose: bool = False,
        name: str = "image_dedup_filter",
        *,
        num_workers_per_node: float | None = None,
    ) -> None:
        self.removal_parquets_dir = removal_parquets_dir
        self.duplicate_id_field = duplicate_id_field
        self.verbose = verbose
        self.name = name
        self._ids_to_remove: set[str] = set()
        if num_workers_per_node is not None:
            changed_stage(self, {"num_workers_per_node": num_workers_per_node})

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def setup(self, worker_metadata: Any = None) -> None:
        """Read the ids.

        Raises:
            FileNotFoundError: the folder has no Parquet files.
        """
        folder = self.removal_parquets_dir
        names = [name for name in sorted(os.listdir(folder)) if name.endswith(".parquet")]
        if not names:
            raise FileNotFoundError(f"No parquet files found in {folder}")
        schema = pa.schema([pa.field(self.duplicate_id_field, pa.string())])
        files = ds.dataset([os.path.join(folder, name) for name in names], format="parquet", schema=schema)
        self._ids_to_remove = set(files.to_table()[self.duplicate_id_field].to_pylist())

    def process(self, task: ImageBatch) -> ImageBatch:
        """Return the pictures that are not listed."""
        kept = [picture for picture in task.data if picture.image_id not in self._ids_to_remove]
        if self.verbose:
            log_progress("kept %d of %d pictures", len(kept), len(task.data))
        return ImageBatch(
            data=kept, dataset_name=task.dataset_name, _metadata=task._metadata, _stage_perf=task._stage_perf
        )


@dataclass
class ConvertImageBatchToDocumentBatchStage(ProcessingStage[ImageBatch, DocumentBatch]):
    """Make rows of pictures.

    Args:
        fields: attributes of `ImageObject` that become columns; ``image_id`` by default.
    """

    fields: list[str] = field(default_factory=list)
    name: str = "convert_image_batch_to_document_batch"

    def process(self, task: ImageBatch) -> DocumentBatch:
        """Return a row for each picture."""
        columns = {
            name: [_plain(getattr(picture, name, None)) for picture in task.data]
            for name in self.fields or ["image_id"]
        }
        return DocumentBatch(
            dataset_name=task.dataset_name,
            data=pd.DataFrame(columns),
            _metadata=task._metadata,
            _stage_perf=task._stage_perf,
        )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
