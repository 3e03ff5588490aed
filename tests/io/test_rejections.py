from __future__ import annotations

import decimal
import pickle

import orjson
import pandas as pd
import pyarrow as pa

from dcurate import BatchKey, JsonlReader
from dcurate.core.batch import Rejection
from dcurate.io.rejections import DirectoryRejections

KEY = BatchKey("a/part-00.jsonl", (2,))


def rejection(reason, table, fault=False):
    return Rejection("words", reason, len(table), 1, table, fault)


def rows(path):
    return [orjson.loads(line) for file in sorted(path.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


def test_dropped_rows_and_faults_go_to_directories_of_their_own(tmp_path):
    sink = DirectoryRejections(str(tmp_path / "dropped"), str(tmp_path / "faults"))
    few = rejection("too few", pa.table({"t": ["x", "y"]}))
    odd = rejection("too odd", pd.DataFrame({"u": [1]}))
    bad = rejection("broken", pa.table({"t": ["z"]}), fault=True)
    sink.keep(KEY, "words", [few, odd, bad])
    marks = {"_dcurate_stage": "words", "_dcurate_source": "a/part-00.jsonl"}
    assert rows(tmp_path / "dropped") == [
        {"t": "x", **marks, "_dcurate_reason": "too few"},
        {"t": "y", **marks, "_dcurate_reason": "too few"},
        {"u": 1, **marks, "_dcurate_reason": "too odd"},
    ]
    assert rows(tmp_path / "faults") == [{"t": "z", **marks, "_dcurate_reason": "broken"}]


def test_the_name_follows_from_key_and_operator_so_that_twice_is_once(tmp_path):
    sink = pickle.loads(pickle.dumps(DirectoryRejections(str(tmp_path))))
    for operator in ("words", "words", "read > words"):
        sink.keep(KEY, operator, [rejection("few", pa.table({"t": ["x"]}))])
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert len(names) == 2
    assert f"{KEY.digest}-words.jsonl" in names


def test_nothing_is_written_where_there_is_nothing_to_keep(tmp_path):
    sink = DirectoryRejections(None, str(tmp_path / "faults"))
    sink.keep(KEY, "words", [rejection("few", pa.table({"t": ["x"]})), Rejection("words", "lost", 3, 0, None, True)])
    assert list(tmp_path.iterdir()) == []


def test_values_that_json_has_no_form_for_are_kept_as_text(tmp_path):
    table = pa.table({"b": [b"\xffx"], "d": [decimal.Decimal("1.5")], "l": [[b"a"]]})
    DirectoryRejections(str(tmp_path)).keep(KEY, "words", [rejection("few", table)])
    assert {key: value for key, value in rows(tmp_path)[0].items() if key in "bdl"} == {
        "b": "\\xffx",
        "d": "1.5",
        "l": ["a"],
    }


def test_rejected_rows_can_be_read_again(tmp_path):
    DirectoryRejections(str(tmp_path)).keep(KEY, "words", [rejection("few", pa.table({"t": ["x"]}))])
    reader = JsonlReader(str(tmp_path))
    assert reader.process(next(reader.splits())).data["t"].to_pylist() == ["x"]
