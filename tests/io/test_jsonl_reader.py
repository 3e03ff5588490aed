from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import distributed.protocol
import orjson
import pyarrow as pa
import pyarrow.json as pj
import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dcurate import (
    DataError,
    DocumentReader,
    FileGroup,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
)
from dcurate.frames.schema import ColumnTypes
from dcurate.io.json_parse import DEEPEST, Wanted, parse_lines, rounded

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(level=1).compress,
}


def read(path, **settings):
    reader = JsonlReader(str(path), **settings)
    batches = [reader.process(split) for split in reader.splits()]
    return [batch for batch in batches if batch is not None]


def table(path, **settings):
    return pa.concat_tables([batch.to_arrow() for batch in read(path, **settings)], promote_options="permissive")


def bad_lines(batches):
    return sum(rejection.rows for batch in batches for rejection in batch.rejections)


def put(path, data):
    path.write_bytes(data)
    return path


@settings(deadline=None)
@given(
    lines=st.lists(st.sampled_from([b'{"a": 1}', b"{broken", b"", b"[1]", b'{"a": "\xff"}']), min_size=1, max_size=6),
    bom=st.booleans(),
    packed=st.booleans(),
    blocksize=st.integers(4, 40),
)
@example([b"{broken"], True, False, 40)
@example([b'{"a": 1}', b"{broken"], True, True, 40)
def test_the_byte_of_a_bad_line_is_that_at_which_it_begins(
    lines: list[bytes], bom: bool, packed: bool, blocksize: int
) -> None:
    content = b"\xef\xbb\xbf" * bom + b"\n".join(lines)
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl.gz" if packed else "a.jsonl")
        path.write_bytes(gzip.compress(content) if packed else content)
        reader = JsonlReader(str(path), on_bad_line="quarantine", blocksize=None if packed else blocksize)
        batches = [batch for split in reader.splits() if (batch := reader.process(split)) is not None]
    faults = [fault for batch in batches for each in batch.rejections for fault in each.data.to_pylist()]
    bad = [(number, line) for number, line in enumerate(lines) if line and line != b'{"a": 1}']
    places = [3 * bom + len(b"\n".join(lines[:number])) + (number > 0) for number, _ in bad]
    assert sorted((fault["line"], fault["byte"]) for fault in faults) == [
        (number + 1, place) for (number, _), place in zip(bad, places, strict=True)
    ]
    for fault in faults:
        line = content[fault["byte"] :].partition(b"\n")[0]
        assert line.decode(errors="backslashreplace") == fault["raw"]


def test_rows_come_as_one_chunk_under_the_key_of_the_split(tmp_path):
    put(tmp_path / "a.jsonl", b'{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n')
    (batch,) = read(tmp_path)
    assert str(batch.key) == "a.jsonl"
    assert batch.to_arrow().to_pylist() == [{"id": 1, "text": "one"}, {"id": 2, "text": "two"}]
    assert all(column.num_chunks == 1 for column in batch.data.columns)


@pytest.mark.parametrize("ending", PACK)
def test_compressed_files_are_read(tmp_path, ending):
    put(tmp_path / f"a.jsonl{ending}", PACK[ending](b'{"t": "x"}\n' * 3))
    assert table(tmp_path).num_rows == 3


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_files_of_several_compressed_members_are_read_to_the_end(tmp_path, ending):
    put(tmp_path / f"a.jsonl{ending}", PACK[ending](b'{"t": "x"}\n') + PACK[ending](b'{"t": "y"}\n'))
    assert table(tmp_path)["t"].to_pylist() == ["x", "y"]


