"""Media in a store are read as on a disk: by ranges, and written whole."""

import pickle

import pyarrow as pa
import pytest

from dcurate import BatchKey, MediaReader, WebDatasetReader, WebDatasetWriter
from dcurate.fs.stores import Directory
from dcurate.media.refs import Ref, fetch, ref_array
from tests.media.archives import put_zip, tar_of

pytestmark = pytest.mark.s3

MEMBERS = [(f"{n:03d}.{suffix}", bytes([n]) * 3000) for n in range(40) for suffix in ("jpg", "cls.bin")]


def batches(reader):
    for split in pickle.loads(pickle.dumps(reader)).splits():
        made = reader.process(split)
        yield from made if isinstance(made, list) else [made]


def test_shards_and_archives_in_a_bucket_are_read_and_written(bucket, tmp_path):
    url, options = bucket
    folder = Directory(f"{url}/in", options)
    folder.write("a.tar", tar_of(MEMBERS))
    put_zip(tmp_path / "a.zip", dict(MEMBERS))
    folder.write("a.zip", (tmp_path / "a.zip").read_bytes())
    reader = MediaReader(f"{url}/in", storage_options=options)
    for batch in batches(reader):
        rows = batch.to_arrow()
        assert fetch(rows, storage_options=options) == [dict(MEMBERS)[name] for name in rows["file_name"].to_pylist()]
    shards = WebDatasetReader(f"{url}/in/*.tar", storage_options=options, blocksize=100_000)
    writer = WebDatasetWriter(f"{url}/out", storage_options=options)
    writer.prepare(resume=False)
    read = [batch for batch in batches(shards) if batch.num_items]
    assert len(read) > 1
    for number, batch in enumerate(read):
        batch.key = BatchKey(f"shard-{number}")
        writer.process(batch)
    found = [
        (name, data)
        for batch in batches(MediaReader(f"{url}/out/*.tar", storage_options=options))
        for name, data in zip(
            batch.to_arrow()["file_name"].to_pylist(), fetch(batch.to_arrow(), storage_options=options), strict=True
        )
    ]
    assert sorted(found) == sorted(MEMBERS)
    [gone] = fetch(pa.table({"media_ref": ref_array([Ref(f"{url}/in/none.jpg")])}), storage_options=options)
    assert gone.reason == "missing"
