"""Types by name: what Arrow prints of a type names it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from dcurate import InlineExecutor, JsonlReader, Pipeline, PipelineError
from dcurate.frames.schema import declared

ZONES = (None, "UTC", "Europe/Berlin", "+02:00")
TYPES = [
    *(pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.int8(), pa.uint64(), pa.float64(), pa.date32()),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES),
    *(pa.decimal32(5, 2), pa.decimal64(18, 3), pa.decimal128(38, 0), pa.decimal256(76, -2), pa.time64("us")),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_type_is_named_by_what_arrow_prints(kind: pa.DataType) -> None:
    for wanted in (kind, pa.list_(kind), pa.large_list(pa.list_(kind))):
        assert declared({"a": str(wanted)}, "schema") == {"a": wanted}
    assert declared({"a": f"list<{kind}>", "b": f"list<element: {kind}>"}, "schema") == {
        "a": pa.list_(kind),
        "b": pa.list_(kind),
    }


@pytest.mark.parametrize(
    "name", ["", "list<>", "list<strng>", "decimal128(99, 1)", "timestamp[d, tz=UTC]", "decimal(x)"]
)
def test_a_name_of_no_type_is_refused(name: str) -> None:
    with pytest.raises(PipelineError, match="schema: unknown type"):
        declared({"a": name}, "schema")


def test_a_reader_takes_such_names(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"at": "2024-05-06T07:08:09Z", "tags": ["a"]}) + "\n")
    schema = {"at": "timestamp[us, tz=UTC]", "tags": "list<string>"}
    read = Pipeline("read", stages=[JsonlReader(str(path), schema=schema)]).run(InlineExecutor(), observers=[])
    assert {column.name: str(column.type) for column in read.to_arrow().schema} == {
        "at": "timestamp[us, tz=UTC]",
        "tags": "list<item: string>",
    }