def test_a_zstd_window_of_two_gigabytes_is_read(tmp_path):
    parameters = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    put(tmp_path / "a.jsonl.zst", packer.compress(b'{"t": "x"}\n' * 9) + packer.flush())
    assert table(tmp_path).num_rows == 9


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_file_that_is_cut_short_is_refused(tmp_path, ending):
    lines = b"".join(orjson.dumps({"t": str(n) * 50}) + b"\n" for n in range(2000))
    put(tmp_path / f"a.jsonl{ending}", PACK[ending](lines)[:-20])
    with pytest.raises(DataError) as refusal:
        read(tmp_path)
    said = str(refusal.value)
    assert said.startswith(f"a.jsonl{ending} is truncated or not a {ending} file (")
    assert said.endswith("); fetch it again or leave it out")


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path, ending):
    put(tmp_path / f"a.jsonl{ending}", b'{"t": 1}\n')
    with pytest.raises(DataError, match=f"a.jsonl{ending} is truncated or not a {ending} file"):
        read(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}\n{"a": 2}',
        b'{"a": 1}\r\n{"a": 2}\r\n',
        b'\n{"a": 1}\n\n   \n{"a": 2}\n\n',
        b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n',
        b' {"a": 1} \n\t{"a": 2}\n',
        b'{"a": 9, "a": 1}\n{"a": 2}\n',
    ],
)
def test_odd_but_valid_lines_are_read(tmp_path, data):
    assert table(put(tmp_path / "a.jsonl", data)).to_pylist() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\n\r\n  \n"])
def test_a_file_without_lines_gives_no_batch(tmp_path, data):
    assert read(put(tmp_path / "a.jsonl", data)) == []


def test_text_that_looks_like_a_date_stays_text(tmp_path):
    rows = [{"d": "2020-01-01", "s": {"d": "2020-01-01T00:00:00Z"}, "l": ["2020-01-01"]}] * 2
    data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    assert table(put(tmp_path / "a.jsonl", data)).to_pylist() == rows
    reader = JsonlReader(str(tmp_path))
    reader._sniffed = reader._known()
    assert reader.process(next(reader.splits())).data.to_pylist() == rows


def test_whole_numbers_beside_others_become_floats(tmp_path):
    assert table(put(tmp_path / "a.jsonl", b'{"a": 1}\n{"a": 1.5}\n'))["a"].to_pylist() == [1.0, 1.5]


def test_whole_numbers_above_int64_keep_every_digit(tmp_path):
    path = put(tmp_path / "a.jsonl", b'{"h": 18446744073709551615}\n{"h": 1}\n{"h": null}\n')
    assert table(path)["h"].to_pylist() == [18446744073709551615, 1, None]
    put(path, b'{"h": 18446744073709551615}\n{"h": 1}\nx\n')
    assert table(path, on_bad_line="quarantine")["h"].to_pylist() == [18446744073709551615, 1]


@pytest.mark.parametrize("bad", [b"", b"x\n"])
def test_numbers_beyond_64_bits_or_of_both_signs_become_floats(tmp_path, bad):
    path = put(tmp_path / "a.jsonl", b'{"h": 18446744073709551615, "g": 1e30}\n{"h": -1, "g": 1}\n' + bad)
    assert table(path, on_bad_line="quarantine").to_pylist() == [{"h": 2.0**64, "g": 1e30}, {"h": -1.0, "g": 1.0}]


@pytest.mark.parametrize("columns", [3, 5, 60])
@pytest.mark.parametrize("bad", [b"", b"x\n"])
def test_wide_rows_of_large_numbers_are_parsed_a_few_times(tmp_path, monkeypatch, columns, bad):
    large = 12_000_000_000_000_000_000
    row = {f"c{place}": large for place in range(columns)}
    rows = [row, row | {"c1": 1.5}, *[row] * 8]
    path = put(tmp_path / "a.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows) + bad)
    parses, read_json = [], pj.read_json
    monkeypatch.setattr(pj, "read_json", lambda *args, **kwargs: parses.append(1) or read_json(*args, **kwargs))
    rows_read = table(path, on_bad_line="quarantine")
    assert len(parses) < 20  # in all: for the head, and for the rows
    assert rows_read.schema.types == [pa.float64() if place == 1 else pa.uint64() for place in range(columns)]
    assert rows_read.to_pylist() == rows


#: Values as Python writes them, some of which JSON does not have.
WRITTEN = st.recursive(
    st.sampled_from(
        [None, True, 0, -1, 2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**25, 0.5, 1e300, math.nan, math.inf]
    )
    | st.sampled_from([-math.inf, "", "a", "ü", "NaN", "\U0001f600", "日本"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "ÿ"]), inner, max_size=2),
    max_leaves=3,
)


