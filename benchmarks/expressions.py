"""What columns and conditions by SQL cost, beside bare DuckDB, pandas and the stages that take functions.

``python -m benchmarks.expressions [--rows 200000] [--repeat 4] [--json FILE]``. All rows are in memory; each task runs
once in each way in turn, and the rows that come out are compared.
"""

from __future__ import annotations

import argparse
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.measure import MB, called, machine, save, table, versions
from dcurate import DocumentBatch, Filter, InlineExecutor, Pipeline, Score
from dcurate.datasets import AddColumns, FilterByExpression

Way = Callable[[], pa.Table]

COLUMNS = {"n_words": "len(string_split(text, ' '))", "day": "CAST(stamp[1:10] AS DATE)"}
CONDITION = "score >= 0.5 AND language IN ('en', 'de')"
#: Rows of a batch, as a reader makes them.
_BATCH = 20_000


def made_rows(count: int) -> pa.Table:
    """Rows of about 300 bytes, the same in each run."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(5_000)]
    return pa.table(
        {
            "text": [" ".join(chance.choices(words, k=chance.randint(10, 70))) for _ in range(count)],
            "stamp": [f"2026-{1 + row % 12:02}-{1 + row % 28:02}T08:30:00Z" for row in range(count)],
            "language": chance.choices(["en", "de", "fr", "nl"], k=count),
            "score": [chance.random() for _ in range(count)],
        }
    )


def tasks(rows: pa.Table) -> dict[str, dict[str, Way]]:
    """The ways of each task."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("rows", rows)
    batches = [
        DocumentBatch(data=rows.slice(start, _BATCH), dataset_name=f"rows-{start}")
        for start in range(0, rows.num_rows, _BATCH)
    ]
    selected = ", ".join(f"{expression} AS {name}" for name, expression in COLUMNS.items())

    def by_duckdb(query: str) -> Way:
        return lambda: connection.sql(query).to_arrow_table()

    def by_stages(*stages: Any) -> Way:
        return lambda: Pipeline("rows", stages=stages).run(InlineExecutor(), batches, observers=[]).to_arrow()

    def columns_by_pandas() -> pa.Table:
        frame = rows.to_pandas()
        days = frame["stamp"].str.slice(0, 10).astype("datetime64[s]").dt.date
        return pa.Table.from_pandas(frame.assign(n_words=frame["text"].str.split(" ").str.len(), day=days))

    def rows_by_pandas() -> pa.Table:
        frame = rows.to_pandas()
        return pa.Table.from_pandas(
            frame[(frame["score"] >= 0.5) & frame["language"].isin(["en", "de"])], preserve_index=False
        )

    return {
        "two columns": {
            "AddColumns": by_stages(AddColumns(COLUMNS)),
            "DuckDB": by_duckdb(f"SELECT *, {selected} FROM rows"),
            "pandas": columns_by_pandas,
            "Score with functions": by_stages(
                Score(lambda text: len(text.split(" ")), "n_words"),
                Score(lambda stamp: stamp[:10], "day", text_field="stamp"),
            ),
        },
        "a condition": {
            "FilterByExpression": by_stages(FilterByExpression(CONDITION)),
            "DuckDB": by_duckdb(f"SELECT * FROM rows WHERE {CONDITION}"),
            "pandas": rows_by_pandas,
            "Filter with functions": by_stages(
                Filter(lambda score: score >= 0.5, "score"),
                Filter(lambda language: language in ("en", "de"), "language"),
            ),
        },
    }


def cpu_seconds() -> float:
    """CPU-seconds of this process so far, with those of the children that ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured(ways: dict[str, Way], repeat: int) -> dict[str, float]:
    """The least CPU-seconds of each way, after one run each that warms up and whose rows are compared.

    Raises:
        SystemExit: two ways give other rows.
    """
    outcomes = {name: way() for name, way in ways.items()}
    first = next(iter(outcomes.values()))
    for name, made in outcomes.items():
        if _plain(made) != _plain(first):
            raise SystemExit(f"{name} gives other rows than {next(iter(outcomes))}")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, way in ways.items():
            start = cpu_seconds()
            way()
            seconds[name].append(cpu_seconds() - start)
    return {name: min(values) for name, values in seconds.items()}


def _plain(rows: pa.Table) -> dict[str, list[Any]]:
    return {name: [str(value) for value in rows[name].to_pylist()] for name in sorted(rows.column_names)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = made_rows(given.rows)
    figures = {task: measured(ways, given.repeat) for task, ways in tasks(rows).items()}
    starts = {task: measured(ways, given.repeat) for task, ways in tasks(rows.slice(0, 1)).items()}
    print(
        f"{rows.num_rows:,} rows of {rows.nbytes / MB:.1f} MB in memory, in batches of {_BATCH:,}; "
        f"the best of {given.repeat} runs in turn; DuckDB with one thread\n"
    )
    lines = []
    for task, seconds in figures.items():
        bare = seconds["DuckDB"]
        for way, value in seconds.items():
            start = starts[task][way]
            lines.append((f"{task}: {way}", value, start, rows.nbytes / MB / (value - start), value / bare))
    print(
        table(
            ["task and way", "CPU-seconds", "of these for one row", "MB a CPU-second beyond", "times bare DuckDB"],
            lines,
        )
    )
    outcome = {
        "rows": rows.num_rows,
        "bytes": rows.nbytes,
        "repeat": given.repeat,
        "cpu_s": figures,
        "start_cpu_s": starts,
    }
    save(given.json, {"machine": machine(), "versions": versions("duckdb", "pandas", "pyarrow"), **outcome})


if __name__ == "__main__":
    called(main)
