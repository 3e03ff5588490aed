"""Files that change after they were listed: what is read is of one version, or the run says that it is not."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DataError, InlineExecutor, JsonlReader, JsonlWriter, ParquetReader, Pipeline, WarcReader
from dcurate.io.source import FileReader
from tests.archives import archive, page, warc_record

CHANGED = r"changed since it was listed; run again with resume=True$"


def jsonl(word: str, rows: int = 400) -> bytes:
    return b"".join(b'{"text": "%s %06d"}\n' % (word.encode(), row) for row in range(rows))


def parquet(word: str, rows: int = 400) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": [f"{word} {row:06}" for row in range(rows)]}), sink, row_group_size=100)
    return sink.getvalue().to_pybytes()


def warc(word: str, rows: int = 40) -> bytes:
    return archive([warc_record(page("text"), f"http://{word}.org/{row:03}") for row in range(rows)])


Make = Callable[..., bytes]
FORMATS: list[Any] = [
    pytest.param(JsonlReader, "a.jsonl", jsonl, id="jsonl"),
    pytest.param(JsonlReader, "a.jsonl.gz", lambda *of: gzip.compress(jsonl(*of), mtime=0), id="jsonl.gz"),
    pytest.param(ParquetReader, "a.parquet", parquet, id="parquet"),
    pytest.param(WarcReader, "a.warc", warc, id="warc"),
]


def rows(reader: FileReader) -> int:
    return sum(batch.num_items for split in reader.splits() if (batch := reader.process(split)) is not None)


@pytest.mark.parametrize("blocksize", [None, 1500])
@pytest.mark.parametrize(("kind", "name", "make"), FORMATS)
@pytest.mark.parametrize("change", ["replaced", "grown", "cut"])
def test_a_file_that_changes_after_it_was_listed_is_refused_in_every_split(
    change: str, kind: type[FileReader], name: str, make: Make, blocksize: int | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(make("old"))
    reader = kind(str(tmp_path), blocksize=blocksize)
    splits = list(reader.splits())
    assert reader.process(splits[0]) is not None
    if change == "replaced":  # by one of equal size, as a writer would: renamed to its place
        (tmp_path / "new").write_bytes(make("new"))
        os.replace(tmp_path / "new", path)
    elif change == "grown":
        with path.open("ab") as file:
            file.write(make("new"))
    else:
        os.truncate(path, path.stat().st_size // 2)
    for split in splits:
        with pytest.raises(DataError, match=rf"^{name} {CHANGED}"):
            reader.process(split)
    if change != "cut":
        assert rows(kind(str(tmp_path), blocksize=blocksize)) == rows(reader) > 0


@pytest.mark.s3
@pytest.mark.parametrize("blocksize", [None, 1500])
@pytest.mark.parametrize(("kind", "name", "make"), FORMATS)
def test_a_file_in_a_store_that_changes_after_it_was_listed_is_refused(
    kind: type[FileReader], name: str, make: Make, blocksize: int | None, bucket: tuple[str, dict[str, Any]]
) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    store.pipe_file(f"{url}/in/{name}", make("old"))
    reader = kind(f"{url}/in", blocksize=blocksize, storage_options=options)
    splits = list(reader.splits())
    assert reader.process(splits[0]) is not None
    store.pipe_file(f"{url}/in/{name}", make("new", 30))
    for split in splits:
        with pytest.raises(DataError, match=rf"^{name} {CHANGED}"):
            reader.process(split)
    assert rows(kind(f"{url}/in", blocksize=blocksize, storage_options=options)) == 30


@pytest.mark.s3
@pytest.mark.parametrize(("kind", "name", "make"), [FORMATS[0], FORMATS[2], FORMATS[3]])
def test_blocks_of_a_file_in_a_store_are_not_mixed_with_those_of_another_of_equal_size(
    kind: type[FileReader], name: str, make: Make, bucket: tuple[str, dict[str, Any]]
) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    store.pipe_file(f"{url}/in/{name}", make("old"))
    reader = kind(f"{url}/in", blocksize=1500, storage_options=options)
    splits = list(reader.splits())
    assert len(splits) > 1
    store.pipe_file(f"{url}/in/{name}", make("new"))
    with pytest.raises(DataError, match=CHANGED):
        reader.process(splits[1])


def test_a_file_that_is_replaced_between_two_of_its_blocks_ends_the_run_and_a_resumed_one_reads_the_new(
    tmp_path: Path,
) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_bytes(jsonl("old", 900))
    (source / "b.jsonl").write_bytes(jsonl("other", 50))

    def pipeline() -> Pipeline:
        return Pipeline("test", stages=[JsonlReader(str(source), blocksize=4000), JsonlWriter(str(output))])

    stream = pipeline().stream(InlineExecutor())
    next(stream)
    (source / "new").write_bytes(jsonl("new", 500))
    os.replace(source / "new", source / "a.jsonl")
    with pytest.raises(DataError, match="^a.jsonl changed since it was listed; run again with resume=True"):
        list(stream)
    pipeline().run(InlineExecutor(), resume=True)
    texts = sorted(
        json.loads(line)["text"] for path in output.glob("*.jsonl") for line in path.read_text().splitlines()
    )
    assert texts == sorted(json.loads(line)["text"] for line in (jsonl("new", 500) + jsonl("other", 50)).splitlines())


def test_a_link_to_a_file_is_what_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(jsonl("old"))
    (tmp_path / "in").mkdir()
    os.symlink(tmp_path / "data", tmp_path / "in" / "a.jsonl")
    for path in (tmp_path / "in", tmp_path / "in" / "a.jsonl"):
        reader = JsonlReader(str(path), blocksize=1500)
        splits = list(reader.splits())
        assert rows(reader) == 400
        os.utime(tmp_path / "data", (1, os.stat(tmp_path / "data").st_mtime + 5))
        with pytest.raises(DataError, match=CHANGED):
            reader.process(splits[0])
