"""Values of Parquet files are the same after reading and writing, in whatever unit, width and encoding they are."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import importlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow.parquet import encryption

from dcurate import DataError, InlineExecutor, JsonlWriter, ParquetReader, ParquetWriter, Pipeline, TableReader
from dcurate.compat.nemo.split_files import split_parquet_file_by_size
from dcurate.datasets import Rebatch
from dcurate.fs.stores import Directory
from dcurate.io import rows as io_rows
from dcurate.io.parquet_stream import parquet_rows, parquet_table

FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)
YEARS = [FIRST, LAST, dt.datetime(2024, 5, 6, 7, 8, 9), None]
MICROS = pa.timestamp("us")
INT96 = {"use_deprecated_int96_timestamps": True}
PLAIN = {"use_dictionary": False, "compression": "none"}


def put(folder: Path, *tables: pa.Table, **options: Any) -> str:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", **options)
    return str(folder)


def copied(folder: str, out: Path, *stages: Any, **settings: Any) -> pa.Table:
    pipeline = Pipeline("copy", stages=[ParquetReader(folder, **settings), *stages, ParquetWriter(str(out))])
    pipeline.run(InlineExecutor(), observers=[])
    return pa.concat_tables([pq.read_table(path) for path in sorted(out.glob("*.parquet"))])


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("settings", [{}, {"blocksize": 100}, {"files_per_partition": 2}], ids=str)
def test_timestamps_of_96_bits_keep_every_year(unit: str, settings: dict[str, Any], tmp_path: Path) -> None:
    table = pa.table(
        {
            "at": pa.array(YEARS, pa.timestamp(unit)),
            "many": pa.array([YEARS, None, [], YEARS[:1]], pa.list_(MICROS)),
            "within": pa.array([{"at": moment} for moment in YEARS], pa.struct([("at", MICROS)])),
            "n": [0, 1, 2, 3],
        }
    )
    types = {"at": "timestamp[us]", "many": "list<element: timestamp[us]>", "within": table.schema.field("within").type}
    settings = {"schema": types, **settings}
    folder = put(tmp_path / "in", table, table.slice(2), **INT96, row_group_size=2)
    wanted = pa.concat_tables([table, table.slice(2)]).to_pylist()
    for out, stages in {"out": [], "few": [Rebatch(rows=3)]}.items():
        rows = copied(folder, tmp_path / out, *stages, **settings).to_pylist()
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
    alone = copied(folder, tmp_path / "at", fields=["at"], **settings)["at"].to_pylist()
    assert sorted(map(repr, alone)) == sorted(repr(row["at"]) for row in wanted)
    json_writer = JsonlWriter(str(tmp_path / "json"))
    Pipeline("json", stages=[ParquetReader(folder, schema=types), json_writer]).run(InlineExecutor(), observers=[])
    lines = "".join(path.read_text() for path in sorted((tmp_path / "json").glob("*"))).splitlines()
    years = [at and at[:4] for at in (json.loads(line)["at"] for line in lines)]
    assert years == ["0001", "9999", "2024", None, "2024", None]


def test_every_way_to_look_at_rows_shows_every_year(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b", "c", "d"], "at": pa.array(YEARS, MICROS)})
    directory, name = Directory(put(tmp_path / "in", table, **INT96), {}), "0.parquet"
    assert list(parquet_rows(directory, name)) == table.to_pylist()
    assert parquet_table(directory, name)["at"].to_pylist() == YEARS
    assert [row.values for row in io_rows._parquet_rows(directory, name)] == table.to_pylist()
    assert [row.values["at"] for row in io_rows.rows_with(directory, name, "id", {"b"})] == [LAST]
    (tmp_path / "parts").mkdir()
    split_parquet_file_by_size(str(tmp_path / "in" / name), str(tmp_path / "parts"), 1)
    [part] = (tmp_path / "parts").glob("*.parquet")
    assert pq.read_table(part)["at"].to_pylist() == YEARS


CUTS: list[dict[str, Any]] = [{}, {"blocksize": 100}, {"files_per_partition": 2}, {"files_per_partition": 3}]
NANOS, DAY = pa.timestamp("ns"), dt.datetime(2024, 5, 6, 7, 8, 9, 10)
#: The ends of the years that nanoseconds hold.
ENDS = [-(2**63) + 1, 2**63 - 1]


@pytest.mark.parametrize("settings", CUTS, ids=str)
def test_timestamps_of_96_bits_have_one_type_however_the_input_is_cut(settings: dict[str, Any], tmp_path: Path) -> None:
    columns: list[list[int | None]] = [[1_000], [1_001, None, 10**18 + 7, *ENDS], [10**18]]
    tables = [
        pa.table({"at": pa.array(column, NANOS), "many": pa.array([[one] for one in column], pa.list_(NANOS))})
        for column in columns
    ]
    folder = put(tmp_path / "in", *tables, **INT96, row_group_size=1)
    copied(folder, tmp_path / "out", **settings)
    assert {pq.read_schema(path).field("at").type for path in (tmp_path / "out").glob("*.parquet")} == {NANOS}
    rows, wanted = pq.read_table(tmp_path / "out"), pa.concat_tables(tables)
    assert rows.sort_by("at").equals(wanted.sort_by("at"))


@pytest.mark.parametrize("settings", CUTS, ids=str)
@pytest.mark.parametrize("far", [FIRST, LAST, dt.datetime(1677, 9, 21), dt.datetime(2262, 4, 12)], ids=str)
def test_years_beyond_nanoseconds_are_refused_and_read_as_declared(
    far: dt.datetime, settings: dict[str, Any], tmp_path: Path
) -> None:
    tables = [pa.table({"at": pa.array([moment], MICROS)}) for moment in (DAY, far, DAY)]
    folder = put(tmp_path / "in", *tables, **INT96)
    hint = re.escape("which nanoseconds do not hold; read it with schema={'at': 'timestamp[us]'}")
    with pytest.raises(
        DataError, match=f"column 'at' of 1.parquet has timestamps beyond the years 1677 to 2262, {hint}"
    ):
        copied(folder, tmp_path / "out", **settings)
    copied(folder, tmp_path / "far", schema={"at": "timestamp[us]"}, **settings)
    assert pq.read_table(tmp_path / "far").equals(pa.concat_tables(tables))


@pytest.mark.parametrize("fine", [[1], [-1], [10**18 + 7], [0, ENDS[0]]], ids=str)
@pytest.mark.parametrize("kind", ["timestamp[us]", "timestamp[ms]", "timestamp[us, tz=UTC]", "date32"])
def test_digits_finer_than_declared_are_refused(fine: list[int], kind: str, tmp_path: Path) -> None:
    folder = put(tmp_path / "in", pa.table({"at": pa.array(fine, NANOS)}), **INT96)
    with pytest.raises(DataError, match="column 'at' of 0.parquet has timestamps finer than microseconds, which"):
        copied(folder, tmp_path / "out", schema={"at": kind})
    cut = copied(folder, tmp_path / "cut", read_kwargs={"coerce_int96_timestamp_unit": "us"})
    assert cut["at"].cast(pa.int64()).to_pylist() == [one // 1000 for one in fine]


def test_digits_of_far_years_are_refused(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", pa.table({"at": pa.array([LAST], MICROS)}), **INT96, **PLAIN)
    path, micros = tmp_path / "in" / "0.parquet", pa.scalar(LAST, MICROS).value
    days, rest = divmod(micros, 86_400 * 10**6)
    before, after = [struct.pack("<QI", rest * 1000 + digits, days + 2_440_588) for digits in (0, 1)]
    data = path.read_bytes()
    assert data.count(before) == 1
    path.write_bytes(data.replace(before, after))
    with pytest.raises(DataError, match="has timestamps finer than microseconds"):
        copied(folder, tmp_path / "out", schema={"at": "timestamp[us]"})
    with pytest.raises(DataError, match="has timestamps beyond the years 1677 to 2262"):
        copied(folder, tmp_path / "ns")


def test_the_schema_of_a_table_declares_the_unit(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([FIRST, LAST], MICROS)})
    importlib.import_module("deltalake").write_deltalake(str(tmp_path / "table"), table)
    [file] = (tmp_path / "table").glob("*.parquet")
    pq.write_table(table, file, **INT96)
    stages: list[Any] = [TableReader(str(tmp_path / "table")), ParquetWriter(str(tmp_path / "out"))]
    Pipeline("copy", stages=stages).run(InlineExecutor(), observers=[])
    assert pq.read_table(tmp_path / "out").equals(table)


def test_far_years_within_values_are_refused_and_read(tmp_path: Path) -> None:
    table = pa.table({"within": pa.array([{"at": [LAST]}], pa.struct([("at", pa.list_(MICROS))]))})
    folder = put(tmp_path / "in", table, **INT96)
    cut = {"coerce_int96_timestamp_unit": "us"}
    with pytest.raises(DataError, match=re.escape(f"read it with read_kwargs={cut}")):
        copied(folder, tmp_path / "out")
    ways: dict[str, dict[str, Any]] = {"cut": {"read_kwargs": cut}, "declared": {"schema": table.schema}}
    for name, way in ways.items():
        assert copied(folder, tmp_path / name, **way).to_pylist() == table.to_pylist()


NUMBER = decimal.Decimal("1.25")
DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(5, 2), pa.decimal128(38, 2), pa.decimal256(40, 2)]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TIMES = [pa.date32(), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("s")]
MOMENTS = [pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")]
COLUMNS: list[pa.Array] = [
    *(pa.array([NUMBER, None, -NUMBER], kind) for kind in DECIMALS),
    *(pa.array([1, None, 2], kind) for kind in [*INTEGERS, *TIMES, *MOMENTS]),
    *(pa.array([1.5, None, -0.0], kind) for kind in (pa.float16(), pa.float32(), pa.float64())),
    *(pa.array([b"ab", None, b"cd"], kind) for kind in (pa.binary(), pa.binary(2), pa.large_binary())),
    *(pa.array(["ab", None, "cd"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    pa.array([True, None, False]),
    pa.array([[NUMBER], None, []], pa.list_(pa.decimal128(18, 2))),
    pa.array([{"x": 1}, None, {"x": 2}]),
]
ENCODINGS = ["PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]
PATHS = {"list": "c.list.element", "struct": "c.x"}


@pytest.mark.parametrize("as_integer", [False, True])
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_every_type_is_copied_in_every_encoding(column: pa.Array, as_integer: bool, tmp_path: Path) -> None:
    table = pa.table({"c": column, "n": [1, 2, 3]})
    path = PATHS.get(str(column.type).partition("<")[0], "c")
    written = 0
    for encoding in ENCODINGS:
        options = {"use_dictionary": False, "column_encoding": {path: encoding}}
        try:
            folder = put(tmp_path / encoding, table, **options, store_decimal_as_integer=as_integer)
        except (OSError, pa.ArrowException):
            continue  # no file has this encoding for this type
        written += 1
        source = pq.ParquetFile(tmp_path / encoding / "0.parquet")
        assert copied(folder, tmp_path / f"{encoding} out").equals(source.read())
        [out] = (tmp_path / f"{encoding} out").glob("*.parquet")
        before, after = (file.metadata.row_group(0).column(0) for file in (source, pq.ParquetFile(out)))
        if before.physical_type == after.physical_type:
            assert set(before.encodings) == set(after.encodings)
    assert written


UNITS = ("s", "ms", "us", "ns")
INT64 = (-(2**63) + 1, 2**63 - 1)
#: Types of numbers in a unit, with the numbers that Parquet can hold.
KINDS: list[tuple[pa.DataType, int, int]] = [
    *((pa.timestamp("s", zone), -(2**53), 2**53) for zone in (None, "UTC", "Europe/Berlin")),
    *(
        (pa.timestamp(unit, zone), -(2**63) + 1, 2**63 - 1)
        for unit in UNITS[1:]
        for zone in (None, "UTC", "Asia/Tokyo")
    ),
    *((pa.duration(unit), -(2**63) + 1, 2**63 - 1) for unit in UNITS),
    (pa.time32("s"), 0, 86_399),
    (pa.time32("ms"), 0, 86_399_999),
    (pa.time64("us"), 0, 86_400 * 10**6 - 1),
    (pa.time64("ns"), 0, 86_400 * 10**9 - 1),
    (pa.date32(), -(2**31), 2**31 - 1),
    *((kind, 1 - 10**kind.precision, 10**kind.precision - 1) for kind in DECIMALS),
]


@st.composite
def columns_of_units(draw: st.DrawFn) -> pa.Array:
    kind, least, most = draw(st.sampled_from(KINDS))
    numbers = draw(st.lists(st.none() | st.integers(least, most), min_size=1, max_size=4))
    if not pa.types.is_decimal(kind):
        return pa.array(numbers, kind)
    context = decimal.Context(prec=80)
    return pa.array(
        [None if one is None else decimal.Decimal(one).scaleb(-kind.scale, context) for one in numbers], kind
    )


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns_of_units(), st.booleans())
@example(pa.array([2**62, -(2**62)], MICROS), False)
def test_units_and_widths_are_copied_in_every_way(tmp_path_factory: Any, column: pa.Array, few: bool) -> None:
    folder = tmp_path_factory.mktemp("units")
    source = put(folder / "in", pa.table({"c": column, "n": range(len(column))}))
    read = pq.read_table(folder / "in" / "0.parquet")
    assert copied(source, folder / "out", **({"fields": ["c", "n"]} if few else {})).equals(read)
    assert copied(source, folder / "cut", Rebatch(rows=2)).equals(read)
    assert parquet_table(Directory(source, {}), "0.parquet").equals(read)


def test_a_footer_that_does_not_sum_its_rows_is_read(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3, 4, 5]})
    folder = put(tmp_path / "in", table)
    path = tmp_path / "in" / "0.parquet"
    data = path.read_bytes()
    sums = b"\x16\x0a\x19"  # the third field of the footer, a number: 5, and the list of row groups
    assert data.count(sums) == 1
    path.write_bytes(data.replace(sums, b"\x16\x00\x19"))
    assert pq.ParquetFile(path).metadata.num_rows == 0
    assert copied(folder, tmp_path / "out").to_pydict() == table.to_pydict()
    path.write_bytes(data.replace(sums, b"\x16\x08\x19"))
    with pytest.raises(DataError, match="its row groups have 5 rows, and it says that it has 4"):
        copied(folder, tmp_path / "cut")


class Keys(encryption.KmsClient):
    """Wraps keys in nothing."""

    def __init__(self, _: Any) -> None:
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return base64.b64encode(key_bytes).decode()


@pytest.mark.parametrize("plain", [True, False])
def test_an_encrypted_file_is_called_encrypted(plain: bool, tmp_path: Path) -> None:
    settings = encryption.EncryptionConfiguration("key", column_keys={"key": ["n"]}, plaintext_footer=plain)
    factory = encryption.CryptoFactory(Keys)
    how = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    folder = put(tmp_path / "in", pa.table({"n": [1], "m": [2]}), encryption_properties=how)
    with pytest.raises(DataError, match=r"0.parquet is encrypted \(.*\); decrypt it first, or leave it out"):
        copied(folder, tmp_path / "out")
