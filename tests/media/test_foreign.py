"""Numbers and names in archives that others wrote: whatever they are, they cost the one member that has them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate import InlineExecutor, MediaReader, Pipeline, WarcReader, WebDatasetReader
from dcurate.isolate.errors import MediaError
from dcurate.media import tar
from dcurate.media.members import content_of
from dcurate.media.refs import Ref, fetch, ref_array
from dcurate.media.zips import entries
from tests.growth import assert_linear
from tests.media.archives import Unseekable, warc_record

FIRST, LAST = b"the first, " * 40, b"the last, " * 40
ODD = {
    "superscript": "\xb2",
    "digits": "9" * 5000,
    "4,300 digits": "9" * 4300,
    "2^64 - 1": str(2**64 - 1),
    "2^63": str(2**63),
    "2^62": str(2**62),
    "negative": "-1",
    "float": "1e9",
    "underscore": "1_0",
    "Arabic": "\u0663",
    "nothing": "",
    "blank": " 3",
}
#: How entries of a zip archive are found, and where in one its fields are.
ENTRY, FLAGS, PACKED, UNPACKED, NAME, EXTRA, OFFSET = b"PK\1\2", 8, 20, 24, 28, 30, 42


def tables(result: Any) -> list[Any]:
    return [batch.to_arrow() for batch in result]


def read(path: Path, reader: type = MediaReader) -> tuple[dict[str, bytes | str], Counter[str]]:
    """The files of an archive by name, or the reason why they have no bytes; and how often members were set aside."""
    files: dict[str, bytes | str] = {}
    lost = Counter[str]()
    result = Pipeline("read", stages=[reader(str(path))]).run(InlineExecutor(), observers=[])
    for table in tables(result):
        for name, data in zip(table["file_name"].to_pylist(), fetch(table), strict=True):
            files[name] = data if isinstance(data, bytes) else data.reason
    for reason, rows in result.report.stages[0].faulty.items():
        lost[reason] += rows
    return files, lost


def pax(fields: Sequence[tuple[str, str]]) -> bytes:
    """A header with fields, however wrong these are."""
    lines = b""
    for name, value in fields:
        rest = f" {name}={value}\n".encode()
        length = len(rest) + len(str(len(rest) + 1))
        length += len(str(length)) != len(str(len(rest) + 1))
        lines += str(length).encode() + rest
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(lines)
    return info.tobuf(tarfile.USTAR_FORMAT) + lines + bytes(-len(lines) % tar.BLOCK)


def member(name: str, data: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % tar.BLOCK)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("reader", [MediaReader, WebDatasetReader])
@pytest.mark.parametrize("field", ["size", "mtime", "uid", "path", "GNU.sparse.size", "GNU.sparse.major"])
def test_an_odd_number_in_a_header_of_posix_costs_its_member(kind, reader, field, tmp_path):
    archive = member("a.pdf", FIRST) + pax([(field, ODD[kind])]) + member("b.pdf", b"odd") + member("c.pdf", LAST)
    (tmp_path / "a.tar").write_bytes(archive + bytes(1024))
    files, lost = read(tmp_path / "a.tar", reader)
    assert (files["a.pdf"], files["c.pdf"]) == (FIRST, LAST)
    assert len(files) + sum(lost.values()) == 3


@pytest.mark.parametrize("length", [*ODD.values(), "0", "4", "99999"])
@pytest.mark.parametrize("reader", [MediaReader, WebDatasetReader])
def test_an_odd_length_of_a_field_of_posix_costs_its_member(length, reader, tmp_path):
    line = f"{length} path=b.pdf\n".encode()
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(line)
    header = info.tobuf(tarfile.USTAR_FORMAT) + line + bytes(-len(line) % tar.BLOCK)
    (tmp_path / "a.tar").write_bytes(member("a.pdf", FIRST) + header + member("c.pdf", LAST) + bytes(1024))
    files, _ = read(tmp_path / "a.tar", reader)
    assert (files["a.pdf"], files["c.pdf"]) == (FIRST, LAST)


@pytest.mark.parametrize("reader", [MediaReader, WebDatasetReader])
@pytest.mark.parametrize("place", [(100, 8), (108, 8), (124, 12), (136, 12), (148, 8), (329, 8)])
@pytest.mark.parametrize("value", [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"9" * 12, "\xb2".encode() * 6, b"-1 "])
def test_an_odd_number_in_a_header_of_tar_costs_its_member(reader, place, value, tmp_path):
    begin, size = place
    header = bytearray(member("b.pdf", b"odd"))
    header[begin : begin + size] = value[:size].ljust(size, b" ")
    if begin != 148:
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header[:512])
    (tmp_path / "a.tar").write_bytes(member("a.pdf", FIRST) + header + member("c.pdf", LAST) + bytes(1024))
    files, lost = read(tmp_path / "a.tar", reader)
    assert files["a.pdf"] == FIRST
    assert sum(lost.values()) + len(files) >= 2


def test_no_header_of_a_chain_is_read_again_and_again(tmp_path):
    """4,000 headers before a member: each is read a few times, and what is behind them is found."""

    class Counting:
        damage = ""

        def __init__(self, data: bytes) -> None:
            self.data, self.asked = data, Counter[int]()

        def get(self, offset: int, size: int) -> bytes:
            self.asked[offset] += size == tar.BLOCK
            return self.data[offset : offset + size]

        def held(self, begin: int, end: int) -> int:
            return max(0, min(end, len(self.data)) - begin)

    for count in (16, 17, 4000):
        for chain in (pax([("comment", "a")]), pax([("comment", "a")]) * 15 + member("x", b"")[:100] + bytes(412)):
            window = Counting(chain * count + member("a.pdf", FIRST) + member("b.pdf", LAST))
            found = [each for each in tar.walk(window) if isinstance(each, tar.Member)]
            assert [each.name for each in found][-2:] == ["a.pdf", "b.pdf"]
            assert max(window.asked.values()) <= 3


def zipped(names: Sequence[str | bytes], method: int = 8, seekable: bool = True) -> bytearray:
    """A zip archive of members with these names, the first and the last with content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer if seekable else Unseekable(buffer), "w", method) as archive:
        for number, name in enumerate(names):
            data = FIRST if number == 0 else LAST if number == len(names) - 1 else b"odd" * 100
            archive.writestr(str(name), data)
    return bytearray(buffer.getvalue())


