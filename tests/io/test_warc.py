"""Records of web archives, whole and damaged."""

import gzip
import io
import random
import zlib
from itertools import accumulate, combinations_with_replacement, pairwise

import brotli
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dcurate.io.warc import Damage, Record, iterate_records
from dcurate.io.warc_http import response
from tests.archives import PACK, arc_file, arc_record, archive, http, page, warc_record

CONTENTS = [page(f"<p>{'page ' * number}{number}</p>") for number in (1, 7, 60, 400)]
RECORDS = [warc_record(content, f"http://example.org/{number}") for number, content in enumerate(CONTENTS)]


def read(data: bytes, start: int = 0, stop: int | None = None) -> list[Record | Damage]:
    return list(iterate_records(io.BytesIO(data), start, stop))


def contents(data: bytes) -> list[bytes | str]:
    """The content of each record, and the reason of each damage."""
    return [each.reason if isinstance(each, Damage) else each.content for each in read(data)]


@pytest.mark.parametrize("pack", PACK)
def test_every_record_is_read_with_any_compression(pack):
    found = read(archive(RECORDS, pack))
    assert [record.content for record in found] == CONTENTS
    assert [record.url for record in found] == [f"http://example.org/{number}" for number in range(4)]
    assert {record.kind for record in found} == {"response"}
    assert {record.date for record in found} == {"2024-02-03T04:05:06Z"}
    assert all(len(record.id) == 36 for record in found)


@pytest.mark.parametrize("pack", PACK)
def test_offsets_are_those_at_which_records_or_their_members_begin(pack):
    sizes = [len(PACK[pack](record)) for record in RECORDS]
    assert [record.offset for record in read(archive(RECORDS, pack))] == [0, *accumulate(sizes[:-1])]


@pytest.mark.parametrize("pack", PACK)
def test_a_file_compressed_as_a_whole_gives_all_its_records(pack):
    assert contents(PACK[pack](b"".join(RECORDS))) == CONTENTS


@pytest.mark.parametrize("size", [1, 100, 1000])
def test_records_may_go_over_the_ends_of_members(size):
    data = b"".join(RECORDS)
    assert contents(archive([data[at : at + size] for at in range(0, len(data), size)])) == CONTENTS


@pytest.mark.parametrize("pack", PACK)
def test_arc_is_read_as_warc_is(pack):
    records = [arc_record(content, f"http://example.org/with space/{n}") for n, content in enumerate(CONTENTS)]
    about, *found = read(arc_file(records, pack))
    assert about.kind == "warcinfo"
    assert [(record.kind, record.url, record.date, record.content) for record in found] == [
        ("response", f"http://example.org/with space/{n}", "2024-02-03T04:05:06Z", content)
        for n, content in enumerate(CONTENTS)
    ]


def test_what_warcio_writes_is_read():
    buffer = io.BytesIO()
    writer = WARCWriter(buffer, gzip=True)
    status = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.0")
    for number in range(3):
        body, length = io.BytesIO(b"<p>hi</p>" * number), 9 * number
        record = writer.create_warc_record(
            f"http://example.org/{number}", "response", body, length, http_headers=status
        )
        writer.write_record(record)
    found = read(buffer.getvalue())
    assert [(record.url, response(record.content).body) for record in found] == [
        (f"http://example.org/{number}", b"<p>hi</p>" * number) for number in range(3)
    ]


def test_a_dictionary_for_zstandard_is_taken_from_the_head_of_the_file():
    dictionary = zstandard.train_dictionary(2**12, RECORDS * 50)  # type: ignore[arg-type]
    packer = zstandard.ZstdCompressor(dict_data=dictionary)
    for stored in (dictionary.as_bytes(), zstandard.compress(dictionary.as_bytes())):
        frame = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored
        assert contents(frame + b"".join(map(packer.compress, RECORDS))) == CONTENTS


def test_an_empty_file_holds_nothing_and_loses_nothing():
    assert read(b"") == []
    assert read(b"\r\n\r\n") == []


def test_what_is_no_archive_is_one_damage():
    assert read(b"<html>no archive</html>" * 1000) == [Damage(0, "no record begins here")]
    assert [type(each) for each in read(gzip.compress(b"<html>no archive</html>" * 1000))] == [Damage]


@pytest.mark.parametrize("pack", ["plain", "gzip"])
def test_a_wrong_length_costs_that_record_only(pack):
    good = len(CONTENTS[1])
    for wrong in (0, 1, good - 1, good + 5, good + 300, 10**6, 10**14):
        changed = RECORDS[1].replace(b"Content-Length: %d\r\n" % good, b"Content-Length: %d\r\n" % wrong, 1)
        found = read(archive([RECORDS[0], changed, *RECORDS[2:]], pack))
        assert [each.content for each in found if isinstance(each, Record)] == [CONTENTS[0], *CONTENTS[2:]]
        assert [each.url for each in found if isinstance(each, Damage)] == ["http://example.org/1"]


