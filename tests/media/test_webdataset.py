"""WebDataset shards: every member is in a row, in quarantine or rejected, and goes back byte for byte."""

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    InlineExecutor,
    MediaReader,
    Pipeline,
    PipelineError,
    WebDatasetReader,
    WebDatasetWriter,
    processing_stage,
)
from dcurate.media.names import shown, stored
from dcurate.media.refs import Ref, fetch, ref_array
from tests.media.archives import tar_of


def run(*stages, **options):
    return Pipeline("shards", stages=list(stages)).run(InlineExecutor(), observers=[], **options)


def rows_of(path, **settings):
    """The rows that a reader makes of all splits, and its rejections."""
    reader = WebDatasetReader(str(path), **settings)
    rows, rejections = [], []
    for split in reader.splits():
        made = reader.process(split)
        for batch in made if isinstance(made, list) else [made] if made is not None else []:
            rows += batch.to_arrow().to_pylist()
            rejections += batch.rejections
    return rows, rejections


def members_of(folder):
    """Names and contents of the members of all shards of a folder, in order."""
    found = []
    for path in in_order(folder, "*.tar*"):
        with tarfile.open(path) as archive:
            found += [(info.name, archive.extractfile(info).read()) for info in archive]
    return found


def in_order(folder, pattern):
    """The files that a writer numbered."""
    return sorted(Path(folder).rglob(pattern), key=lambda path: (len(path.name), path.name))


def written(members):
    """What a writer makes of members: the last of each name."""
    return Counter(dict(members).items())


def simple(number, suffix="jpg"):
    return [
        (f"{number:04d}.{suffix}", bytes([number % 256]) * (number + 1)),
        (f"{number:04d}.txt", f"caption {number}".encode()),
        (f"{number:04d}.json", b'{ "id": %d }' % number),
    ]


ODD = [
    ("a.jpg", b"A"),
    ("b.jpg", b"B"),
    ("a.txt", b"of a"),
    ("b.txt", b"of b"),
    ("dir/sub.dir/c.left.PNG", b"C"),
    ("dir/sub.dir/c.TXT", b"of c"),
    ("twice.png", b"one"),
    ("twice.png", b"two"),
    ("twice.txt", b"x"),
    ("n" * 300 + ".webp", b"N"),
    ("ünï 日本.webp", b"U"),
    ("latin.jpg", b"L"),
    ("latin.txt", b"\xff\xe9"),
    ("broken.jpg", b"J"),
    ("broken.json", b'{"cut'),
    ("text only.txt", b"T"),
    ("no suffix", b"S"),
]


def test_samples_are_grouped_and_their_members_kept(tmp_path):
    (tmp_path / "odd.tar").write_bytes(tar_of([*ODD, ("empty.jpg", b""), ("empty.txt", b"E")]))
    rows, rejections = rows_of(tmp_path)
    found = {row["__key__"]: row for row in rows}
    kept = [(ref["member"], data) for row in rows for ref, data in zip(row["members"], _members(row), strict=True)]
    assert sorted(kept) == sorted(ODD)
    assert [row["__key__"] for row in rows][:3] == ["a", "b", "dir/sub.dir/c"]
    assert (found["a"]["txt"], found["b"]["txt"], found["dir/sub.dir/c"]["txt"]) == ("of a", "of b", "of c")
    assert found["dir/sub.dir/c"]["file_name"] == "dir/sub.dir/c.left.PNG"
    assert (found["latin"]["txt"], found["broken"]["json"]) == ("\ufffd\ufffd", '{"cut')
    assert (found["text only"]["media_ref"], found["no suffix"]["size"]) == (None, None)
    [twice] = fetch(pa.table({"media_ref": ref_array([Ref(**found["twice"]["media_ref"])])}))
    assert twice == b"two"
    [empty] = rejections
    assert (empty.reason, empty.fault, empty.data["__key__"].to_pylist()) == ("empty", True, ["empty"])


def _members(row):
    return fetch(pa.table({"media_ref": ref_array([Ref(**ref) for ref in row["members"]])}))