def places(data: bytes | bytearray) -> Iterator[int]:
    at = data.find(ENTRY)
    while at >= 0:
        yield at
        at = data.find(ENTRY, at + 1)


def of_zip(data: bytes | bytearray, folder: Path) -> tuple[dict[str, bytes | str], Counter[str]]:
    (folder / "a.zip").write_bytes(data)
    files, lost = read(folder / "a.zip")
    assert (files["a.pdf"], files["c.pdf"]) == (FIRST, LAST)
    return files, lost


@pytest.mark.parametrize("method", [0, 8, 12])
@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("field", [PACKED, UNPACKED, OFFSET])
@pytest.mark.parametrize("value", [0, 1, 5, 100, 1000, 2**31, 2**32 - 2, 2**32 - 1, 2**62, 2**63, 2**64 - 1])
def test_an_odd_number_of_a_zip_archive_costs_its_member(method, seekable, field, value, tmp_path):
    data = zipped(["a.pdf", "b.pdf", "c.pdf"], method, seekable)
    at = [*places(data)][1]
    if value < 2**32:
        data[at + field : at + field + 4] = struct.pack("<L", value)
    else:
        wide = [value if place == field else struct.unpack_from("<L", data, at + place)[0]
                for place in (UNPACKED, PACKED, OFFSET)]  # fmt: skip
        extra = struct.pack("<2H3Q", 1, 24, *wide)
        for place in (UNPACKED, PACKED, OFFSET):
            data[at + place : at + place + 4] = b"\xff" * 4
        data[at + EXTRA : at + EXTRA + 2] = struct.pack("<H", len(extra))
        data[at + 46 + 5 : at + 46 + 5] = extra
        end = data.rfind(b"PK\5\6")
        data[end + 12 : end + 16] = struct.pack("<L", struct.unpack_from("<L", data, end + 12)[0] + len(extra))
    files, lost = of_zip(data, tmp_path)
    assert len(files) + sum(lost.values()) == 3