@pytest.mark.parametrize("length", [b"", b"-1", b"twelve", b"1 2"])
def test_a_record_that_says_no_length_is_damaged(length):
    changed = RECORDS[1].replace(b"Content-Length: %d" % len(CONTENTS[1]), b"Content-Length: " + length, 1)
    found = contents(b"".join([RECORDS[0], changed, RECORDS[2]]))
    assert [CONTENTS[0], CONTENTS[2]] == [each for each in found if isinstance(each, bytes)]
    assert sum("says no length" in each for each in found if isinstance(each, str)) == 1


def test_a_record_larger_than_wanted_is_passed_over_without_being_held():
    data = archive([RECORDS[0], warc_record(b"x" * 10**6, "http://large.org/"), RECORDS[2]], "plain")
    found = list(iterate_records(io.BytesIO(data), largest=10**5))
    assert [each.url for each in found] == ["http://example.org/0", "http://large.org/", "http://example.org/2"]
    assert "more than the 100000" in found[1].reason


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(["gzip", "plain", "zstd", "lz4", "bz2", "xz"]))
def test_a_file_cut_anywhere_gives_all_whole_records_and_one_damage(data, pack):
    members = [PACK[pack](record) for record in RECORDS]
    ends = list(accumulate(map(len, members)))
    cut = data.draw(st.integers(0, ends[-1]))
    found = read(b"".join(members)[:cut])
    blank = 4 if pack == "plain" else 0  # the blank lines after a record carry nothing
    whole = sum(end - blank <= cut for end in ends)
    assert [each.content for each in found if isinstance(each, Record)] == CONTENTS[:whole]
    begun = max([0, *(end for end in ends if end - blank <= cut)])
    assert [each.offset for each in found if isinstance(each, Damage)] == ([begun] if cut > begun else [])


def is_whole(damaged: bytes, data: bytes, edges: list[int]) -> bool:
    """Whether an archive misses only whole members, with nothing or (not at its head) padding in their place."""
    for low, high in combinations_with_replacement(edges, 2):
        between = damaged[low : len(damaged) - len(data) + high]
        if damaged == data[:low] + between + data[high:] and not (between.strip(b"\0") if low else between):
            return True
    return False


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["gzip", "plain", "zstd", "lz4", "bz2", "xz"]),
    st.booleans(),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 300),
    st.binary(max_size=300),
)
@example("gzip", False, 0.0, 1, b"\0")
@example("plain", False, 0.0, 3, b"xxx")
@example("gzip", False, 0.5, 0, b"\x1f\x8b\x08\0" * 20)
@example("plain", True, 0.5, 61, b"\0")
@example("plain", False, 0.0, 0, b'\x04"M\x18')
@example("plain", True, 0.0, 0, b"\x1f\x8b\x08\0")
@example("plain", False, 0.0, 5, b"BZh9")
@example("xz", True, 0.3359375, 192, b"")  # leaves two bytes of a member, and all but these of the next
@example("gzip", True, 0.0, 292, b"")  # leaves two zeros of a member, at the head of the file
def test_damage_anywhere_costs_only_the_records_that_it_touches(pack, arc, place, size, instead):
    contents_of = [content * 6 for content in CONTENTS * 3]  # longer than what may be lost: lengths never fit by chance
    make = arc_record if arc else warc_record
    members = [PACK[pack](make(content, f"http://example.org/{n}")) for n, content in enumerate(contents_of)]
    data = b"".join(members)
    begin = max(int(place * len(data)), 4 if pack == "lz4" else 0)  # without its magic, LZ4 may look like plain text
    end = min(begin + size, len(data))
    damaged = data[:begin] + instead + data[end:]
    found = read(damaged)
    given_ = [each.content for each in found if isinstance(each, Record)]
    bounds = list(pairwise([0, *accumulate(map(len, members))]))
    line = 1 if arc and pack == "plain" else 0  # a record of ARC is known by its line only
    untouched = [n for n, (low, high) in enumerate(bounds) if high <= begin or low - line >= end]
    rest = iter(given_)
    assert all(any(content == contents_of[n] for content in rest) for n in untouched), "lost or out of order"
    if pack != "plain" and not is_whole(damaged, data, [0, *(high for _, high in bounds)]):
        assert len(given_) == len(members) or any(isinstance(each, Damage) for each in found), "lost in silence"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000), st.sampled_from(list(PACK)))
def test_no_bytes_raise(data, pack):
    read(data)
    read(PACK[pack](data))
    read(b"WARC/1.0\r\n" + data)
    read(PACK[pack](RECORDS[0]) + data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(PACK)), st.lists(st.floats(0, 1), max_size=5), st.booleans())
