"""Readers, writers and partitioning stages under NeMo Curator's names."""

from dcurate.compat.nemo.partitioning import ClientPartitioningStage, FilePartitioningStage, _read_list_json_rel
from dcurate.compat.nemo.readers import (
    BaseFileReader,
    BaseReader,
    JsonlReader,
    JsonlReaderStage,
    ParquetReader,
    ParquetReaderStage,
    ReaderData,
    ReaderOutput,
    ReaderTask,
)
from dcurate.compat.nemo.writers import BaseWriter, JsonlWriter, ParquetWriter

__all__ = [
    "BaseFileReader",
    "BaseReader",
    "BaseWriter",
    "ClientPartitioningStage",
    "FilePartitioningStage",
    "JsonlReader",
    "JsonlReaderStage",
    "JsonlWriter",
    "ParquetReader",
    "ParquetReaderStage",
    "ParquetWriter",
    "ReaderData",
    "ReaderOutput",
    "ReaderTask",
    "_read_list_json_rel",
]