@pytest.mark.parametrize("place", range(0, 500, 29))
@pytest.mark.parametrize("method", [0, 8])
def test_an_offset_within_a_neighbour_does_not_cut_it(place, method, tmp_path):
    data = zipped(["a.pdf", "b.pdf", "c.pdf"], method)
    at = [*places(data)][1]
    data[at + OFFSET : at + OFFSET + 4] = struct.pack("<L", place)
    of_zip(data, tmp_path)


@pytest.mark.parametrize("utf_8", [True, False])
@pytest.mark.parametrize("name", [b"\xff\xfe.pdf", b"", b"\0b.pd", b"/", b"../b.", b"C:/b.", b"PK\1\2b", b"b.\xe9df"])
def test_an_odd_name_costs_its_member_alone(utf_8, name, tmp_path):
    data = zipped(["a.pdf", "bbbbb", "c.pdf"])
    at = [*places(data)][1]
    name = name[:5]
    if utf_8:
        data[at + FLAGS + 1] |= 8
    data[at + NAME : at + NAME + 2] = struct.pack("<H", len(name))
    data[at + 46 : at + 51] = name
    end = data.rfind(b"PK\5\6")
    size = struct.unpack_from("<L", data, end + 12)[0] + len(name) - 5
    data[end + 12 : end + 16] = struct.pack("<L", size)
    files, lost = of_zip(data, tmp_path)
    assert len(files) + sum(lost.values()) == (2 if name.endswith(b"/") else 4 if name.startswith(b"PK") else 3)


@pytest.mark.parametrize(
    "extra", [b"\1", b"\1\0\xff\xff", b"\1\0\1\0a", b"\1\0\x08\0aaaaaaaa", b"up\5\0aaaaa", b"\xff" * 9]
)
def test_a_bad_extra_field_costs_nothing(extra, tmp_path):
    data = zipped(["a.pdf", "b.pdf", "c.pdf"])
    at = [*places(data)][1]
    data[at + EXTRA : at + EXTRA + 2] = struct.pack("<H", len(extra))
    data[at + 51 : at + 51] = extra
    end = data.rfind(b"PK\5\6")
    data[end + 12 : end + 16] = struct.pack("<L", struct.unpack_from("<L", data, end + 12)[0] + len(extra))
    files, _ = of_zip(data, tmp_path)
    assert files["b.pdf"] == b"odd" * 100


@pytest.mark.parametrize("lengths", [(65535, 0), (0, 65535), (60, 0), (0, 60), (100, 100)])
def test_an_entry_of_a_wrong_length_hides_no_other(lengths, tmp_path):
    data = zipped(["a.pdf", "b.pdf", "c.pdf"])
    at = [*places(data)][1]
    data[at + NAME : at + NAME + 4] = struct.pack("<2H", *lengths)
    _, lost = of_zip(data, tmp_path)
    assert lost == {"damaged entry": 1}


def test_zip64_is_read_as_zipfile_reads_it(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 50)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    files, lost = of_zip(bytes(zipped(["a.pdf", "b.pdf", "c.pdf"])), tmp_path)
    assert (len(files), lost) == (3, {})
    files, lost = of_zip(b"in front of it" + bytes(zipped(["a.pdf", "b.pdf", "c.pdf"])), tmp_path)
    assert (len(files), lost) == (3, {})


