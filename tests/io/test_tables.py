"""Folders of Delta Lake, Iceberg and Hudi: files that were removed from a table are never read silently."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import CsvReader, DataError, DocumentReader, InlineExecutor, ParquetReader, Pipeline, PipelineError


def texts(reader: Any) -> list[str]:
    batches: Any = Pipeline("p", stages=[reader]).run(InlineExecutor(), observers=[])
    return sorted(text for batch in batches for text in batch.to_arrow()["text"].to_pylist())


def put(path: Path, text: str = "old") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        path.write_text(f"text\n{text}\n")
    else:
        pq.write_table(pa.table({"text": [text]}), path)
    return path


def delta(folder: Path) -> Path:
    put(folder / "a.parquet")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "00000000000000000000.json").write_text("{}")
    return folder


@pytest.mark.parametrize("place", ["", "/", "/*.parquet", "/**/*.parquet", "/.."])
@pytest.mark.parametrize("reader", [ParquetReader, DocumentReader])
def test_a_delta_table_is_refused_without_its_library(
    reader: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcurate.io.tables.missing", lambda modules: modules)
    table = delta(tmp_path / "lake" / "table")
    with pytest.raises(PipelineError, match="is a table of Delta Lake, .*files that were removed from it; "):
        texts(reader(f"{table}{place}"))


def test_a_partition_of_a_delta_table_is_refused(tmp_path: Path) -> None:
    table = delta(tmp_path / "table")
    put(table / "lang=en" / "year=2024" / "b.parquet")
    with pytest.raises(PipelineError, match="name the folder of the table itself"):
        texts(ParquetReader(str(table / "lang=en" / "year=2024")))


@pytest.mark.parametrize(
    ("reader", "name"), [(ParquetReader, "a.parquet"), (DocumentReader, "a.parquet"), (CsvReader, "a.csv")]
)
def test_tables_of_iceberg_and_hudi_are_refused(reader: Any, name: str, tmp_path: Path) -> None:
    put(tmp_path / "iceberg" / "data" / name)
    (tmp_path / "iceberg" / "metadata").mkdir()
    (tmp_path / "iceberg" / "metadata" / "v1.metadata.json").write_text("{}")
    for folder in (tmp_path / "iceberg", tmp_path / "iceberg" / "data"):
        with pytest.raises(PipelineError, match="is a table of Iceberg, .* read it with TableReader.*format='iceberg'"):
            texts(reader(str(folder)))
    put(tmp_path / "hudi" / name)
    (tmp_path / "hudi" / ".hoodie").mkdir()
    with pytest.raises(PipelineError, match="is a table of Hudi, "):
        texts(reader(str(tmp_path / "hudi")))


def test_a_file_that_is_named_itself_is_read(tmp_path: Path) -> None:
    assert texts(ParquetReader(str(delta(tmp_path) / "a.parquet"))) == ["old"]


def test_a_folder_named_metadata_is_no_table(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet")
    put(tmp_path / "metadata" / "b.parquet")
    assert texts(ParquetReader(str(tmp_path))) == ["old", "old"]


class Protocol:
    """As deltalake describes what a reader must understand."""

    def __init__(self, version: int, features: list[str] | None) -> None:
        self.min_reader_version, self.reader_features = version, features


class DeltaTable:
    """A stand-in for that of deltalake: all files of the folder are live but those whose names begin with ``old``."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def protocol(self) -> Protocol:
        return Protocol(1, None)

    def file_uris(self) -> list[str]:
        files = self.folder.rglob("*.parquet")
        return [*(str(file) for file in files if not file.name.startswith("old")), *self.missing()]

    def missing(self) -> list[str]:
        return (self.folder / "_delta_log" / "missing").read_text().split()


def library(monkeypatch: pytest.MonkeyPatch) -> type[DeltaTable]:
    """Put the stand-in where deltalake would be."""
    made = ModuleType("deltalake")
    made.DeltaTable = kind = type("DeltaTable", (DeltaTable,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "deltalake", made)
    monkeypatch.setattr("dcurate.io.tables.missing", lambda modules: [])
    return kind


def test_a_delta_table_is_read_without_its_removed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch)
    put(delta(tmp_path) / "lang=en" / "b.parquet", "new")
    put(tmp_path / "lang=en" / "old.parquet", "removed")
    (tmp_path / "_delta_log" / "missing").touch()
    for reader in (ParquetReader(str(tmp_path)), DocumentReader(str(tmp_path)), ParquetReader(f"{tmp_path}/**")):
        assert texts(reader) == ["new", "old"]
    (tmp_path / "_delta_log" / "missing").write_text(f"{tmp_path}/gone.parquet")
    with pytest.raises(DataError, match="is a table without its file"):
        texts(ParquetReader(str(tmp_path)))


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (Protocol(3, ["deletionVectors", "timestampNtz"]), "with deletionVectors, so"),
        (Protocol(2, None), "mapping, so"),
    ],
)
def test_a_delta_table_is_refused_whose_files_do_not_say_its_rows(
    protocol: Protocol, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library(monkeypatch), "protocol", lambda self: protocol)
    with pytest.raises(DataError, match=f"{said} its files alone do not say which rows it has"):
        texts(ParquetReader(str(delta(tmp_path))))


if importlib.util.find_spec("deltalake") is not None:  # it is large, so the tests do not install it

    def test_deltalake_names_the_files_of_the_newest_version(tmp_path: Path) -> None:
        deltalake = importlib.import_module("deltalake")
        path = str(tmp_path / "table")
        deltalake.write_deltalake(path, pa.table({"text": ["old"], "lang": ["en"]}), partition_by=["lang"])
        deltalake.write_deltalake(path, pa.table({"text": ["new"], "lang": ["en"]}), mode="overwrite")
        deltalake.write_deltalake(path, pa.table({"text": ["more"], "lang": ["a b"]}), mode="append")
        assert len(list(Path(path).rglob("*.parquet"))) == 3
        for reader in (ParquetReader(path), DocumentReader(path), ParquetReader(f"{path}/*/*.parquet")):
            assert texts(reader) == ["more", "new"]
