"""Counts of documents by their columns: every row is counted once, of any types and values."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.fs.stores import Directory
from dcurate.io.corpus_columns import ROLES
from dcurate.io.corpus_counts import CorpusCounter, CorpusCounts
from dcurate.io.group_counts import GroupCounts
from dcurate.io.hosts import Domains
from dcurate.media.names import KINDS

NAMES = sorted({name for names in ROLES.values() for name in names} | {"rights_x", "opted_out"})
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["http://a.org", "x.png"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["language", "a"]), inner, max_size=2),
    max_leaves=4,
)
DOMAINS = Domains()
#: A column of each type that Arrow and Parquet know.
COLUMNS: list[pa.Array] = [
    pa.array(values, kind)
    for values, kind in [
        (["http://a.org", None], pa.string()),
        (["x", None], pa.large_string()),
        (["x", None], pa.string_view()),
        ([b"x", None], pa.binary()),
        ([b"ab", None], pa.binary(2)),
        ([True, None], pa.bool_()),
        ([1, -1], pa.int8()),
        ([2**64 - 1, None], pa.uint64()),
        ([1.5, float("nan")], pa.float16()),
        ([1e300, float("inf")], pa.float64()),
        ([Decimal("1.5"), None], pa.decimal128(5, 2)),
        ([date(2024, 2, 3), None], pa.date32()),
        ([date(2024, 2, 3), None], pa.date64()),
        ([datetime(2024, 2, 3), None], pa.timestamp("us")),
        ([datetime(2024, 2, 3, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
        ([timedelta(seconds=1), None], pa.duration("ms")),
        ([["a", "b"], None], pa.list_(pa.string())),
        ([["a", "b"], None], pa.large_list(pa.string())),
        ([[1], None], pa.list_(pa.int64())),
        ([{"language": "en"}, None], pa.struct([("language", pa.string())])),
        ([{"language": 1}, None], pa.struct([("language", pa.int64())])),
        ([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        ([None, None], pa.null()),
    ]
]
COLUMNS.append(pa.array(["en", None]).dictionary_encode())
COLUMNS.append(pa.array([1, None]).dictionary_encode())


def count(folder: str, *, read_texts: bool = False, looked_at: tuple[str, ...] = ()) -> CorpusCounts:
    endings = {kind: KINDS[kind] for kind in ("image", "audio", "video")}
    with GroupCounts() as groups:
        counts = CorpusCounter(groups, DOMAINS, {}, endings, read_texts).count(Directory(folder), looked_at)
        for kind in groups.kinds():
            if kind != "host" and not kind.startswith("domain:"):
                assert groups.total(kind).rows <= counts.rows
        of_sites = sum(
            groups.total(kind).rows for kind in groups.kinds() if kind == "host" or kind.startswith("domain:")
        )
        assert of_sites == counts.url_rows
    assert counts.url_rows + counts.invalid_urls <= counts.rows
    return counts


@settings(max_examples=60)
@given(rows=st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES), max_size=8))
def test_every_line_is_counted_once_with_any_values(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert count(folder, looked_at=("text", "opted_out")).rows == len(rows)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_every_row_is_counted_once_with_any_type_of_column(column: pa.Array, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        pq.write_table(pa.table({name: column}), tmp_path / f"{number}.parquet")
    for read_texts in (False, True):
        counts = count(str(tmp_path), read_texts=read_texts, looked_at=("text", "opted_out", "language"))
        assert counts.rows == 2 * len(NAMES)
        assert counts.files == len(NAMES)
        assert min(counts.text_bytes, counts.tokens, *(media.duration_ms for media in counts.media.values())) >= 0