@pytest.mark.parametrize("name", ["a.pdf", "c.pdf"])
@pytest.mark.parametrize("seekable", [True, False])
def test_a_stored_member_ends_where_it_says(name, seekable, tmp_path, monkeypatch):
    """Also where what follows it is unknown, sizes are wide, and the content looks like an end."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 50)
    buffer = io.BytesIO()
    content = (b"PK\7\x08" + bytes(12) + struct.pack("<L", 16)) * 20
    with zipfile.ZipFile(buffer if seekable else Unseekable(buffer), "w") as archive:
        for member_name in ("a.pdf", "b.pdf", "c.pdf"):
            with archive.open(member_name, "w", force_zip64=True) as file:
                file.write(content)
    data = bytearray(buffer.getvalue())
    for at in places(data):
        if data[at + 46 : at + 51] != name.encode():
            data[at : at + 4] = b"PK\0\0"
    (tmp_path / "a.zip").write_bytes(data)
    files, _ = read(tmp_path / "a.zip")
    assert files == {name: content}


def test_ends_of_members_are_looked_for_in_linear_time():
    def stored(count: int) -> bytes:
        ends = b"".join(struct.pack("<4s3I", b"PK\7\x08", 1, 16 * number, 0) for number in range(count))
        return struct.pack("<4s5H3I2H", b"PK\3\4", 20, 8, 0, 0, 0, 0, 0, 0, 0, 0) + ends

    def unpack(data: bytes) -> None:
        with pytest.raises(MediaError, match="does not say where"):
            content_of("a.zip", "a", data, 2**30)

    assert_linear(unpack, [stored], (4_000, 40_000))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_damaged_directories_are_read_as_far_as_they_go(data):
    """Whatever bytes change, no error but the one of an archive; and all that is found is within it."""
    archive = zipped(["a.pdf", "b/", "c\xe9.pdf", "d.pdf"], data.draw(st.sampled_from([0, 8])))
    begin = archive.find(ENTRY)
    for _ in range(data.draw(st.integers(1, 4))):
        archive[data.draw(st.integers(begin, len(archive) - 1))] = data.draw(st.integers(0, 255))
    archive = archive[: data.draw(st.integers(begin, len(archive)))] if data.draw(st.booleans()) else archive
    try:
        found = list(entries(io.BytesIO(bytes(archive))))
    except MediaError:
        return
    for entry in found:
        assert (entry.fault is not None) or (0 <= (entry.offset or 0) < len(archive) and entry.held > 0)
        assert entry.held <= len(archive)
        entry.name.encode()


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("reader", [MediaReader, WarcReader])
@pytest.mark.parametrize(
    "field",
    ["Content-Length", "WARC-Date", "WARC-Record-ID", "WARC-Target-URI", "WARC-Segment-Number", "WARC-Truncated"],
)
def test_an_odd_header_of_a_web_archive_costs_its_record(kind, reader, field, tmp_path):
    odd = warc_record("http://host/odd.pdf", b"odd")
    lines = odd.split(b"\r\n")
    named = [number for number, line in enumerate(lines) if line.startswith(field.encode() + b":")]
    line = f"{field}: {ODD[kind]}".encode()
    lines[named[0] if named else 1 : (named[0] if named else 0) + 1] = [line]
    records = [warc_record("http://host/a.pdf", FIRST), b"\r\n".join(lines), warc_record("http://host/c.pdf", LAST)]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    result = Pipeline("read", stages=[reader(str(tmp_path / "a.warc"))]).run(InlineExecutor(), observers=[])
    rows: list[dict[str, Any]] = [row for table in tables(result) for row in table.to_pylist()]
    assert {"http://host/a.pdf", "http://host/c.pdf"} <= {row["url"] for row in rows}
    assert len(rows) + sum(result.report.stages[0].faulty.values()) == 3


@pytest.mark.parametrize("offset", [10, 11, 2**31, 2**62, 2**63 - 1, -1])
@pytest.mark.parametrize("size", [0, 1, 10, 2**27, 2**62, 2**63 - 1, -1, None])
@pytest.mark.parametrize("name", ["a.pdf", "a.tar", "a.zip", "a.warc", "a.jsonl", "a.tar.gz"])
def test_a_reference_to_nowhere_is_a_fault_of_its_row(offset, size, name, tmp_path):
    data = b"0123456789"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "good").write_bytes(data)
    rows = [Ref(str(tmp_path / name), member, offset, size) for member in ("m", None)]
    [*_, good] = fetch(pa.table({"media_ref": ref_array([*rows, Ref(str(tmp_path / "good"))])}))
    assert good == data
