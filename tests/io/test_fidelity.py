"""Rows leave as they came, byte for byte, except for what a stage changes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import (
    DocumentBatch,
    DocumentReader,
    DocumentWriter,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Modify,
    ParquetWriter,
    Pipeline,
    ProcessingStage,
    Score,
    ScoreFilter,
    processing_stage,
)
from dcurate.core.stage import Stage
from dcurate.datasets import Rebatch, Shuffle
from dcurate.fs.stores import Directory
from dcurate.io.rows import rows_with
from dcurate.text import AddId, DocumentSplitter, WordCountFilter
from tests.places import is_data

#: Arrow loses the values of keys with NUL within objects on their way back from pandas; see docs/rows.md.
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3)
KEYS = st.sampled_from(["id", "m", "ключ", 'a"b', "a\\b", ""]) | NAMES
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
ROWS = st.dictionaries(KEYS, VALUES, max_size=4)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A JSON object as anyone might write it, with a newline."""
    row = draw(ROWS) | ({"text": draw(st.text('a é\n"', max_size=20))} if draw(st.booleans()) else {})
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :  ")]))
    content = json.dumps(row, ensure_ascii=draw(st.booleans()), separators=(comma, colon))
    if draw(st.booleans()):
        content = content.replace("/", "\\/").replace("{", "{ ", 1)
    if draw(st.booleans()) and row:
        again = json.dumps(next(iter(row)))
        content = content[:-1] + f',{again}:"x"}}'  # a repeated key
    return content.encode() + draw(st.sampled_from([b"\n", b"\r\n", b" \n"]))


FILES = st.lists(lines(), max_size=8).map(lambda rest: [b'{"text": "a b"}\n', *rest])


def written(folder: str | Path) -> list[bytes]:
    """The lines of all files in a folder, in the order of their names."""
    files = sorted(path for path in Path(folder).rglob("*.jsonl") if is_data(path))
    return [line for path in files for line in path.read_bytes().splitlines(keepends=True)]


def curated(content: Sequence[bytes], *stages: ProcessingStage[Any, Any], rejected: bool = False) -> list[bytes]:
    """What a pipeline of these stages writes, or rejects."""
    folder = tempfile.mkdtemp()
    try:
        Path(folder, "in.jsonl").write_bytes(b"".join(content))
        pipeline = Pipeline(
            "faithful", stages=[JsonlReader(f"{folder}/in.jsonl"), *stages, JsonlWriter(f"{folder}/out")]
        )
        pipeline.run(InlineExecutor(), rejected=f"{folder}/rejected", observers=[])
        return written(f"{folder}/rejected" if rejected else f"{folder}/out")
    finally:
        shutil.rmtree(folder)


def opened(line: bytes) -> bytes:
    """A line without its last brace and what is around that."""
    return line.rstrip()[:-1].rstrip()


def is_part(part: Sequence[bytes], whole: Sequence[bytes]) -> bool:
    """Whether lines are some of these, in their order."""
    rest = iter(whole)
    return all(line in rest for line in part)


@processing_stage(name="pandas_filter")
def pandas_filter(batch: DocumentBatch) -> DocumentBatch:
    frame = batch.to_pandas()
    assert not [name for name in frame.columns if name.startswith("_dcurate")]
    return batch.with_data(frame[frame.index % 2 == 0])


@processing_stage(name="arrow_filter")
def arrow_filter(batch: DocumentBatch) -> DocumentBatch:
    table = batch.to_arrow()
    assert not [name for name in table.column_names if name.startswith("_dcurate")]
    return batch.with_data(table.filter(pa.array([row % 2 == 0 for row in range(table.num_rows)])))


def test_rows_that_differ_in_lists_alone_keep_their_own_lines() -> None:
    content = [b'{"text": "a b"}\n', b"{}\n", b'{"text":""}\n', b'{"id":[]}\n', b"{}\n"]
    assert curated(content, arrow_filter) == content[::2]


def without(name: str) -> ProcessingStage[Any, Any]:
    @processing_stage(name="without")
    def drop(batch: DocumentBatch) -> DocumentBatch:
        return batch.with_data(batch.to_pandas().drop(columns=[name]))

    return drop


