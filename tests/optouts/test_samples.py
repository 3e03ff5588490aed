"""Shards of WebDataset without tables, and interleaved documents."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcurate import DataError, InlineExecutor, Pipeline
from dcurate.fs.compression import packing
from dcurate.images import InterleavedParquetWriter, InterleavedWebDatasetReader, InterleavedWebDatasetWriter
from tests.optouts.conftest import data, list_of, remove, rows_of

GONE = {"domain": "site2.example.com"}


def picture(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8 + number, 8)).save(file, "PNG")
    return file.getvalue()


def write(path: Path, members: Sequence[tuple[str, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with path.open("wb") as file, packing(file, ".gz" if path.suffix == ".gz" else "") as packed:
        packed.write(made.getvalue())


def img2dataset(rows: Sequence[dict[str, Any]]) -> list[tuple[str, bytes]]:
    """A shard as img2dataset writes it."""
    return [
        (f"{row['id']}.{suffix}", content)
        for row in rows
        for suffix, content in (
            ("jpg", picture(len(row["text"]))),
            ("json", json.dumps({"url": row["url"], "key": row["id"]}).encode()),
            ("txt", row["text"].encode()),
        )
    ]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
@pytest.mark.parametrize("by", ["url", "id", "text", "domain"])
def test_shards_without_tables_are_those_without_the_samples(name: str, by: str, tmp_path: Path) -> None:
    rows = [{**row, "text": f"{row['text']} {row['id']}"} for row in rows_of(30)]
    gone = [row for row in rows if "site2" in row["url"]]
    write(tmp_path / "out" / name, img2dataset(rows))
    write(tmp_path / "out" / "b.tar", img2dataset(rows_of(2)))
    write(tmp_path / "fresh" / name, img2dataset([row for row in rows if row not in gone]))
    entries = [GONE] if by == "domain" else [{by: row[by]} for row in gone]
    listed = list_of(tmp_path / "list.jsonl", *entries)
    receipt = remove(listed, tmp_path / "out")
    [product] = receipt["products"]
    assert (product["product"], product["documents"], product["written"]) == ("samples", len(gone), 1)
    left, fresh = ((tmp_path / folder / name).read_bytes() for folder in ("out", "fresh"))
    if name == "a.tar":
        assert left == fresh
    assert members_of(tmp_path / "out" / name) == members_of(tmp_path / "fresh" / name)
    assert remove(listed, tmp_path / "out")["documents"] == 0


def members_of(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive]


def interleaved(rows: Sequence[dict[str, Any]]) -> list[tuple[str, bytes]]:
    members = []
    for number, row in enumerate(rows):
        record = {"texts": [row["text"], None], "images": [None, "0.png"], "url": row["url"]}
        members += [(f"{row['id']}.json", json.dumps(record).encode()), (f"{row['id']}.0.png", picture(number))]
    return members


@pytest.mark.parametrize("writer", [InterleavedWebDatasetWriter, InterleavedParquetWriter])
def test_interleaved_documents_go_whole_and_stay_out(writer: Any, tmp_path: Path) -> None:
    rows = rows_of(20)

    def run(some: Sequence[dict[str, Any]], out: Path, **how: Any) -> Any:
        source = tmp_path / f"{out.name}-{len(some)}-in" / "a.tar"
        write(source, interleaved(some))
        stages = [InterleavedWebDatasetReader(str(source), fields=["url"]), writer(str(out), **how)]
        return Pipeline("interleaved", stages=stages).run(InlineExecutor(), observers=[]).report

    run(rows, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "before")
    listed = list_of(tmp_path / "list.jsonl", GONE)
    assert remove(listed, tmp_path / "out")["documents"] == 4
    kept = [row for row in rows if "site2" not in row["url"]]
    assert samples_in(tmp_path / "before") - samples_in(tmp_path / "out") == {"d2", "d7", "d12", "d17"}
    report = run(rows, tmp_path / "out", mode="overwrite")
    assert report.stages[-1].dropped == {"removed by request": 12}
    run(kept, tmp_path / "fresh")
    assert samples_in(tmp_path / "out") == samples_in(tmp_path / "fresh") == {row["id"] for row in kept}
    assert report.stages[-1].rows_in == report.stages[-1].rows_out + 12


def samples_in(folder: Path) -> set[str]:
    found: set[str] = set()
    for name in data(folder):
        if name.endswith(".parquet"):
            found |= set(pq.read_table(folder / name)["sample_id"].to_pylist())
        else:
            found |= {member.partition(".")[0] for member, _ in members_of(folder / name)}
    return found


def test_a_shard_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    listed = list_of(tmp_path / "list.jsonl", GONE)
    write(tmp_path / "out" / "a.tar", [("a.json", b"{")])
    with pytest.raises(DataError, match=r"a\.json is not JSON"):
        remove(listed, tmp_path / "out")
    write(tmp_path / "out" / "a.tar", [("a.jpg", b"picture" * 100)])
    content = (tmp_path / "out" / "a.tar").read_bytes()
    (tmp_path / "out" / "a.tar").write_bytes(content[:700])
    with pytest.raises(DataError, match="is damaged"):
        remove(listed, tmp_path / "out")
