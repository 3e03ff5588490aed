from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from dcurate import BatchKey, DataError, DocumentBatch, JsonlReader, JsonlWriter, ParquetReader, ParquetWriter
from dcurate.core.batch import Rejection
from dcurate.core.ledger import SplitRecord
from dcurate.fs.stores import Directory
from dcurate.io.ledger import DirectoryLedger
from dcurate.io.rejections import DirectoryRejections

pytestmark = pytest.mark.s3


def batch(split, rows=3):
    return DocumentBatch(data=pa.table({"t": [f"{split}-{n}" for n in range(rows)]}), key=BatchKey(split))


def texts(kind, url, options, **settings):
    reader = pickle.loads(pickle.dumps(kind(url, storage_options=options, **settings)))
    return [text for split in reader.splits() for text in reader.process(split).data["t"].to_pylist()]


@pytest.mark.parametrize(("writer", "reader"), [(JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)])
def test_what_is_written_to_s3_is_read_back_the_same(bucket, writer, reader):
    url, options = bucket
    stage = writer(f"{url}/out", storage_options=options)
    stage.prepare(resume=False)
    stage = pickle.loads(pickle.dumps(stage))
    (part,) = stage.process(batch("a")).parts
    stage.process(batch("b"))
    assert part.path.startswith(f"{url}/out/a-")
    assert part.size == Directory(f"{url}/out", options).files()[part.path.rpartition("/")[2]].size
    assert texts(reader, f"{url}/out", options) == ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"]
    assert texts(reader, f"{url}/*/b-*", options) == ["b-0", "b-1", "b-2"]
    assert texts(reader, f"{url}/out", None, read_kwargs={"storage_options": options})[0] == "a-0"


def test_names_and_versions_on_s3_follow_from_the_content(bucket):
    url, options = bucket
    folder = Directory(url, options)
    for path in ("in/a.jsonl", "in/d/b.jsonl", "in/_x/c.jsonl", "in/.y.jsonl"):
        folder.write(path, b'{"t": "x"}\n')
    before = list(JsonlReader(f"{url}/in", storage_options=options).splits())
    assert [str(split.key) for split in before] == ["a.jsonl", "d/b.jsonl"]
    folder.write("in/a.jsonl", b'{"t": "y"}\n')
    after = list(JsonlReader(f"{url}/in", storage_options=options).splits())
    assert [one.version == two.version for one, two in zip(before, after, strict=True)] == [False, True]


def test_large_files_on_s3_are_read_in_ranges(bucket):
    url, options = bucket
    lines = [f'{{"t": "{"x" * (n % 50)}{n}"}}\n'.encode() for n in range(200)]
    Directory(url, options).write("in/a.jsonl", b"".join(lines))
    whole = texts(JsonlReader, f"{url}/in", options)
    assert texts(JsonlReader, f"{url}/in", options, blocksize=700) == whole
    reader = JsonlReader(f"{url}/in", storage_options=options, blocksize=700)
    assert len(list(reader.splits())) > 5


def test_a_run_on_s3_is_resumed(bucket):
    url, options = bucket
    writer = JsonlWriter(f"{url}/out", storage_options=options)
    writer.prepare(resume=False)
    ledger = DirectoryLedger.open(writer, {"w": "1"}, resume=False)
    for split in "ab":
        ledger.record(SplitRecord(split, "v", tuple(writer.process(batch(split)).data), ()))
    ledger.flush()
    with pytest.raises(DataError, match="holds the output of a finished or unfinished run"):
        writer.prepare(resume=False)
    writer.prepare(resume=True)
    later = DirectoryLedger.open(writer, {"w": "1"}, resume=True)
    assert [later.finished(split, "v") is not None for split in "abc"] == [True, True, False]
    Directory(f"{url}/out", options).remove([later.finished("a", "v").files[0]])
    assert DirectoryLedger.open(writer, {"w": "1"}, resume=True).finished("a", "v") is None
    fresh = JsonlWriter(f"{url}/out", storage_options=options, mode="overwrite")
    fresh.prepare(resume=False)
    assert Directory(f"{url}/out", options).files() == {}


def test_rejected_rows_are_kept_on_s3(bucket):
    url, options = bucket
    rejection = Rejection("words", "few", 1, 1, pa.table({"t": ["x"]}))
    DirectoryRejections(f"{url}/rejected", None, options).keep(BatchKey("a"), "words", [rejection])
    assert texts(JsonlReader, f"{url}/rejected", options) == ["x"]


def test_what_is_not_there_is_reported(bucket):
    url, options = bucket
    with pytest.raises(DataError, match=f"there is nothing at '{url}/none'; check the path"):
        JsonlReader(f"{url}/none", storage_options=options).columns()
    with pytest.raises(DataError, match="cannot list 's3://no-such-bucket-here/x': no such file or directory"):
        JsonlReader("s3://no-such-bucket-here/x", storage_options=options).columns()
    with pytest.raises(DataError, match="cannot list 's3://no-such-bucket-here/x': no such file or directory"):
        JsonlWriter("s3://no-such-bucket-here/x", storage_options=options).prepare(resume=False)


def test_a_server_that_does_not_answer_is_reported():
    options = {"key": "x", "secret": "x", "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
    options["config_kwargs"] = {"retries": {"max_attempts": 1}, "connect_timeout": 1}
    with pytest.raises(DataError, match="cannot list 's3://b/x': .*; check the address and storage_options"):
        JsonlReader("s3://b/x", storage_options=options).columns()
