"""Rows that refer to files, in whichever container these are: no bytes are lost or changed, and no place forgotten."""

import gzip
import io
import tarfile
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from dcurate import DataError, InlineExecutor, MediaReader, Pipeline, PipelineError
from dcurate.isolate.errors import MediaFault
from dcurate.media.refs import fetch, fetched
from dcurate.media.tar import BLOCK, TarDamage, opened, walk
from tests.media.archives import put_lines, put_warc, put_zip, tar_of, warc_record

BODIES = {f"f{number}.pdf": bytes([number]) * (number * 700) + b"%PDF-end" for number in range(5)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("media")
    for name, data in BODIES.items():
        (folder / name).write_bytes(data)
    put_zip(folder / "seekable.zip", BODIES)
    put_zip(folder / "streamed.zip", BODIES, seekable=False)
    plain = tar_of(BODIES.items())
    (folder / "plain.tar").write_bytes(plain)
    (folder / "packed.tar.gz").write_bytes(gzip.compress(plain))
    (folder / "packed.tar.zst").write_bytes(ZstdCompressor().compress(plain))
    put_lines(folder / "lines.jsonl", BODIES)
    put_lines(folder / "packed.jsonl.gz", BODIES)
    put_warc(folder / "plain.warc", BODIES)
    put_warc(folder / "packed.warc.gz", BODIES)
    return folder


def read(*stages):
    return Pipeline("read", stages=list(stages)).run(InlineExecutor(), observers=[])


def of(reader):
    """The batches that a reader makes of all its splits."""
    for split in reader.splits():
        made = reader.process(split)
        yield from made if isinstance(made, list) else [made] if made is not None else []


def test_every_container_gives_the_same_files(folder):
    [batch] = read(MediaReader(str(folder), kinds=["pdf"], bytes_field="content"))
    rows = batch.to_arrow()
    found = Counter()
    for row, data in zip(rows.to_pylist(), fetch(rows), strict=True):
        name = row["name"] or row["file_name"]
        assert data == BODIES[name]
        assert row["size"] == len(data)
        found[row["container"]] += 1
    packed = ["seekable.zip", "streamed.zip", "plain.tar", "packed.tar.gz", "packed.tar.zst"]
    packed += ["lines.jsonl", "packed.jsonl.gz", "plain.warc", "packed.warc.gz"]
    assert found == Counter(dict.fromkeys([None, *packed], 5))
    assert rows["url"].drop_null()[0].as_py() == "http://host/f0.pdf"


def test_bytes_are_read_in_runs_of_bounded_size(folder):
    [batch] = read(MediaReader(str(folder / "packed.tar.gz")))
    runs = list(fetched(batch.to_arrow(), held=2000))
    assert len(runs) > 2
    assert [data for _, run in runs for data in run] == list(BODIES.values())
    assert all(sum(map(len, run)) <= 2000 or len(run) == 1 for _, run in runs)


def test_lines_of_parts_are_all_read(folder):
    whole = [
        row for batch in of(MediaReader(str(folder / "lines.jsonl"), bytes_field="content")) for row in rows(batch)
    ]
    parts = MediaReader(str(folder / "lines.jsonl"), bytes_field="content", blocksize=3000)
    assert len(list(parts.splits())) > 2
    assert [row for batch in of(parts) for row in rows(batch)] == whole


def test_records_of_parts_are_all_read(folder):
    whole = [row for batch in of(MediaReader(str(folder / "plain.warc"))) for row in rows(batch)]
    parts = MediaReader(str(folder / "plain.warc"), blocksize=2000)
    assert len(list(parts.splits())) > 2
    assert [row for batch in of(parts) for row in rows(batch)] == whole
    assert len(whole) == 6


def rows(batch):
    return batch.to_arrow().to_pylist()


def test_what_is_no_file_goes_to_quarantine_with_its_reason(tmp_path):
    link = tarfile.TarInfo("link.pdf")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    folder = tarfile.TarInfo("folder")
    folder.type = tarfile.DIRTYPE
    members = [("a.pdf", b"a" * 600), (link, b""), (folder, b""), ("../up.pdf", b"up"), ("/abs.pdf", b"abs")]
    members += [(".DS_Store", b"x"), ("notes.txt", b"t"), ("b.pdf", b"b" * 2000)]
    data = tar_of(members)
    end = data.index(b"b" * 2000)
    (tmp_path / "odd.tar").write_bytes(data[: end + 500])
    lines = b'{"content": "YQ=="}\nno JSON\n{"content": 3}\n{"content": "*"}\n'
    (tmp_path / "odd.jsonl").write_bytes(lines)
    (tmp_path / "bad.zip").write_bytes(b"PK\3\4 nothing")
    batches = list(of(MediaReader(str(tmp_path), kinds=["pdf"], bytes_field="content")))
    lost = Counter((one.reason, one.fault, one.rows) for batch in batches for one in batch.rejections)
    assert lost == {
        ("truncated", True, 1): 1,
        ("link", True, 1): 1,
        ("name leads out of the archive", True, 2): 1,
        ("hidden member", False, 1): 1,
        ("malformed line", True, 1): 1,
        ("no bytes", True, 1): 1,
        ("damaged archive", True, 1): 1,
    }
    assert batches[0].found == {"members of other kinds were left out": 1}
    table = batches[0].to_arrow()
    bad_base64, a, b = fetch(table)[1], fetch(table)[-1], fetch(table)[0]
    assert (b, bad_base64.reason, a) == (b"a", "bad base64", b"a" * 600)


def test_a_line_with_a_value_that_json_does_not_have_has_its_file(tmp_path):
    lines = '{"content": "YQ==", "score": NaN, "text": "ü"}\n{"content": "Yg==", "score": 0.5, "text": "b"}\n'
    (tmp_path / "a.jsonl").write_text(lines, "utf-8")
    [batch] = of(MediaReader(str(tmp_path), bytes_field="content"))
    assert not batch.rejections
    assert [(row["score"], row["text"]) for row in rows(batch)] == [(None, "ü"), (0.5, "b")]
    assert fetch(batch.to_arrow()) == [b"a", b"b"]


def test_a_file_that_is_gone_cut_or_too_large_is_a_fault_of_its_row(tmp_path):
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        (tmp_path / name).write_bytes(b"0123456789")
    [batch] = read(MediaReader(str(tmp_path)))
    (tmp_path / "a.pdf").unlink()
    (tmp_path / "b.pdf").write_bytes(b"01234")
    gone, cut, whole = fetch(batch.to_arrow())
    assert (gone.reason, cut.reason, whole) == ("missing", "truncated", b"0123456789")
    assert fetch(batch.to_arrow().slice(2), limit=9) == [MediaFault("too large", "10 bytes, more than the limit of 9")]


def test_a_bomb_in_an_archive_is_a_fault(tmp_path):
    put_zip(tmp_path / "a.zip", {"a.pdf": b"", "bomb.pdf": bytes(10**7)})
    record = warc_record("http://host/b.pdf", gzip.compress(bytes(10**7)), coding=b"Content-Encoding: gzip\r\n")
    (tmp_path / "a.warc").write_bytes(record)
    [batch] = read(MediaReader(str(tmp_path)))
    found = fetch(batch.to_arrow(), limit=10**6)
    assert [each if isinstance(each, bytes) else each.reason for each in found] == ["too large", b"", "too large"]


@pytest.mark.parametrize("pax", [True, False])
def test_headers_are_read_as_tarfile_reads_them(tmp_path, pax):
    names = ["a.png", "d" * 90 + "/" + "e" * 90 + ".png", "x" * 300 + ".png", "ünï 日本.png"]
    data = tar_of([(name, name.encode()) for name in names], pax=pax)
    (tmp_path / "a.tar").write_bytes(data)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        wanted = [(info.name, info.offset_data, info.size) for info in archive]
    [batch] = read(MediaReader(str(tmp_path)))
    assert [(row["file_name"], row["media_ref"]["offset"], row["size"]) for row in rows(batch)] == wanted


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_byte_of_a_damaged_archive_is_a_member_or_damage(tmp_path_factory, data):
    sizes = data.draw(st.lists(st.integers(0, 1500), min_size=1, max_size=6))
    whole = bytearray(tar_of([(f"{number}.png", b"x" * size) for number, size in enumerate(sizes)]))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] ^= data.draw(st.integers(1, 255))
    del whole[data.draw(st.integers(0, len(whole))) :]
    path = tmp_path_factory.mktemp("damaged") / "a.tar"
    path.write_bytes(whole)
    at = 0
    with opened(MediaReader(str(path))._store(str(path))[0], str(path), len(whole)) as window:
        for each in walk(window):
            assert not any(whole[at : each.begin])
            at = each.end if isinstance(each, TarDamage) else each.offset + -(-each.size // BLOCK) * BLOCK
    assert not any(whole[at:])


def test_wrong_settings_are_refused_in_one_sentence(folder):
    with pytest.raises(PipelineError, match=r"no kind 'pictures'; there are 'image', 'pdf'"):
        MediaReader(str(folder), kinds=["pictures"])
    with pytest.raises(DataError, match=r"lines.jsonl is JSON Lines; name the column .* bytes_field='content'"):
        list(MediaReader(str(folder / "lines.jsonl")).splits())
