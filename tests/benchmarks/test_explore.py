"""The benchmark of ``dcurate explore`` runs on tiny input and gives a time for each request."""

from __future__ import annotations

from pathlib import Path

import orjson

from benchmarks.explore import REQUESTS, measured


def test_explore_gives_the_seconds_of_each_request(tmp_path: Path) -> None:
    rows = [{"text": "\n".join(["too short to be kept, but a paragraph", "many words in a row " * 9])}] * 3
    (tmp_path / "input.jsonl").write_bytes(
        b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    )
    figures = measured([tmp_path / "input.jsonl"], 50, 1, tmp_path)
    assert figures["documents"] == 50
    assert set(figures["requests"]) == set(REQUESTS)
    assert all(0 < one["median_s"] <= one["longest_s"] for one in figures["requests"].values())