@given(FILES)
@example([b'{"text": "a", "n": 123456789012345678901234567890}\n', b'{"n": "x", "text": "a"}\n'])
@example([b'{"m":{"a":1},"text":""}\n', b'{"text":null, "m":{"b":2}}\r\n', b"{}\n"])
def test_filters_give_a_part_of_the_lines_of_their_input(content: list[bytes]) -> None:
    filters = [ScoreFilter(WordCountFilter(min_words=2))]
    kept, dropped = curated(content, *filters), curated(content, *filters, rejected=True)
    assert is_part(kept, content)
    assert len(kept) + len(dropped) == len(content)
    starts = [line[: line.index(b'"_dcurate_stage"')].rstrip(b",") for line in dropped]
    assert is_part(starts, list(map(opened, content)))


@given(FILES)
def test_reading_and_writing_alone_copies_the_lines(content: list[bytes]) -> None:
    assert curated(content) == content


@given(FILES)
@example([b'{"text": "a b"}\n', b'{"id":{"id":9223372036854775808}}\n'])
def test_a_column_that_is_added_and_dropped_again_leaves_no_trace(content: list[bytes]) -> None:
    assert curated(content, AddId("an id"), without("an id")) == content


@given(FILES)
def test_a_column_that_is_added_is_appended(content: list[bytes]) -> None:
    for before, after in zip(content, curated(content, AddId("an id")), strict=True):
        row = json.loads(after)
        assert row.pop("an id")
        assert row == json.loads(before)
        assert after.startswith(opened(before))


@given(FILES, st.sampled_from([pandas_filter, arrow_filter]))
def test_stages_of_a_user_do_not_see_lines_and_keep_them(content: list[bytes], stage: Any) -> None:
    assert is_part(curated(content, stage), content)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_a_changed_text_is_replaced_where_it_is_with_the_shortest_escapes(texts: list[str]) -> None:
    content = [
        json.dumps({"a": [1, {"b": None}], "text": text, "z": 10**25}, separators=(" , ", " : ")).encode() + b"\n"
        for text in texts
    ]
    for text, before, after in zip(texts, content, curated(content, Modify(str.upper)), strict=True):
        changed = json.dumps(text.upper(), ensure_ascii=False).replace("\x7f", "\x7f").encode()
        old = json.dumps(text).encode()
        assert after == (before if text.upper() == text else before.replace(b'"text" : ' + old, b'"text" : ' + changed))


@pytest.mark.parametrize("size", [1, 3, 10**6])
def test_rows_keep_their_lines_through_rounds(tmp_path: Path, size: int) -> None:
    content = [
        json.dumps({"id": number, "mixed": number if number % 3 else str(number), "text": f"word {number} " * 9})
        for number in range(30)
    ]
    (tmp_path / "in.jsonl").write_text("\n".join([*content, *content[:5]]))
    reader, expected = DocumentReader(str(tmp_path / "in.jsonl")), sorted(f"{line}\n".encode() for line in content)
    rounds = [Rebatch(rows=size), ExactDuplicates(), FuzzyDuplicates(), Shuffle(seed=1)]
    writer = DocumentWriter(str(tmp_path / "out"))
    Pipeline("rounds", stages=[reader, *rounds, writer]).run(InlineExecutor(), observers=[])
    assert sorted(written(tmp_path / "out")) == expected


def test_rows_with_numbers_too_large_for_a_float_keep_their_lines_and_are_found(tmp_path: Path) -> None:
    huge = b"9" * 5000
    content = [
        b'{"id":"%d","n":%s,"text":"a b"}\n' % (row, n) for row, n in enumerate([b"1e400", b"-1e400", huge, b"1"])
    ]
    (tmp_path / "in.jsonl").write_bytes(b"".join(content))
    keep = ScoreFilter(WordCountFilter(min_words=2))
    stages: list[Any] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        keep,
        Shuffle(seed=1),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("huge", stages=stages).run(InlineExecutor(), observers=[])
    assert sorted(written(tmp_path / "out")) == content
    directory = Directory(str(tmp_path))
    assert [row.values["n"] for row in rows_with(directory, "in.jsonl", "id", {"0", "2"})] == ["1e400", huge.decode()]


def test_separated_and_limited_files_hold_lines(tmp_path: Path) -> None:
    content = [f'{{"lang" : "{"de" if row % 2 else "en"}","n":{row}.0}}\n'.encode() for row in range(9)]
    (tmp_path / "in.jsonl").write_bytes(b"".join(content))
    writer = JsonlWriter(str(tmp_path / "out"), separate_by="lang", max_bytes_per_file=60, compression=None)
    Pipeline("separate", stages=[JsonlReader(str(tmp_path / "in.jsonl")), writer]).run(InlineExecutor(), observers=[])
    assert sorted(written(tmp_path / "out" / "de")) == content[1::2]
    assert sorted(written(tmp_path / "out" / "en")) == content[::2]


