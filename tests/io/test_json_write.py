"""What JSON has no form for is not lost in silence."""

import math
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest

from dcurate import DocumentBatch, DocumentWriter, InlineExecutor, JsonlWriter, ParquetWriter, Pipeline, ProcessingStage
from dcurate.frames.schema import ColumnTypes, fitted
from dcurate.io.json_parse import Wanted, parse_clean
from dcurate.io.json_write import JsonForm
from dcurate.io.jsonl_writer import infinite
from tests.growth import assert_linear, repeated

ROWS = pa.table(
    {
        "text": ["a", "b", "c"],
        "score": [math.inf, math.nan, 1.0],
        "lists": [[1.0, -math.inf], None, []],
        "structs": [{"x": math.inf, "n": 1}, None, {"x": 0.5, "n": 2}],
        "half": pa.array(np.array([np.inf, 0, 1], np.float16)),
        "kinds": pa.array([math.inf, 1.0, math.inf]).dictionary_encode(),
        "names": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)


@pytest.mark.parametrize(
    ("writer", "said"),
    [
        (JsonlWriter("out"), {"infinite numbers, written as null": 6}),
        (JsonlWriter("out", fields=["text", "score"], separate_by="text"), {"infinite numbers, written as null": 1}),
        (JsonlWriter("out", fields=["text"]), {}),
        (DocumentWriter("out"), {"infinite numbers, written as null": 6}),
        (ParquetWriter("out"), {}),
    ],
)
def test_the_report_says_how_many_numbers_were_infinite_and_are_null_now(
    writer: ProcessingStage, said: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = Pipeline("test", stages=[writer]).run(InlineExecutor(), initial_tasks=[DocumentBatch(data=ROWS)])
    assert result.report.stages[-1].found == said


def test_slices_and_columns_of_several_pieces_are_counted_once() -> None:
    whole = pa.concat_tables([ROWS, ROWS, ROWS.slice(1)])
    assert [infinite(whole), infinite(ROWS.slice(1, 2)), infinite(ROWS.slice(0, 0))] == [13, 1, 0]


def test_rows_of_many_columns_are_written_many_at_a_time():
    table = pa.table({f"k{place}": np.arange(1000) for place in range(2000)})
    pieces = list(JsonForm().lines(table))
    assert len(pieces) <= 4
    assert b"\n".join(line for piece in pieces for line in piece) == b"\n".join(map(orjson.dumps, table.to_pylist()))


def test_reading_costs_the_number_of_keys_and_not_the_square_of_it():
    def read(text: str) -> None:
        keys = len(text)
        data = orjson.dumps({f"k{place}": place for place in range(keys)}) + b"\n"
        schema = pa.schema([(f"k{place}", pa.int64()) for place in range(0, 2 * keys, 2)])
        wanted = Wanted(ColumnTypes().joined(schema, "the head"), {})
        fitted(parse_clean(data, wanted), wanted.shape.schema())

    assert_linear(read, [repeated("k")], lengths=(4_000, 16_000), bytes_each=len('"k9999":9999,'))