FINITE = WRITTEN.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(st.sampled_from(["a", "b"]), FINITE), min_size=1, max_size=4))
@example([{"a": [2**63]}, {"a": [-1]}])
@example([{"a": {"x": 2**63, "ÿ": 1}}])
@example([{"a": 2**63, "b": 1e300}])
def test_numbers_have_the_same_type_in_the_quick_and_the_exact_way(tmp_path, rows):
    data = b"".join(json.dumps(row | {"z": 1}).encode() + b"\n" for row in rows)
    found = []
    for end in (b"", b"bad\n"):
        batches = read(put(tmp_path / "a.jsonl", data + end), on_bad_line="quarantine")
        types = {column.name: str(column.type) for batch in batches for column in batch.data.schema}
        rows_read = [
            {name: repr(value) for name, value in row.items()} for batch in batches for row in batch.data.to_pylist()
        ]
        found.append((types, rows_read))
    assert found[0] == found[1]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(st.sampled_from(["a", "b", "text"]), WRITTEN), min_size=1, max_size=4))
@example([{"a": math.nan, "text": "ü"}])
@example([{"a": math.nan, "b": 2**64}])
@example([{"a": math.inf, "b": 2**63, "text": "é"}, {"b": 2**64 - 1}])
def test_a_row_is_the_same_whatever_else_is_in_its_line(tmp_path, rows):
    def read_as(name, **form):
        data = b"".join(json.dumps(row, **form).encode() + b"\n" for row in rows)
        path = put(tmp_path / name, data)
        batches = read(path, on_bad_line="quarantine")
        return [repr(row) for batch in batches for row in batch.data.to_pylist()], bad_lines(batches)

    escaped, raw = read_as("a.jsonl"), read_as("b.jsonl", ensure_ascii=False)
    assert escaped == raw
    # A value that JSON does not have changes no other value of the row.
    without = [{name: value for name, value in row.items() if name != "a"} | {"z": 1} for row in rows]
    put(tmp_path / "c.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in without))
    put(tmp_path / "d.jsonl", b"".join(json.dumps(row | {"a": math.nan}).encode() + b"\n" for row in without))
    plain, beside = (read(tmp_path / name, on_bad_line="quarantine") for name in ("c.jsonl", "d.jsonl"))
    assert bad_lines(plain) == bad_lines(beside)
    names = ("b", "text", "z")
    assert [[repr(row.get(name)) for name in names] for batch in plain for row in batch.data.to_pylist()] == [
        [repr(row.get(name)) for name in names] for batch in beside for row in batch.data.to_pylist()
    ]


@pytest.mark.parametrize("bad", [b"", b"x\n"])
def test_nan_and_infinity_as_python_writes_them_are_read(tmp_path, bad):
    path = put(tmp_path / "a.jsonl", b'{"a": NaN}\n{"a": -Infinity}\n' + bad)
    values = table(path, on_bad_line="quarantine")["a"].to_pylist()
    assert values[0] != values[0]
    assert values[1] == float("-inf")


def test_a_column_missing_from_lines_is_null_there(tmp_path):
    path = put(tmp_path / "a.jsonl", b'{"a": 1}\n{"b": "x"}\n{}\n{"a": null, "b": null}\n')
    assert table(path).to_pylist() == [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
        {"a": None, "b": None},
        {"a": None, "b": None},
    ]


BAD_LINES = {
    b'{"a": ': "not valid JSON (unexpected end of data at character 7)",
    b"[1]": "a JSON object was expected, not a list",
    b'[{"a": 1},': "a JSON value over several lines; a document goes on a line of its own",
    b"null": "a JSON object was expected, not null",
    b"  null": "a JSON object was expected, not null",
    b"3": "a JSON object was expected, not a number",
    b'"text"': "a JSON object was expected, not a string",
    b"true": "a JSON object was expected, not true or false",
    b'{"a": 1}{"a": 2}': "not valid JSON (unexpected content after document at character 9)",
    b'{"a": 1} x': "not valid JSON (unexpected content after document at character 10)",
    b'{"a": "\xff"}': "not valid JSON (str is not valid UTF-8: surrogates not allowed at character 1)",
    b'{"a": "\\ud800"}': "not valid JSON (no low surrogate in string at character 8)",
    b'{"a": "\\udc00"}': "not valid JSON (",
    b'{"\xff": 1}': "not valid JSON (str is not valid UTF-8: surrogates not allowed at character 1)",
    b"\0\0\0\0": "not valid JSON (",
    b'{"a": NaN, "b": "\\ud800"}': "not valid JSON (",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line):
    put(tmp_path / "part-03.jsonl", b'{"a": 1}\n{"a": 3}\n' + line + b'\n{"a": 2}\n')
    with pytest.raises(DataError) as refusal:
        read(tmp_path)
    said = str(refusal.value)
    assert said.startswith(f"part-03.jsonl line 3: {BAD_LINES[line]}")
    assert said.endswith("; set on_bad_line='quarantine' to set such lines aside and go on")


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_lines_can_be_set_aside(tmp_path, line):
    put(tmp_path / "part-03.jsonl", b'{"a": 1}\n{"a": 3}\n' + line + b'\n{"a": 2}\n')
    (batch,) = read(tmp_path, on_bad_line="quarantine")
    assert batch.to_arrow().to_pylist() == [{"a": 1}, {"a": 3}, {"a": 2}]
    (rejection,) = batch.rejections
    assert (rejection.stage, rejection.reason, rejection.rows, rejection.fault) == (
        "jsonl_reader",
        "malformed line",
        1,
        True,
    )
    (row,) = rejection.data.to_pylist()
    assert row["error"].startswith(BAD_LINES[line])
    assert (row["file"], row["line"], row["byte"]) == ("part-03.jsonl", 3, 18)
    assert row["raw"] == line.decode(errors="backslashreplace")


@pytest.mark.parametrize("line", [*BAD_LINES, b'null{"a": 1}', b"nullnull"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_bad_line_that_is_all_of_a_file_can_be_set_aside(tmp_path, line, end):
    """Arrow ended the process where null came first."""
    put(tmp_path / "a.jsonl", line + end)
    (batch,) = read(tmp_path, on_bad_line="quarantine")
    assert batch.num_items == 0
    assert batch.rejections[0].data["line"].to_pylist() == [1]


def test_a_split_of_bad_lines_only_is_an_empty_batch_with_its_rejections(tmp_path):
    put(tmp_path / "a.jsonl", b"x\ny\n")
    (batch,) = read(tmp_path, on_bad_line="quarantine")
    assert batch.num_items == 0
    assert batch.rejections[0].rows == 2


def test_an_object_over_two_lines_is_two_bad_lines(tmp_path):
    put(tmp_path / "a.jsonl", b'{"a":\n1}\n{"a": 2}\n')
    (batch,) = read(tmp_path, on_bad_line="quarantine")
    assert batch.to_arrow().to_pylist() == [{"a": 2}]
    assert batch.rejections[0].data["line"].to_pylist() == [1, 2]


def test_utf16_is_refused(tmp_path):
    put(tmp_path / "a.jsonl", '{"a": 1}\n'.encode("utf-16"))
    with pytest.raises(DataError) as refusal:
        read(tmp_path, on_bad_line="quarantine")
    assert str(refusal.value) == ("a.jsonl is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8) and try again")


def test_a_column_of_several_types_is_text_or_its_later_types_are_set_aside(tmp_path):
    path = put(tmp_path / "a.jsonl", b'{"id": 1}\n{"id": "x"}\n{"id": [2]}\n')
    for settings_ in ({}, {"schema": {"id": "string"}}):
        assert table(path, **settings_)["id"].to_pylist() == ["1", "x", "[2]"]
    (batch,) = read(path, on_bad_line="quarantine")
    assert batch.data.to_pylist() == [{"id": 1}]
    assert batch.rejections[0].rows == 2


def test_a_value_of_another_type_beyond_the_first_rows_is_named_by_line(tmp_path):
    path = put(tmp_path / "a.jsonl", b'{"id": 1}\n' * 2**15 + b'{"id": "x"}\n')
    with pytest.raises(DataError) as refusal:
        read(path)
    assert str(refusal.value) == (
        "a.jsonl line 32769: column 'id' is string here but int64 in a.jsonl; read it as text with "
        "schema={'id': 'string'}, leave it out with fields=, or set on_bad_line='quarantine' "
        "to set such lines aside and go on"
    )


def test_a_column_of_different_types_in_two_files_is_text_or_one_of_them_is_set_aside(tmp_path):
    put(tmp_path / "a.jsonl", b'{"id": 1}\n')
    put(tmp_path / "b.jsonl", b'{"id": "x"}\n')
    assert table(tmp_path)["id"].to_pylist() == ["1", "x"]
    batches = read(tmp_path, on_bad_line="quarantine")
    assert [batch.num_items for batch in batches] == [1, 0]


def test_heads_that_clash_in_several_columns_are_no_reason_to_stop_in_quarantine(tmp_path):
    put(tmp_path / "a.jsonl", b'{"a": 1, "b": 1, "c": 1}\n')
    put(tmp_path / "b.jsonl", b'{"a": "x", "b": "x", "c": 2}\n')
    reader = JsonlReader(str(tmp_path), on_bad_line="quarantine")
    assert reader.columns() == ["a", "b", "c"]


def test_a_link_to_a_file_that_is_gone_is_reported(tmp_path):
    put(tmp_path / "a.jsonl", b'{"a": 1}\n')
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "gone.jsonl")
    with pytest.raises(DataError, match="/b.jsonl': it is a link to '.*/gone.jsonl', which is not there"):
        read(tmp_path)


def test_a_later_file_of_another_type_is_refused_when_it_is_read(tmp_path):
    put(tmp_path / "a.jsonl", b'{"id": 1}\n')
    reader = JsonlReader(str(tmp_path))
    list(reader.splits())
    put(tmp_path / "b.jsonl", b'{"id": "x"}\n')
    with pytest.raises(DataError, match="column 'id' is string in b.jsonl but int64 in a.jsonl; say which"):
        reader.process(FileGroup.of([str(tmp_path / "b.jsonl")]))


def test_types_drift_together_across_files(tmp_path):
    put(tmp_path / "a.jsonl", b'{"n": 1, "s": {"x": 1}, "l": [], "z": null}\n')
    put(tmp_path / "b.jsonl", b'{"n": 1.5, "s": {"y": "t"}, "l": [2], "more": true}\n')
    rows = [
        {"n": 1.0, "s": {"x": 1, "y": None}, "l": [], "z": None, "more": None},
        {"n": 1.5, "s": {"x": None, "y": "t"}, "l": [2], "z": None, "more": True},
    ]
    for files_per_partition in (1, 2):
        batches = read(tmp_path, files_per_partition=files_per_partition)
        assert [row for batch in batches for row in batch.data.to_pylist()] == rows
        assert {str(batch.data.schema) for batch in batches} == {str(batches[0].data.schema)}


def test_a_column_that_only_a_later_file_has_is_kept(tmp_path):
    put(tmp_path / "a.jsonl", b'{"a": 1}\n')
    reader = JsonlReader(str(tmp_path))
    list(reader.splits())
    put(tmp_path / "b.jsonl", b'{"b": "2020-01-01", "a": 1}\n')
    later = reader.process(FileGroup.of([str(tmp_path / "b.jsonl")]))
    assert later.data.to_pylist() == [{"a": 1, "b": "2020-01-01"}]


@pytest.mark.parametrize("bad", [b"", b"x\n"])
def test_fields_restrict_and_order_the_columns(tmp_path, bad):
    put(
        tmp_path / "a.jsonl",
        b'{"a": 1, "b": "x", "c": [1, "mixed"], "d": null}\n{"a": 2}\n'.replace(b', "mixed"', b"") + bad,
    )
    reader = JsonlReader(str(tmp_path), fields=["b", "a"], on_bad_line="quarantine")
    assert reader.columns() == ["b", "a"]
    batch = reader.process(next(reader.splits()))
    assert batch.data.to_pylist() == [{"b": "x", "a": 1}, {"b": None, "a": 2}]
    assert read(tmp_path, fields=["d", "a"], on_bad_line="quarantine")[0].get_columns() == ["d", "a"]


def test_a_field_that_no_file_has_is_refused(tmp_path):
    put(tmp_path / "a.jsonl", b'{"text": "x", "id": 1}\n')
    with pytest.raises(DataError) as refusal:
        JsonlReader(str(tmp_path), fields=["txt"]).columns()
    assert str(refusal.value) == (
        "jsonl_reader: no column 'txt' in the first rows of the files; they have 'text', 'id': "
        "name one of these, or declare it with schema={'txt': 'string'}"
    )
    assert table(tmp_path, fields=["txt", "id"], schema={"txt": "string"}).to_pylist() == [{"txt": None, "id": 1}]


def test_declared_types_hold(tmp_path):
    path = put(tmp_path / "a.jsonl", b'{"t": "2020-01-01", "n": 1, "s": 3}\n{"t": null, "n": 2, "s": {"a": 1}}\n')
    schema = {"t": "timestamp[us]", "n": "float", "s": "string"}
    found = table(path, schema=schema)
    assert str(found.schema.field("t").type) == "timestamp[us]"
    assert found["n"].to_pylist() == [1.0, 2.0]
    assert found["s"].to_pylist() == ["3", '{"a":1}']
    with pytest.raises(DataError, match=r"a.jsonl line 2: column 's' cannot be read as int64"):
        read(path, schema={"s": "int64"})


def test_a_number_with_a_fraction_is_a_bad_line_where_whole_numbers_are_declared(tmp_path):
    path = put(tmp_path / "a.jsonl", b'{"n": 1.7}\n{"n": 2.0}\n{"n": NaN}\n{"n": 3}\n{"n": null}\n')
    with pytest.raises(
        DataError, match=r"a.jsonl line 1: column 'n' cannot be read as int64 \(1.7 is not a whole number"
    ):
        read(path, schema={"n": "int64"})
    batches = read(path, schema={"n": "int64"}, on_bad_line="quarantine")
    assert [row["n"] for batch in batches for row in batch.to_arrow().to_pylist()] == [2, 3, None]
    assert sum(one.rows for batch in batches for one in batch.rejections) == 2
    nested = put(tmp_path / "b.jsonl", b'{"n": [1, 1.5]}\n{"n": [2]}\n')
    batches = read(nested, schema={"n": pa.list_(pa.int64())}, on_bad_line="quarantine")
    assert [row["n"] for batch in batches for row in batch.to_arrow().to_pylist()] == [[2]]


def test_columns_are_known_from_the_heads_and_travel_with_the_stage(tmp_path):
    for number in range(40):
        put(tmp_path / f"{number:02}.jsonl", b'{"a": 1}\n' if number != 39 else b'{"a": 1, "last": 2}\n')
    reader = JsonlReader(str(tmp_path))
    assert reader.columns() == ["a", "last"]
    assert pickle.loads(pickle.dumps(reader))._sniffed == reader._sniffed
    assert reader == JsonlReader(str(tmp_path))


def test_a_head_longer_than_the_first_look_is_read_on(tmp_path):
    put(tmp_path / "a.jsonl", orjson.dumps({"text": "x" * 2**20, "id": 1}) + b'\n{"text": "y"')
    assert JsonlReader(str(tmp_path)).columns() == ["text", "id"]


LINE = st.builds(
    lambda text, pad, end: orjson.dumps({"text": text}) + b" " * pad + end,
    st.text(max_size=12),
    st.integers(0, 5),
    st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \n"]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINE, min_size=1, max_size=20), blocksize=st.integers(1, 200), newline=st.booleans())
def test_each_row_of_a_cut_file_comes_once_and_in_order(tmp_path, lines, blocksize, newline):
    data = b"".join(lines) if newline else b"".join(lines).rstrip()
    put(tmp_path / "a.jsonl", data)
    wanted = [orjson.loads(line)["text"] for line in data.split(b"\n") if line.strip()]
    found = [text for batch in read(tmp_path, blocksize=blocksize) for text in batch.data["text"].to_pylist()]
    assert found == wanted


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(good=st.lists(st.booleans(), min_size=1, max_size=20), blocksize=st.integers(1, 100))
def test_line_numbers_of_a_cut_file_are_those_of_the_file(tmp_path, good, blocksize):
    put(tmp_path / "a.jsonl", b"".join(b'{"a": 1}\n' if each else b"bad\n" for each in good))
    batches = read(tmp_path, blocksize=blocksize, on_bad_line="quarantine")
    found = [line for batch in batches for each in batch.rejections for line in each.data["line"].to_pylist()]
    assert found == [number for number, each in enumerate(good, 1) if not each]


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(st.sampled_from("abc"), VALUE, max_size=3), max_size=5))
def test_the_quick_and_the_exact_way_give_the_same_rows(tmp_path, rows):
    data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    quick = read(put(tmp_path / "a.jsonl", data), on_bad_line="quarantine")
    exact = read(put(tmp_path / "a.jsonl", data + b"bad\n"), on_bad_line="quarantine")
    assert bad_lines(exact) == bad_lines(quick) + 1
    assert [row for batch in quick for row in batch.data.to_pylist()] == exact[0].data.to_pylist()


def nested(levels, kind="list"):
    """A line whose values are nested so deep, the row itself being the first level."""
    opening, closing = {"list": (b"[", b"]"), "object": (b'{"a": ', b"}")}[kind]
    return b'{"a": ' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"


DEEP = pytest.mark.parametrize("levels", [DEEPEST + 1, 200, 900, 20_000])
KINDS = pytest.mark.parametrize("kind", ["list", "object"])


@DEEP
@KINDS
def test_a_line_that_is_nested_too_deep_is_a_bad_line(tmp_path, levels, kind):
    put(tmp_path / "a.jsonl", b'{"b": 1}\n' + nested(levels, kind) + b'\n{"b": 2}\n')
    (batch,) = read(tmp_path, on_bad_line="quarantine")
    assert batch.to_arrow().to_pylist() == [{"b": 1}, {"b": 2}]
    (fault,) = batch.rejections[0].data.to_pylist()
    assert (fault["line"], fault["byte"], fault["raw"]) == (2, 9, nested(levels, kind).decode())
    with pytest.raises(
        DataError, match=f"a.jsonl line 2: values within values to a depth of more than {DEEPEST}; set on_b"
    ):
        read(tmp_path)


def test_a_deep_value_that_is_spread_over_lines_is_no_danger(tmp_path):
    put(tmp_path / "a.jsonl", b'{"b": 1}\n' + nested(20_000).replace(b"[", b"[\n"))
    (batch,) = read(tmp_path, on_bad_line="quarantine")
    assert batch.to_arrow().to_pylist() == [{"b": 1}]
    put(tmp_path / "a.jsonl", b'{"b": 1}\n' + nested(20_000, "object").replace(b"{", b"{\n"))
    with pytest.raises(DataError, match="a.jsonl line 2: a JSON value over several lines"):
        read(tmp_path)


@KINDS
def test_the_deepest_line_goes_through_every_format_and_process(tmp_path, kind):
    path = put(tmp_path / "a.jsonl", nested(DEEPEST, kind) + b"\n")
    (batch,) = read(path)
    (row,) = batch.to_arrow().to_pylist()
    assert orjson.dumps(row) == nested(DEEPEST, kind).replace(b" ", b"")
    assert table(path, on_bad_line="quarantine").equals(batch.to_arrow())
    assert pickle.loads(pickle.dumps(batch)).to_arrow().equals(batch.to_arrow())
    assert distributed.protocol.deserialize(*distributed.protocol.serialize(batch.to_arrow())).equals(batch.to_arrow())
    assert batch.to_pandas().shape == (1, 1)
    for writer in (JsonlWriter(str(tmp_path / "jsonl")), ParquetWriter(str(tmp_path / "parquet"))):
        writer.prepare(resume=False)
        (file,) = writer.process(batch).parts
        reader = DocumentReader(file.path)
        again = [reader.process(split) for split in reader.splits()]
        assert [one.to_arrow().to_pylist() for one in again] == [[row]]


def notices(path, **settings):
    pipeline = Pipeline("read", stages=[JsonlReader(str(path), **settings)])
    return pipeline.run(InlineExecutor(), observers=[]).report.notices


LARGE = b"123456789012345678901234567890"


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b'{"a": %s}\n{"a": 1}\n' % LARGE, "1 in 'a'"),
        (b'{"a": -%s}\n{"a": %s}\nx\n' % (LARGE, LARGE), "2 in 'a'"),
        (b'{"a": 18446744073709551616}\n', "1 in 'a'"),
        (b'{"a": 18446744073709551615}\n{"a": -1}\n', "1 in 'a'"),
        (b'{"a": 9007199254740993}\n{"a": 0.5}\n', "1 in 'a'"),
        (b'{"a": {"b": [0.5, %s]}, "c": %s, "d": "%s"}\n' % (LARGE, LARGE, LARGE), "1 in 'a', 1 in 'c'"),
    ],
)
def test_large_whole_numbers_that_become_floats_are_counted_for_a_notice(tmp_path, data, counted):
    (notice,) = notices(put(tmp_path / "a.jsonl", data), on_bad_line="quarantine")
    beginning = "whole numbers beyond 2**53 became floats, which may cost digits: "
    assert notice.startswith(f"{beginning}{counted}; keep them as text with schema={{'a': 'string'")


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 18446744073709551615}\n{"a": 9223372036854775808}\n{"a": 0}\n',
        b'{"a": -9223372036854775808}\n{"a": 9223372036854775807}\n',
        b'{"a": 1e300}\n{"a": 9007199254740992}\n{"a": 0.5}\n',
        b'{"a": "%s"}\n' % LARGE,
        b'{"a": "%s", "b": 1e300}\n' % LARGE,
    ],
)
def test_numbers_that_keep_their_value_make_no_notice(tmp_path, data):
    path = put(tmp_path / "a.jsonl", data)
    assert notices(path) == ()
    assert table(path).to_pylist() == [orjson.loads(line) for line in data.splitlines()]