def test_bad_texts_go_to_quarantine_where_that_is_asked_for(tmp_path):
    (tmp_path / "odd.tar").write_bytes(tar_of(ODD))
    rows, rejections = rows_of(tmp_path, on_bad_text="quarantine")
    assert {one.reason: one.data["__key__"].to_pylist() for one in rejections} == {
        "txt: not UTF-8": ["latin"],
        "json: not JSON": ["broken"],
    }
    assert len(rows) == 8


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_unchanged_members_are_written_byte_for_byte(tmp_path, ending):
    members = [*ODD, *simple(1), *simple(2)]
    data = tar_of(members)
    (tmp_path / f"in.tar{ending}").write_bytes(gzip.compress(data) if ending else data)
    out = tmp_path / "out"
    result = run(WebDatasetReader(str(tmp_path / f"in.tar{ending}")), WebDatasetWriter(str(out)))
    assert list(result.report.stages[1].found.values()) == [1]  # "twice.png" came with other content
    assert Counter(members_of(out)) == written(members)
    again = tmp_path / "again"
    run(WebDatasetReader(str(out)), WebDatasetWriter(str(again)))
    assert members_of(again) == members_of(out)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_rows_in_are_rows_out_and_rows_in_quarantine(tmp_path_factory, data):
    names = st.sampled_from(["a", "b", "c/d", ".hidden", "../up", "e.x"])
    suffixes = st.sampled_from(["jpg", "txt", "json", "cls", "JPG", "mp4"])
    member = st.tuples(names, suffixes, st.sampled_from([b"", b"1", b"\xff", b"x" * 700]))
    members = [(f"{name}.{suffix}", body) for name, suffix, body in data.draw(st.lists(member, max_size=8))]
    whole = tar_of(members)
    cut = data.draw(st.integers(0, len(whole)))
    folder = tmp_path_factory.mktemp("cut")
    (folder / "a.tar").write_bytes(whole[:cut] or b"\0")
    rows, rejections = rows_of(folder / "a.tar")
    gone = [row for one in rejections for row in one.data.to_pylist()]
    refs = [ref for row in [*rows, *gone] for ref in row.get("members") or [row["media_ref"]]]
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        begun = [(info.name, info.offset_data) for info in archive if info.offset_data <= cut]
    assert Counter((ref["member"], ref["offset"]) for ref in refs if ref["member"]) == Counter(begun)
    if rows:
        run(WebDatasetReader(str(folder / "a.tar")), WebDatasetWriter(str(folder / "out")))
        kept = {ref["member"]: 0 for row in rows for ref in row["members"]}
        assert {name for name, _ in members_of(folder / "out")} == set(kept)


def test_changed_texts_are_written_and_others_are_not_touched(tmp_path):
    (tmp_path / "in.tar").write_bytes(tar_of([*simple(1), *simple(2), ("3.jpg", b"no text"), ("4.jpg", b""), *ODD]))

    @processing_stage(name="change")
    def change(batch):
        rows = batch.to_arrow().to_pylist()
        for row in rows:
            if row["__key__"] == "0001":
                row["txt"], row["json"] = "new", None
            if row["__key__"] == "3":
                row["txt"] = "a text"
        return batch.with_data(pa.Table.from_pylist(rows, batch.to_arrow().schema))

    run(WebDatasetReader(str(tmp_path / "in.tar")), change, WebDatasetWriter(str(tmp_path / "out")))
    found = Counter(members_of(tmp_path / "out"))
    wanted = written(
        [*ODD, *simple(2), simple(1)[0], ("0001.txt", b"new"), ("3.jpg", b"no text"), ("3.txt", b"a text")]
    )
    assert found == wanted


def test_the_same_rows_make_the_same_bytes_in_plain_headers(tmp_path):
    rows = pa.table({"file_name": ["a.png", "b.png", "a.png"], "bytes": [b"1", b"2", b"3"], "score": [0.5, 0.1, 0.2]})
    hashes = []
    for name in ("one", "two"):
        batch = DocumentBatch(data=rows)
        run(WebDatasetWriter(str(tmp_path / name), members={}), initial_tasks=[batch])
        files = sorted((tmp_path / name).iterdir())
        hashes.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
    assert hashes[0] == hashes[1]
    shards = in_order(tmp_path / "one", "*.tar")
    assert [_names(path) for path in shards] == [["a.png", "b.png"], ["a.png"]]
    with tarfile.open(shards[0]) as archive:
        assert {(info.mtime, info.uid, info.uname, info.mode) for info in archive} == {(0, 0, "", 0o644)}
    about = [row for path in in_order(tmp_path / "one", "*.parquet") for row in pq.read_table(path).to_pylist()]
    assert [(row["shard"], row["member"], row["score"]) for row in about] == [
        (shards[0].name, "a.png", 0.5),
        (shards[0].name, "b.png", 0.1),
        (shards[1].name, "a.png", 0.2),
    ]
    for row in about:
        data = (tmp_path / "one" / row["shard"]).read_bytes()
        assert data[row["offset"] : row["offset"] + 1] in (b"1", b"2", b"3")


def _names(path):
    with tarfile.open(path) as archive:
        return archive.getnames()


