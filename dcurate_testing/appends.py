"""Outputs of each writer to which runs append, and the rows that other libraries find in them."""

from __future__ import annotations

import importlib
import io
import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from dcurate import (
    DocumentWriter,
    ExactDuplicates,
    InlineExecutor,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    TableWriter,
    TokenWriter,
    WebDatasetWriter,
)
from dcurate_testing.token_files import read_megatron, train_bpe

#: Writers whose rows are in a folder, and libraries of tables.
FILE_KINDS = ("jsonl", "rounds", "parquet", "documents", "webdataset", "tokens")
TABLE_LIBRARIES = {"delta": "deltalake", "iceberg": "pyiceberg", "lance": "lance"}
TABLE_KINDS = tuple(kind for kind, name in TABLE_LIBRARIES.items() if importlib.util.find_spec(name) is not None)


class AppendedOutput:
    """An output of one kind.

    Args:
        kind: of `FILE_KINDS` or `TABLE_KINDS`.
        folder: that it is in, with what it needs.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.path = folder / "out"
        self.tokenizer = folder / "tokenizer.json"
        self.catalog = {
            "name": "here",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}",
        }

    def create(self) -> None:
        """Make what the output needs before the first run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.kind == "tokens":
            train_bpe(self.tokenizer, ["some words to begin with"], 300)
        if self.kind == "iceberg":
            with _catalog(self.catalog) as catalog:
                catalog.create_namespace("db")

    def stages(self, source: Path, **settings: Any) -> list[Any]:
        """A reader of a folder as `write_day` makes it, and the writer."""
        reader = ParquetReader(str(source), files_per_partition=1)
        settings = {"mode": "append", **settings}
        makers: dict[str, Callable[[], list[Any]]] = {
            "jsonl": lambda: [JsonlWriter(str(self.path), fields=["text"], **settings)],
            "rounds": lambda: [ExactDuplicates(), JsonlWriter(str(self.path), fields=["text"], **settings)],
            "parquet": lambda: [ParquetWriter(str(self.path), **settings)],
            "documents": lambda: [DocumentWriter(str(self.path), filetype="parquet", **settings)],
            "webdataset": lambda: [WebDatasetWriter(str(self.path), members={"txt": "text"}, **settings)],
            "tokens": lambda: [TokenWriter(str(self.path), str(self.tokenizer), shard_tokens=40, **settings)],
            "delta": lambda: [TableWriter(str(self.path), format="delta", **settings)],
            "lance": lambda: [TableWriter(str(self.path), format="lance", **settings)],
            "iceberg": lambda: [TableWriter("db.out", format="iceberg", catalog=self.catalog, **settings)],
        }
        return [reader, *makers[self.kind]()]

    def run(self, source: Path, resume: bool = False, **settings: Any) -> Any:
        """Append the rows of a folder."""
        pipeline = Pipeline("append", stages=self.stages(source, **settings))
        return pipeline.run(InlineExecutor(), resume=resume, observers=[])

    def forget(self) -> None:
        """Delete the records of all runs."""
        for path in self.folder.rglob("*.dcurate"):
            shutil.rmtree(path)

    def rows(self) -> Counter[str]:
        """The texts that are in the output, and how often."""
        return Counter(_READERS[self.kind](self))


def write_day(folder: Path, files: dict[str, Sequence[str]]) -> Path:
    """Write files of texts, with what a writer of samples needs beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in files.items():
        names = [f"{text}.bin" for text in texts]
        rows = pa.table({"text": list(texts), "file_name": names, "bytes": [text.encode() for text in texts]})
        pq.write_table(rows, folder / name)
    return folder


def _files(output: AppendedOutput, pattern: str) -> list[Path]:
    return sorted(path for path in output.path.rglob(pattern) if ".dcurate" not in str(path))


def _jsonl(output: AppendedOutput) -> list[str]:
    lines = [line for path in _files(output, "*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line)["text"] for line in lines]


def _parquet(output: AppendedOutput) -> list[str]:
    return [text for path in _files(output, "*.parquet") for text in pq.read_table(path)["text"].to_pylist()]


def _webdataset(output: AppendedOutput) -> list[str]:
    texts = []
    for path in _files(output, "*.tar"):
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as shard:
            texts += [shard.extractfile(one).read().decode() for one in shard if one.name.endswith(".txt")]
    return texts


def _tokens(output: AppendedOutput) -> list[str]:
    tokenizer = Tokenizer.from_file(str(output.tokenizer))
    about = output.path / "tokens.json"
    shards = json.loads(about.read_text())["shards"] if about.exists() else []
    sequences = [one for shard in shards for one in read_megatron(output.path / f"{shard['shard']}.bin")]
    return [tokenizer.decode(one, skip_special_tokens=True) for one in sequences]


def _delta(output: AppendedOutput) -> list[str]:
    library = importlib.import_module("deltalake")
    if not library.DeltaTable.is_deltatable(str(output.path)):
        return []
    return library.DeltaTable(str(output.path)).to_pyarrow_table()["text"].to_pylist()


def _lance(output: AppendedOutput) -> list[str]:
    if not (output.path / "_versions").exists():
        return []
    table = importlib.import_module("lance").dataset(str(output.path)).to_table()
    return table["text"].to_pylist()


def _iceberg(output: AppendedOutput) -> list[str]:
    with _catalog(output.catalog) as catalog:
        if not catalog.table_exists("db.out"):
            return []
        return catalog.load_table("db.out").scan().to_arrow()["text"].to_pylist()


def _catalog(settings: dict[str, str]) -> Any:
    return importlib.import_module("pyiceberg.catalog").load_catalog(**settings)


_READERS: dict[str, Callable[[AppendedOutput], list[str]]] = {
    "jsonl": _jsonl,
    "rounds": _jsonl,
    "parquet": _parquet,
    "documents": _parquet,
    "webdataset": _webdataset,
    "tokens": _tokens,
    "delta": _delta,
    "lance": _lance,
    "iceberg": _iceberg,
}
