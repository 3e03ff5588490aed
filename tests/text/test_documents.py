from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import BatchKey, DataError, DocumentBatch, InlineExecutor, JsonlReader, Pipeline, PipelineError
from dcurate.core.pipeline import AnyStage
from dcurate.text import AddId, DocumentJoiner, DocumentSplitter

Row = dict[str, Any]


def batch(rows: list[Row] | pa.Table) -> DocumentBatch:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    return DocumentBatch(key=BatchKey("s"), data=table)


def rows(result: DocumentBatch) -> list[Row]:
    found: list[Row] = result.to_arrow().to_pylist()
    return found


def documents(texts: list[str | None]) -> pa.Table:
    ids = [f"d{number}" for number in range(len(texts))]
    return pa.table({"id": ids, "text": pa.array(texts, pa.string()), "n": list(range(len(texts)))})


any_texts = st.lists(st.none() | st.text() | st.text(alphabet="ab\n|", max_size=12), max_size=8)
separators = st.sampled_from(["\n\n", "\n", "|", "a", "||", ".*", "\\", "ß€"]) | st.text(min_size=1, max_size=3)


@settings(deadline=None)
@given(any_texts, separators)
def test_a_split_text_is_what_python_splits_it_into(texts: list[str | None], separator: str) -> None:
    expected = [
        {"id": f"d{number}", "text": part, "n": number, "segment_id": place}
        for number, text in enumerate(texts)
        for place, part in enumerate([None] if text is None else text.split(separator))
    ]
    assert rows(DocumentSplitter(separator).process(batch(documents(texts)))) == expected


@settings(deadline=None)
@given(any_texts, separators, st.randoms())
def test_what_was_split_is_joined_to_what_it_was(texts: list[str | None], separator: str, draw: Any) -> None:
    before = documents(texts)
    split = DocumentSplitter(separator).process(batch(before)).to_arrow()
    assert DocumentJoiner(separator).process(batch(split)).to_arrow().equals(before)
    order = list(range(split.num_rows))
    draw.shuffle(order)
    mixed = DocumentJoiner(separator).process(batch(split.take(pa.array(order, pa.int64()))))
    assert sorted(rows(mixed), key=lambda row: row["n"]) == before.to_pylist()


@settings(deadline=None)
@given(any_texts, st.integers(0, 9))
def test_any_part_of_a_table_is_split_as_a_table_of_its_own(texts: list[str | None], start: int) -> None:
    table = documents(texts)
    whole, part = table.slice(start), pa.Table.from_pylist(table.to_pylist()[start:], table.schema)
    assert rows(DocumentSplitter("a").process(batch(whole))) == rows(DocumentSplitter("a").process(batch(part)))


def test_a_text_of_thousands_of_segments_is_not_copied_for_each_of_them() -> None:
    text = "\n".join(["a" * 600] * 4000)
    split = DocumentSplitter("\n").process(batch(documents([text])))
    assert (split.num_items, split.nbytes < 4 * len(text)) == (4000, True)
    assert rows(DocumentJoiner("\n").process(split))[0]["text"] == text


def oracle(segments: list[Row], separator: str, most: int) -> list[Row]:
    """The rule of joining up to a length, a segment at a time."""
    joined: list[Row] = []
    for document in dict.fromkeys(segment["id"] for segment in segments):
        here: list[Row] = []
        for segment in sorted((s for s in segments if s["id"] == document), key=lambda s: s["segment_id"]):
            if here and here[-1]["length"] + segment["length"] + len(separator) <= most:
                here[-1]["text"] += separator + segment["text"]
                here[-1]["length"] += segment["length"] + len(separator)
            else:
                here.append({**segment, "segment_id": len(here)})
        joined.extend(here)
    return joined


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.text(max_size=6)), max_size=14),
    st.integers(0, 20),
    st.sampled_from(["", " ", "--"]),
)
def test_segments_are_joined_up_to_the_length_and_not_beyond(
    given_: list[tuple[str, str]], most: int, separator: str
) -> None:
    segments = [
        {"id": document, "segment_id": place, "text": text, "length": len(text)}
        for place, (document, text) in enumerate(given_)
    ]
    schema = pa.schema([("id", pa.string()), ("segment_id", pa.int64()), ("text", pa.string()), ("length", pa.int64())])
    joiner = DocumentJoiner(separator, drop_segment_id_field=False, max_length=most, length_field="length")
    result = rows(joiner.process(batch(pa.Table.from_pylist(segments, schema))))
    assert result == oracle(segments, separator, most)
    assert all(row["length"] == len(row["text"]) for row in result)
    dropped = DocumentJoiner(separator, max_length=most, length_field="length")
    assert rows(dropped.process(batch(pa.Table.from_pylist(segments, schema)))) == [
        {name: value for name, value in row.items() if name != "segment_id"} for row in result
    ]