def test_members_are_written_whichever_columns_are_chosen(tmp_path):
    (tmp_path / "in.tar").write_bytes(tar_of(simple(1)))
    run(WebDatasetReader(str(tmp_path / "in.tar")), WebDatasetWriter(str(tmp_path / "out"), fields=["size"]))
    assert members_of(tmp_path / "out") == simple(1)
    [about] = (tmp_path / "out").glob("*.parquet")
    names = ["__key__", "file_name", "source_ref", "size", "shard", "member", "offset"]
    assert pq.read_table(about).column_names == names


def test_shards_are_bounded_by_samples_and_by_bytes(tmp_path):
    (tmp_path / "in.tar").write_bytes(tar_of([member for number in range(10) for member in simple(number)]))
    reader = WebDatasetReader(str(tmp_path / "in.tar"))
    run(reader, WebDatasetWriter(str(tmp_path / "rows"), max_rows_per_file=4))
    assert [len(_names(path)) // 3 for path in in_order(tmp_path / "rows", "*.tar")] == [4, 4, 2]
    run(reader, WebDatasetWriter(str(tmp_path / "bytes"), max_bytes_per_file=10_000, compression="gzip"))
    assert [len(_names(path)) // 3 for path in in_order(tmp_path / "bytes", "*.tar.gz")] == [3, 3, 3, 1]
    with pytest.raises(PipelineError, match=r"compression='xz' must be None, 'gzip' or 'zstd'"):
        WebDatasetWriter("out", compression="xz")


#: Names that are no UTF-8, look like how such ones are shown, or begin with what is.
LATIN = [
    b"caf\xe9.jpg",
    b"caf\xe9.txt",
    b"\xff\xfe/\xe9.png",
    rb"a\xe9.png",
    rb"a\b.png",
    b"\xe9.\xe8",
    b"\x93\xfa\x96{.webp",
]


def test_names_that_are_no_utf_8_are_written_byte_for_byte(tmp_path):
    names = [name.decode("utf-8", "surrogateescape") for name in LATIN]
    for pax in (True, False):
        (tmp_path / "in.tar").write_bytes(tar_of([(name, name.encode("utf-8", "replace")) for name in names], pax=pax))
        rows, rejections = rows_of(tmp_path / "in.tar")
        assert rejections == []
        assert rows[0]["__key__"] == r"caf\xe9"
        assert [row["file_name"] for row in rows][1:3] == [r"\xff\xfe/\xe9.png", r"a\x5cxe9.png"]
        out = tmp_path / f"out{pax}"
        run(WebDatasetReader(str(tmp_path / "in.tar")), WebDatasetWriter(str(out)))
        found = dict(members_of(out))
        assert sorted(name.encode("utf-8", "surrogateescape") for name in found) == sorted(LATIN)
        assert found == {name: name.encode("utf-8", "replace") for name in names}
        said = [row["member"] for path in in_order(out, "*.parquet") for row in pq.read_table(path).to_pylist()]
        assert said == [row["file_name"] for row in rows]


def test_a_new_text_goes_to_its_sample_of_any_name(tmp_path):
    (tmp_path / "in.tar").write_bytes(tar_of([("caf\udce9.jpg", b"J")]))
    batch = DocumentBatch(data=pa.Table.from_pylist([{**rows_of(tmp_path)[0][0], "txt": "tea"}]))
    run(WebDatasetWriter(str(tmp_path / "out")), initial_tasks=[batch])
    assert members_of(tmp_path / "out") == [("caf\udce9.jpg", b"J"), ("caf\udce9.txt", b"tea")]


def test_names_of_zip_archives_are_written_byte_for_byte(tmp_path):
    names = [*LATIN, "日本.png".encode()]
    places = [b"name%04d" % number + b"x" * (len(name) - 8) for number, name in enumerate(names)]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for place in places:
            archive.writestr(place.decode(), b"J")
    packed = data.getvalue()
    for place, name in zip(places, names, strict=True):
        packed = packed.replace(place, name.ljust(len(place), b"_"))
    (tmp_path / "in.zip").write_bytes(packed)
    run(MediaReader(str(tmp_path / "in.zip"), kinds=None), WebDatasetWriter(str(tmp_path / "out")))
    found = [name.encode("utf-8", "surrogateescape") for name, _ in members_of(tmp_path / "out")]
    assert sorted(found) == sorted(name.ljust(8, b"_") for name in names)


@given(st.binary())
def test_names_that_are_shown_can_be_written_as_they_were(raw):
    name = raw.decode("utf-8", "surrogateescape")
    assert stored(shown(name)) == name
    assert shown(name).encode().decode() == shown(name)


def test_names_of_rows_that_were_in_no_container_stay(tmp_path):
    batch = DocumentBatch(data=pa.table({"file_name": [r"photos\xe1.jpg"], "bytes": [b"J"]}))
    run(WebDatasetWriter(str(tmp_path / "out")), initial_tasks=[batch])
    assert members_of(tmp_path / "out") == [(r"photos\xe1.jpg", b"J")]


def test_a_row_whose_bytes_are_gone_goes_to_quarantine_and_the_rest_is_written(tmp_path):
    for name in ("a.pdf", "../b.pdf"):
        (tmp_path / "in" / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "x" / name).write_bytes(name.encode())
    [batch] = run(MediaReader(str(tmp_path / "in")))
    (tmp_path / "in" / "b.pdf").unlink()
    run(WebDatasetWriter(str(tmp_path / "out")), initial_tasks=[batch])
    assert members_of(tmp_path / "out") == [("x/a.pdf", b"a.pdf")]
    [kept] = [path for path in tmp_path.rglob("*.jsonl") if "quarantine" in str(path)]
    [row] = [json.loads(line) for line in kept.read_text().splitlines()]
    assert (row["_dcurate_reason"], row["file_name"]) == ("missing", "b.pdf")


def test_large_shards_are_cut_between_samples(tmp_path):
    members = [member for number in range(60) for member in simple(number)]
    apart = [members[0], *members[3:30], *members[1:3], *members[30:]]  # the first sample ends after the tenth
    (tmp_path / "in.tar").write_bytes(tar_of(apart))
    whole, _ = rows_of(tmp_path / "in.tar")
    reader = WebDatasetReader(str(tmp_path / "in.tar"), blocksize=20_000)
    splits = list(reader.splits())
    assert len(splits) > 3
    cut, _ = rows_of(tmp_path / "in.tar", blocksize=20_000)
    assert cut == whole
    assert len(cut) == 60


def test_a_shard_that_changed_since_it_was_listed_is_refused(tmp_path):
    (tmp_path / "in.tar").write_bytes(tar_of(simple(1)))
    reader = WebDatasetReader(str(tmp_path / "in.tar"))
    [split] = reader.splits()
    (tmp_path / "in.tar").write_bytes(tar_of(simple(2)) + b"\0")
    with pytest.raises(DataError, match="in.tar changed since it was listed"):
        reader.process(split)


@pytest.mark.parametrize("pack", [gzip.compress, ZstdCompressor(write_checksum=True).compress])
def test_a_compressed_shard_that_is_cut_or_damaged_says_so(tmp_path, pack):
    members = [member for number in range(20) for member in simple(number)]
    data = bytearray(pack(tar_of(members)))
    path = tmp_path / f"in.tar{'.gz' if pack is gzip.compress else '.zst'}"
    for end, place in ((len(data) - 3, 0), (len(data) // 2, 0), (len(data), len(data) - 2)):
        path.write_bytes(data[:place] + bytes([data[place] ^ (place > 0)]) + data[place + 1 : end])
        rows, rejections = rows_of(path)
        reasons = Counter(one.reason for one in rejections)
        assert reasons["damaged stream"] == 1
        assert set(reasons) <= {"damaged stream", "truncated"}
        assert [row["__key__"] for row in rows] == [f"{number:04d}" for number in range(len(rows))]


def test_columns_of_bytes_that_are_not_members_stay_in_the_parquet_file(tmp_path):
    columns = {"file_name": ["a.png"], "bytes": [b"pixels"], "thumbnail": [b"small"], "mask": [b"masked"], "n": [7]}
    writer = WebDatasetWriter(str(tmp_path / "out"), members={"mask.png": "mask"})
    run(writer, initial_tasks=[DocumentBatch(data=pa.table(columns))])
    [row] = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert (row["thumbnail"], row["n"]) == (b"small", 7)
    assert not row.keys() & {"bytes", "mask"}
    [shard] = (tmp_path / "out").glob("*.tar")
    with tarfile.open(shard) as archive:
        assert [archive.extractfile(each).read() for each in archive] == [b"pixels", b"masked"]


def test_a_file_without_a_name_keeps_its_ending(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of([("x.flac", b"sound"), ("y.flac", b"other")]))
    refs = ref_array([Ref(str(tmp_path / "a.tar"), name) for name in ("x.flac", "y.flac")])
    rows = DocumentBatch(data=pa.table({"media_ref": refs, "txt": ["one", "two"]}), key=BatchKey("rows"))
    files = WebDatasetWriter(str(tmp_path / "out")).process(rows)
    with tarfile.open(max(files.data)) as shard:
        names = [name.rpartition("-")[2] for name in shard.getnames()]
    assert names == ["000000.flac", "000000.txt", "000001.flac", "000001.txt"]