def test_large_whole_numbers_keep_their_digits_where_text_is_asked_for(tmp_path):
    put(tmp_path / "a.jsonl", b'{"a": %s, "b": {"c": [%s]}}\n{"a": "x", "b": null}\n' % (LARGE, LARGE))
    text = LARGE.decode()
    assert table(tmp_path, schema={"a": "string", "b": "string"}).to_pylist() == [
        {"a": text, "b": f'{{"c":[{text}]}}'},
        {"a": "x", "b": None},
    ]
    assert notices(tmp_path, schema={"a": "string", "b": "string"}) == ()


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1" * 400, b"1" * 5000])
@pytest.mark.parametrize("also", [b"", b', "b": NaN'])
def test_a_number_that_is_no_finite_float_makes_a_bad_line(tmp_path, number, also):
    put(tmp_path / "a.jsonl", b'{"a": 1}\n{"a": %s%s}\n' % (number, also))
    batches = read(tmp_path, on_bad_line="quarantine")
    assert [batch.to_arrow()["a"].to_pylist() for batch in batches] == [[1]]
    assert bad_lines(batches) == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(-(10**25), 10**25), st.booleans()), max_size=20))
def test_every_large_whole_number_that_became_a_float_is_counted(rows):
    lines = [b'{"t": "%s", "n": %d%s}' % (b"x" * pad, number, b".5" * part) for pad, number, part in rows]
    data = b'{"n": 0.5}\n' + b"\n".join(lines) + b"\n"
    table, bad = parse_lines(data, Wanted(ColumnTypes(), {}), "a")
    large = sum(not part and abs(number) > 2**53 for _, number, part in rows)
    assert rounded(data, table, bad) == ({"n": large} if large else {})


def test_what_json_does_not_have_is_written_as_null_beside_any_text(tmp_path):
    (tmp_path / "in").mkdir()
    path = put(tmp_path / "in" / "a.jsonl", '{"text": "ü", "a": NaN, "n": 7}\n{"text": "a", "a": -Infinity}\n'.encode())
    pipeline = Pipeline("copy", stages=[JsonlReader(str(path)), JsonlWriter(str(tmp_path / "out"))])
    pipeline.run(InlineExecutor(), observers=[])
    [out] = (tmp_path / "out").glob("*.jsonl")
    assert out.read_text("utf-8") == '{"text":"ü","a":null,"n":7}\n{"text":"a","a":null}\n'


def test_a_file_of_the_first_second_of_1970_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n')
    os.utime(path, (0, 0))  # as reproducible archives and images leave
    made = Pipeline("old", stages=[JsonlReader(str(path))]).run(InlineExecutor(), observers=[])
    assert made.to_arrow()["text"].to_pylist() == ["a"]
