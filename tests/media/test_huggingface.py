"""Parquet as Hugging Face `datasets` has it: bytes and names are the same after both ways."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DataError,
    DocumentBatch,
    InlineExecutor,
    MediaReader,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.media import PackMedia, UnpackMedia
from dcurate.media.refs import Ref, fetch, ref_array

FEATURES = {"image": {"_type": "Image"}, "label": {"dtype": "int64", "_type": "Value"}}


def run(*stages, **options):
    return Pipeline("both ways", stages=list(stages)).run(InlineExecutor(), observers=[], **options)


def test_rows_are_the_same_after_both_ways(tmp_path):
    (tmp_path / "b.png").write_bytes(b"from a file")
    cells = [{"bytes": b"one", "path": "a.png"}, {"bytes": None, "path": str(tmp_path / "b.png")}]
    cells += [{"bytes": b"", "path": None}, None]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pairs = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()}
    table = pa.table({"image": pa.array(cells, kind), "label": [1, 2, 3, 4]}).replace_schema_metadata(pairs)
    pq.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "out"
    run(
        ParquetReader(str(tmp_path / "in.parquet")),
        UnpackMedia(root=str(tmp_path)),
        PackMedia(),
        ParquetWriter(str(out)),
    )
    [path] = out.glob("*.parquet")
    written = pq.read_table(path)
    assert json.loads(written.schema.metadata[b"huggingface"])["info"]["features"] == FEATURES
    assert {row["label"]: row["image"] for row in written.to_pylist()} == {
        1: {"bytes": b"one", "path": "a.png"},
        2: {"bytes": b"from a file", "path": str(tmp_path / "b.png")},
        3: {"bytes": b"", "path": None},
    }
    [kept] = tmp_path.rglob("*quarantine*/*.jsonl")
    [row] = [json.loads(line) for line in kept.read_text().splitlines()]
    assert (row["label"], row["_dcurate_reason"]) == (4, "no reference")


@pytest.mark.parametrize(
    ("root", "path", "wanted"),
    [
        (None, "/etc/passwd", None),
        (None, "a.png", None),
        ("{}", "a.png", "{}/a.png"),
        ("{}/", "{}/b/../a.png", "{}/a.png"),
        ("{}", "../a.png", None),
        ("{}", "{}-other/a.png", None),
        ("{}", "/etc/passwd", None),
        ("{}", "file:///etc/passwd", None),
        ("{}", "s3://bucket/a.png", None),
        ("{}", "a\0.png", None),
        ("s3://bucket/in", "b/a.png", "s3://bucket/in/b/a.png"),
        ("s3://bucket/in", "s3://bucket/in/a.png", "s3://bucket/in/a.png"),
        ("s3://bucket/in", "s3://bucket/in/../a.png", None),
        ("s3://bucket/in", "s3://bucket/inner/a.png", None),
        ("https://host/in", "%2E%2e/a.png", None),
        ("https://host/in", "http://host/in/a.png", None),
        ("https://host/in", "/etc/passwd", None),
    ],
)
def test_a_dataset_names_no_file_outside_of_the_folder_that_was_given(tmp_path, root, path, wanted):
    root, path, wanted = (one and one.format(tmp_path) for one in (root, path, wanted))
    rows = pa.table({"image": [{"bytes": None, "path": path}, {"bytes": b"x", "path": path}], "n": [1, 2]})
    result = UnpackMedia(root=root).process(DocumentBatch(data=rows))
    refs = {row["n"]: row["media_ref"] and row["media_ref"]["path"] for row in result.to_arrow().to_pylist()}
    assert refs == ({2: None} if wanted is None else {1: wanted, 2: None})
    assert [(one.reason, one.rows) for one in result.rejections] == [("outside of root", 1)] * (wanted is None)


def test_files_become_pictures_that_datasets_knows(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(b"pixels")
    run(MediaReader(str(tmp_path / "in")), PackMedia("picture"), ParquetWriter(str(tmp_path / "out")))
    [path] = (tmp_path / "out").glob("*.parquet")
    written = pq.read_table(path)
    assert written["picture"].to_pylist() == [{"bytes": b"pixels", "path": "a.png"}]
    assert json.loads(written.schema.metadata[b"huggingface"])["info"]["features"] == {"picture": {"_type": "Image"}}


def test_bytes_of_rows_come_before_references(tmp_path):
    rows = pa.table({"bytes": [b"here", None, None], "media_ref": ref_array([Ref("/no/file"), Ref("/no/file"), None])})
    here, gone, nothing = fetch(rows)
    assert (here, gone.reason, nothing.reason) == (b"here", "missing", "no reference")


def test_wrong_columns_and_settings_are_refused_in_one_sentence():
    with pytest.raises(DataError, match=r"column 'image' holds string, not struct<bytes, path>"):
        UnpackMedia().process(DocumentBatch(data=pa.table({"image": ["a"]})))
    with pytest.raises(PipelineError, match=r"feature='Picture' is not one of 'Image'"):
        PackMedia(feature="Picture")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"neither a column 'media_ref' nor 'bytes'"):
        PackMedia().process(DocumentBatch(data=pa.table({"image": ["a"]})))