def test_a_column_of_mixed_types_is_text_for_a_stage_that_asks_for_it(tmp_path: Path) -> None:
    content = b'{"content": "hi", "n": 1}\n{"content": [{"type": "text"}]}\n{"content": 12345678901234567890123}\n'
    (tmp_path / "in.jsonl").write_bytes(content)
    scored = Score(len, score_field="long", text_field="content")
    stages: list[Any] = [JsonlReader(str(tmp_path / "in.jsonl")), scored, JsonlWriter(str(tmp_path / "out"))]
    notices = Pipeline("mixed", stages=stages).run(InlineExecutor(), observers=[]).report.notices
    assert [notice.partition(" values")[0] for notice in notices] == ["column 'content' holds"]
    lengths = [2, len('[{"type":"text"}]'), 23]
    assert written(tmp_path / "out") == [
        b'%s,"long":%d}\n' % (opened(line), length)
        for line, length in zip(content.splitlines(keepends=True), lengths, strict=True)
    ]
    unread: list[Any] = [JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "copy"))]
    assert not Pipeline("copied", stages=unread).run(InlineExecutor(), observers=[]).report.notices
    stages = [JsonlReader(str(tmp_path / "in.jsonl")), ParquetWriter(str(tmp_path / "parquet"))]
    Pipeline("columns", stages=stages).run(InlineExecutor(), observers=[])
    table = pq.read_table(next((tmp_path / "parquet").glob("*.parquet")))
    assert table["content"].to_pylist() == ["hi", '[{"type":"text"}]', "12345678901234567890123"]


@processing_stage(name="shout_some")
def shout_some(batch: DocumentBatch) -> DocumentBatch:
    """Changes a column under its old field, and only in some batches."""
    table = batch.to_arrow()
    place = table.column_names.index("text")
    if table["text"][0].as_py().endswith("0"):
        return batch
    return batch.with_data(table.set_column(place, table.schema.field(place), pc.utf8_upper(table["text"])))


@pytest.mark.parametrize("rounds", [[], [Rebatch(rows=7)], [Shuffle(seed=2)], [ExactDuplicates()]])
def test_changes_are_written_also_of_columns_that_look_unchanged(tmp_path: Path, rounds: list[Any]) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"id": {number}, "text": "a{number}"}}\n')
    stages: list[Stage] = [JsonlReader(f"{tmp_path}/*.jsonl"), shout_some, *rounds, JsonlWriter(str(tmp_path / "out"))]
    Pipeline("some", stages=stages).run(InlineExecutor(), observers=[])
    expected = [f'{{"id": {number}, "text": "{"A" if number else "a"}{number}"}}\n'.encode() for number in range(4)]
    assert sorted(written(tmp_path / "out")) == expected


def test_segments_have_the_other_keys_of_their_line(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"n": 1.0, "text": "a|b"}\n')
    stages: list[Stage] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        DocumentSplitter("|"),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("split", stages=stages).run(InlineExecutor(), observers=[])
    assert written(tmp_path / "out") == [
        b'{"n": 1.0, "text": "a","segment_id":0}\n',
        b'{"n": 1.0, "text": "b","segment_id":1}\n',
    ]


@pytest.mark.parametrize("stages", [[], [AddId("an id"), without("an id")], [pandas_filter], [arrow_filter]])
def test_rows_without_columns_are_rows(stages: list[Any]) -> None:
    assert curated([b"{}\n"], *stages) == [b"{}\n"]


@processing_stage(name="drop_some")
def drop_some(batch: DocumentBatch) -> DocumentBatch:
    """Drops a column in some batches."""
    table = batch.to_arrow()
    return batch if table["id"][0].as_py() == 0 else batch.with_data(table.drop_columns(["text"]))


def test_a_value_that_is_dropped_in_some_batches_does_not_come_back(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"id": {number}, "text": "a{number}"}}\n')
    stages: list[Stage] = [
        JsonlReader(f"{tmp_path}/*.jsonl"),
        drop_some,
        Rebatch(rows=7),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("some", stages=stages).run(InlineExecutor(), observers=[])
    assert [json.loads(line).get("text") for line in written(tmp_path / "out")] == ["a0", None]