def test_segments_that_were_dropped_leave_no_gap() -> None:
    segments = [{"id": 1, "segment_id": 5, "text": "c"}, {"id": 1, "segment_id": 2, "text": "a"}]
    assert rows(DocumentJoiner("-").process(batch(segments))) == [{"id": 1, "text": "a-c"}]


def test_a_segment_without_an_id_is_a_document_of_its_own() -> None:
    segments = [{"id": None, "segment_id": 0, "text": "a"}, {"id": "x", "segment_id": 0, "text": "b"}] * 1
    segments += [{"id": None, "segment_id": 0, "text": "c"}, {"id": "x", "segment_id": 1, "text": "d"}]
    assert [row["text"] for row in rows(DocumentJoiner("").process(batch(segments)))] == ["a", "bd", "c"]
    nothing = [{"id": None, "segment_id": 0, "text": "a"}, {"id": None, "segment_id": 1, "text": None}]
    assert [row["text"] for row in rows(DocumentJoiner("").process(batch(nothing)))] == ["a", None]


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ([{"id": 1, "segment_id": 0, "text": "a"}] * 2, "document 1 has two segments 0; give each document its own id"),
        ([{"id": 1, "segment_id": None, "text": "a"}], "column 'segment_id' must hold a number in every row"),
        ([{"id": 1, "segment_id": "0", "text": "a"}], "column 'segment_id' must hold a number in every row"),
        ([{"id": 1, "segment_id": 0, "text": 3}], "column 'text' holds int64, not text"),
    ],
)
def test_segments_that_cannot_be_joined_are_refused(segments: list[Row], said: str) -> None:
    with pytest.raises(DataError) as refusal:
        DocumentJoiner().process(batch(segments))
    assert str(refusal.value).startswith(said)


def test_a_missing_length_is_refused() -> None:
    joiner = DocumentJoiner(max_length=5, length_field="n")
    table = pa.table({"id": [1], "segment_id": [0], "text": ["a"], "n": pa.array([None], pa.int64())})
    with pytest.raises(DataError, match="column 'n' must hold a length in every row"):
        joiner.process(batch(table))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: DocumentSplitter(""), "separator='' must be a non-empty text"),
        (lambda: DocumentSplitter("|", segment_id_field="text"), "are both 'text'"),
        (lambda: DocumentJoiner(max_length=3), "max_length is given without length_field"),
        (lambda: DocumentJoiner(length_field="n"), "length_field is given without max_length"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make: Any, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        make()


def test_splitting_and_joining_in_a_pipeline_gives_back_every_document(tmp_path: Path) -> None:
    texts = ["one\n\ntwo", "", "\n\n", "three", "a\n\n\n\nb"]
    for number in range(2):
        lines = [json.dumps({"text": f"{text}{number}"}) + "\n" for text in texts]
        (tmp_path / f"{number}.jsonl").write_text("".join(lines))
    stages: list[AnyStage] = [JsonlReader(str(tmp_path)), AddId("id"), DocumentSplitter("\n\n"), DocumentJoiner()]
    result = Pipeline("test", stages=stages).run(InlineExecutor())
    found = [row["text"] for each in result for row in rows(each)]  # type: ignore[arg-type]
    assert found == [f"{text}{number}" for number in range(2) for text in texts]
    assert [stats.rows_out for stats in result.report.stages] == [10, 10, 18, 10]
