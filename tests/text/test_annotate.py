from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, ParquetReader, ParquetWriter, Pipeline, PipelineError, ScoreFilter
from dcurate.text import (
    Annotate,
    DocumentFilter,
    MeanWordLengthFilter,
    NumbersFilter,
    WhiteSpaceFilter,
    WordCountFilter,
    refilter,
)
from dcurate.text.presets import gopher
from tests.text.strategies import texts


class Vowels(DocumentFilter):
    """A rule in Python, as a user writes one."""

    def __init__(self, least: float = 0.2) -> None:
        self.least = least

    def score_document(self, text: str) -> float:
        return sum(character in "aeiou" for character in text) / max(len(text), 1)

    def keep_document(self, score: float) -> bool:
        return score >= self.least


def rules(min_words: int, max_numbers: float, max_blanks: float, least: float) -> list[DocumentFilter]:
    return [WordCountFilter(min_words), NumbersFilter(max_numbers), WhiteSpaceFilter(max_blanks), Vowels(least)]


def batch_of(documents: Sequence[str | None]) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"id": range(len(documents)), "text": pa.array(documents, pa.string())}))


def outcome(batch: DocumentBatch) -> tuple[list[int], list[tuple[str, list[int]]]]:
    """The rows that are left, and for each reason the rows that went."""
    left = batch.to_arrow()["id"].to_pylist()
    return left, [(one.reason, one.data["id"].to_pylist()) for one in batch.rejections]


thresholds = st.tuples(st.integers(0, 12), *(st.floats(0, 0.6) for _ in range(3)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | texts, max_size=8), thresholds, thresholds)
def test_annotating_once_and_filtering_by_other_thresholds_is_filtering_with_them(documents, first, second):
    annotated = Annotate(rules(*first)).process(batch_of(documents))
    assert (annotated.num_items, annotated.rejections) == (len(documents), ())
    without_text = annotated.with_data(annotated.to_arrow().drop_columns("text"))
    again = refilter(rules(*second)).process(without_text)
    assert outcome(again) == outcome(ScoreFilter(rules(*second)).process(batch_of(documents)))


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, max_size=5))
def test_the_first_rule_that_failed_is_the_reason_for_which_a_document_is_dropped(documents):
    preset = list(gopher("dolma_v2"))
    failed = Annotate(preset).process(batch_of(documents)).to_arrow()["failed"].to_pylist()
    filtered = ScoreFilter(preset).process(batch_of(documents))  # type: ignore[arg-type]
    reasons = {row: one.reason for one in filtered.rejections for row in one.data["id"].to_pylist()}
    assert [names[0] if names else None for names in failed] == [reasons.get(row) for row in range(len(documents))]


def test_the_rules_are_written_down_with_their_thresholds():
    found = Annotate(rules(7, 0.1, 0.2, 0.3)).process(batch_of(["a", "b"])).to_arrow()
    written = {json.dumps(json.loads(text), sort_keys=True) for text in found["rules"].to_pylist()}
    (only,) = map(json.loads, written)
    assert only["word_count"]["WordCountFilter"]["min_words"] == 7
    assert only["numbers_ratio"] == {"NumbersFilter": {"max_number_to_text_ratio": 0.1}}
    assert only["vowels"] == {"Vowels": {"least": 0.3}}


def test_two_rules_of_one_name_are_refused_in_a_sentence():
    with pytest.raises(PipelineError, match="would be called 'word_count'; annotate in two stages with different"):
        Annotate([WordCountFilter(1), WordCountFilter(2)])


def test_prefixes_keep_two_rule_sets_apart():
    stages = [Annotate([WordCountFilter(least)], prefix=f"{least}_") for least in (1, 2)]
    batch = batch_of(["one", "one two"])
    for stage in stages:
        batch = stage.process(batch)
    assert batch.to_arrow()["1_failed"].to_pylist() == [[], []]
    assert batch.to_arrow()["2_failed"].to_pylist() == [["word_count"], []]
    assert refilter([WordCountFilter(2)], prefix="2_").process(batch).to_arrow()["id"].to_pylist() == [1]


def test_the_second_pass_over_parquet_reads_no_text(tmp_path: Path):
    """The text column of the annotated files is made unreadable, and the second pass does not notice."""
    documents = ["some words of a text", "few", "12345 67890 and some words", "more of the words of a longer text"]
    source, annotated = tmp_path / "in", tmp_path / "annotated"
    source.mkdir()
    pq.write_table(batch_of(documents).to_arrow(), source / "a.parquet")
    given_rules = [WordCountFilter(min_words=2), NumbersFilter(0.9), MeanWordLengthFilter(0, 99)]
    Pipeline("annotate").add_stage(ParquetReader(str(source))).add_stage(Annotate(given_rules)).add_stage(
        ParquetWriter(str(annotated), write_kwargs={"use_dictionary": False, "compression": "NONE"})
    ).run(InlineExecutor())
    (file,) = annotated.rglob("*.parquet")
    damage(file, "text")
    with pytest.raises(Exception, match=r"."):
        pq.read_table(file, columns=["text"])

    stricter = [WordCountFilter(min_words=5), NumbersFilter(0.2), MeanWordLengthFilter(0, 99)]
    fields = ["id", *(rule.name for rule in stricter)]
    second = Pipeline("again").add_stage(ParquetReader(str(annotated), fields=fields)).add_stage(refilter(stricter))
    left = [row for batch in second.run(InlineExecutor()) for row in batch.to_arrow()["id"].to_pylist()]  # type: ignore[attr-defined]
    assert sorted(left) == outcome(ScoreFilter(stricter).process(batch_of(documents)))[0] == [0, 3]  # type: ignore[arg-type]


def damage(file: Path, column: str) -> None:
    """Overwrite the bytes in which a Parquet file keeps a column."""
    groups = pq.ParquetFile(file).metadata
    content = bytearray(file.read_bytes())
    for group in range(groups.num_row_groups):
        for place in range(groups.num_columns):
            chunk = groups.row_group(group).column(place)
            if chunk.path_in_schema == column:
                start = chunk.data_page_offset
                content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(content)
