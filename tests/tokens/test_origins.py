"""Spans name the row of the file that a document was read from, whatever came between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DocumentReader,
    InlineExecutor,
    JsonlReader,
    ParquetReader,
    Pipeline,
    ScoreFilter,
    TokenWriter,
    processing_stage,
)
from dcurate.datasets import Blend, Shuffle
from dcurate.rows.origins import ROW
from dcurate.text import WordCountFilter
from tests.tokens.conftest import texts
from tests.tokens.test_rewrite import spans
from tests.tokens.test_writer import rows_of, write

DOCUMENTS = [{**row, "text": row["text"] or "x"} for row in rows_of(texts(90, seed=4, most=12))]


def written(tmp_path: Path, tokenizer: str, *stages: Any) -> list[dict[str, Any]]:
    writer = TokenWriter(str(tmp_path / "out"), tokenizer, shard_tokens=300)
    pipeline = Pipeline("tokens", stages=[*stages, ScoreFilter(WordCountFilter(min_words=4)), writer])
    pipeline.run(InlineExecutor(), observers=[], rejected=str(tmp_path / "rejected"))
    return spans(str(tmp_path / "out"))


def places(folder: Path) -> dict[str, tuple[str, int]]:
    """The file and line of each document."""
    return {
        json.loads(line)["id"]: (path.name, number)
        for path in sorted(folder.glob("*.jsonl"))
        for number, line in enumerate(path.read_text().split("\n"))
        if line.startswith("{") and line.endswith("}")
    }


@pytest.mark.parametrize("between", [[], [Shuffle(seed=3)]], ids=["plain", "shuffled"])
def test_rows_are_lines_of_the_file(between: Any, tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", DOCUMENTS)
    file = tmp_path / "in" / "01.jsonl"
    file.write_text("\n{broken\n" + file.read_text().replace('{"id": "d40"', '\n{"id": "d40"'))
    found = written(tmp_path, tokenizer, JsonlReader(source, on_bad_line="quarantine"), *between)
    assert {span["doc"]: (span["source"], span["row"]) for span in found}.items() <= places(tmp_path / "in").items()
    kept = {row["id"] for row in DOCUMENTS if len(row["text"].split()) >= 4}
    assert {span["doc"] for span in found} == kept
    assert {span["epoch"] for span in found} == {0}
    rejected = [
        json.loads(line) for path in (tmp_path / "rejected").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert {row["id"] for row in rejected} == {row["id"] for row in DOCUMENTS} - kept
    assert not any(ROW in row for row in rejected)


def test_parts_of_files_count_from_their_beginning_and_parquet_from_that_of_the_file(
    tokenizer: str, tmp_path: Path
) -> None:
    source = write(tmp_path / "in", DOCUMENTS, files=1)
    found = written(tmp_path / "a", tokenizer, JsonlReader(source, blocksize=2000))
    parts: dict[str, list[int]] = {}
    lines = places(tmp_path / "in")
    for span in found:
        parts.setdefault(span["source"], []).append(lines[span["doc"]][1] - span["row"])
    assert len(parts) > 2
    assert [name.partition("@")[0] for name in parts] == ["00.jsonl"] * len(parts)
    assert [len(set(starts)) for starts in parts.values()] == [1] * len(parts)
    (tmp_path / "tables").mkdir()
    pq.write_table(pa.Table.from_pylist(DOCUMENTS), tmp_path / "tables" / "all.parquet", row_group_size=20)
    found = written(tmp_path / "b", tokenizer, ParquetReader(str(tmp_path / "tables"), blocksize=1000))
    assert all(span["doc"] == f"d{span['row']}" for span in found)
    assert {span["source"] for span in found} == {"all.parquet"}


def test_a_blend_and_a_reader_of_mixed_files_name_them_and_stages_of_a_user_see_nothing(
    tokenizer: str, tmp_path: Path
) -> None:
    first = write(tmp_path / "a", DOCUMENTS[:40], files=1)
    second = write(tmp_path / "b" / "deep", DOCUMENTS[40:], files=1)
    blend = Blend(80, [JsonlReader(first), DocumentReader(str(Path(second).parent))], [0.5, 0.5], seed=1)
    found = written(tmp_path / "x", tokenizer, blend)
    for span in found:
        number = int(span["doc"][1:])
        wanted = ("00.jsonl", number) if number < 40 else ("deep/00.jsonl", number - 40)
        assert (span["source"], span["row"]) == wanted

    @processing_stage(name="look")
    def look(batch: Any) -> Any:
        assert list(batch.to_pandas().columns) == ["id", "text"]
        return batch

    found = written(tmp_path / "y", tokenizer, JsonlReader(first), look)
    assert found[0]["source"] == "00.jsonl"