def test_ranges_that_meet_give_every_record_once(pack, places, whole):
    records = RECORDS * 3
    data = PACK[pack](b"".join(records)) if whole else archive(records, pack)
    bounds = sorted({0, len(data), *(int(place * len(data)) for place in places)})
    found = [each for start, stop in pairwise(bounds) for each in read(data, start, stop)]
    assert found == read(data)
    assert [each.content for each in found] == CONTENTS * 3


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["plain", "gzip"]), st.lists(st.floats(0, 1), max_size=5), st.floats(0, 1, exclude_max=True))
def test_ranges_of_a_damaged_file_give_what_the_whole_file_gives(pack, places, flipped):
    data = bytearray(archive(RECORDS * 3, pack))
    data[int(flipped * len(data))] ^= 0x55
    bounds = sorted({0, len(data), *(int(place * len(data)) for place in places)})
    found = [each for start, stop in pairwise(bounds) for each in read(bytes(data), start, stop)]
    whole = read(bytes(data))
    assert [each for each in found if isinstance(each, Record)] == [each for each in whole if isinstance(each, Record)]


@pytest.mark.parametrize("pack", PACK)
def test_ranges_find_members_whose_first_block_is_large(pack):
    noise = [random.Random(number).randbytes(200_000) for number in range(6)]
    data = archive([warc_record(each, f"http://noise.org/{number}") for number, each in enumerate(noise)], pack)
    bounds = range(0, len(data) + 70_000, 70_000)
    assert [each.content for start, stop in pairwise(bounds) for each in read(data, start, stop)] == noise


def test_bodies_are_given_as_the_server_meant_them():
    body = b"<p>" + b"text " * 100 + b"</p>"
    raw = zlib.compressobj(wbits=-15)
    raw_deflate = raw.compress(body) + raw.flush()
    chunked = (
        b"5\r\n"
        + body[:5]
        + b"\r\nff;name=value\r\n"
        + body[5:260]
        + b"\r\n"
        + b"%x\r\n" % len(body[260:])
        + body[260:]
    )
    for sent, *headers in [
        (body,),
        (gzip.compress(body), "Content-Encoding: gzip"),
        (gzip.compress(body[:9]) + gzip.compress(body[9:]), "Content-Encoding: x-gzip"),
        (body, "Content-Encoding: gzip"),
        (zlib.compress(body), "Content-Encoding: deflate"),
        (raw_deflate, "Content-Encoding: deflate"),
        (brotli.compress(body), "content-encoding: BR"),
        (zstandard.compress(body), "Content-Encoding: zstd"),
        (zlib.compress(gzip.compress(body)), "Content-Encoding: gzip, deflate"),
        (chunked + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
        (chunked, "Transfer-Encoding: chunked"),
        (body, "Transfer-Encoding: chunked"),
        (
            b"%x\n" % len(gzip.compress(body)) + gzip.compress(body) + b"\n0\n\n",
            "Transfer-Encoding: chunked",
            "Content-Encoding: gzip",
        ),
    ]:
        assert response(http(sent, *headers)).body == body, headers  # type: ignore[arg-type]


def test_a_body_cut_off_gives_what_there_is_of_it():
    body = bytes(range(256)) * 100
    for packed, coding in (
        (gzip.compress(body), "gzip"),
        (zstandard.compress(body), "zstd"),
        (brotli.compress(body), "br"),
    ):
        found = response(http(packed[: len(packed) * 9 // 10], f"Content-Encoding: {coding}"))
        assert body.startswith(found.body)
        assert found.body or coding == "zstd", "one block, which is unpacked whole or not at all"


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("zstd", zstandard.compress)],
)
def test_a_body_that_unpacks_to_far_too_much_is_cut_and_says_so(coding, pack):
    found = response(http(pack(b"x" * 10**6), f"Content-Encoding: {coding}"), largest=1000)
    assert found.body == b"x" * 1000
    assert "more than 1000" in found.damage
    assert response(http(pack(b"x" * 1000), f"Content-Encoding: {coding}"), largest=1000).damage == ""


def test_a_body_that_cannot_be_unpacked_says_so():
    assert "not known" in response(http(b"abc", "Content-Encoding: sdch")).damage
    assert response(http(b"\x1f\x8b\x08\0garbage that is no gzip", "Content-Encoding: gzip")).damage


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "identity", ""]),
    st.booleans(),
)
def test_no_http_message_raises(body, coding, chunked):
    headers = [f"Content-Encoding: {coding}", *(["Transfer-Encoding: chunked"] if chunked else [])]
    response(http(body, *headers))
    response(b"HTTP/1.1 200 OK\r\n" + body)
    response(body)
