"""The report on a sample says what there is, what settings find of it, and which to take."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.console import Console

from dcurate import DataError, PipelineError
from dcurate.dedup import DedupReport, Shingles, dedup_report
from dcurate.dedup.report_table import dedup_report_table
from dcurate.dedup.sample import SimilaritySample
from dcurate.frames.text import column_of


def documents() -> list[str]:
    """120 pairs with a word changed of a hundred, and as many without a duplicate; two copies, one without a word."""
    draw = random.Random(3)
    made = []
    for _ in range(120):
        words = [f"w{draw.randrange(5000)}" for _ in range(100)]
        made.append(" ".join(words))
        words[50] = "changed"
        made.append(" ".join(words))
        made.append(" ".join(f"v{draw.randrange(5000)}" for _ in range(100)))
    return [*made, made[0].upper(), made[2] + "!", " ... "]


def written(folder: Path) -> str:
    path = folder / "sample.jsonl"
    path.write_text("".join(json.dumps({"text": text, "n": 1}) + "\n" for text in documents()))
    return str(path)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> DedupReport:
    return dedup_report(written(tmp_path_factory.mktemp("sample")))


def test_the_sample_is_counted(report: DedupReport) -> None:
    assert (report.sample.documents, report.sample.without_words, report.copies, report.whole) == (363, 1, 2, True)
    assert len(report.sample.truth.left) == 120
    # one word changed spoils five of 96 shingles on each side
    assert report.sample.truth.similarity == pytest.approx([91 / 101] * 120)


def test_removals_count_copies_and_groups(report: DedupReport) -> None:
    at = {(one.threshold, one.clustering): one for one in report.removals}
    assert set(at) == {(threshold, how) for threshold in (0.7, 0.8, 0.9) for how in ("connected", "star")}
    assert (at[0.8, "star"].removed, at[0.8, "star"].groups) == (122, 121)
    assert sorted(at[0.8, "star"].sizes.tolist()) == [2] * 120 + [3]


def test_the_recommended_setting_finds_enough(report: DedupReport) -> None:
    scores = report.recommended.scores
    assert report.recommended.measured
    assert (scores.precision, scores.recall, scores.recall_above) == (1.0, 1.0, 1.0)
    assert report.stage == "FuzzyDuplicates()"


def test_all_of_it_can_be_written_and_printed(report: DedupReport, tmp_path: Path) -> None:
    report.to_json(tmp_path / "report.json")
    figures = json.loads((tmp_path / "report.json").read_text())
    assert figures["recommended"]["stage"] == "FuzzyDuplicates()"
    assert {one["verification"] for one in figures["settings"]} == {"exact", "estimated", "none"}
    assert [band["pairs"] for band in figures["pairs"]] == [0, 0, 0, 0, 0, 0, 0, 0, 120, 0]
    console = Console(width=120)
    with console.capture() as captured:
        console.print(dedup_report_table(report))
    assert "recommended  FuzzyDuplicates()" in captured.get()
    assert "2 (0.55 %) have the shingles of another" in captured.get()


def test_parquet_and_jsonl_give_the_same_report(report: DedupReport, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"text": documents()}), tmp_path / "sample.parquet")
    other = dedup_report(str(tmp_path / "sample.parquet")).to_dict() | {"seconds": 0, "source": ""}
    assert other == report.to_dict() | {"seconds": 0, "source": ""}


def test_the_first_documents_are_taken_if_there_are_more(tmp_path: Path) -> None:
    source = written(tmp_path)
    few = dedup_report(source, documents=3)
    assert (few.sample.documents, few.whole) == (3, False)
    assert not few.recommended.measured
    assert few.stage == "FuzzyDuplicates()"
    assert dedup_report(source, documents=363).whole


def test_another_threshold_changes_what_is_recommended(tmp_path: Path) -> None:
    assert dedup_report(written(tmp_path), threshold=0.85, documents=50).stage == "FuzzyDuplicates(threshold=0.85)"


def test_the_shingles_can_be_chosen(tmp_path: Path) -> None:
    report = dedup_report(written(tmp_path), shingles=Shingles(20, "characters"), documents=20)
    assert report.stage == "FuzzyDuplicates(shingles=Shingles(20, 'characters'))"


def test_jsonl_and_parquet_are_one_sample(tmp_path: Path) -> None:
    written(tmp_path)
    alone = dedup_report(str(tmp_path))
    more = pa.table({"text": ["a text that stands in no other file", "and one more of these"]})
    parquet.write_table(more, tmp_path / "other.parquet")
    assert dedup_report(str(tmp_path)).to_dict()["documents"] == alone.to_dict()["documents"] + 2


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    source = written(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="holds no documents"):
        dedup_report(str(tmp_path / "empty.jsonl"))
    with pytest.raises(DataError, match="no column 'content'"):
        dedup_report(source, text_field="content")
    for wrong in ({"threshold": 0.4}, {"threshold": 1.0}, {"documents": 0}):
        with pytest.raises(PipelineError, match="must be at least"):
            dedup_report(source, **wrong)


def test_lines_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "sample.jsonl").write_text('{"text": "a"}\n{"text": \n{"text": null}\n')
    report = dedup_report(str(tmp_path / "sample.jsonl"))
    assert (report.sample.documents, report.sample.without_words, report.unreadable) == (2, 1, 1)


def test_a_sample_without_any_word_has_no_pairs() -> None:
    sample = SimilaritySample.of(column_of([b"", b" ", b"?"]), Shingles())
    assert (sample.documents, sample.without_words, len(sample.texts), len(sample.truth.left)) == (3, 3, 0, 0)
    removal = sample.removal(0.8, "connected")
    assert (removal.removed, removal.groups) == (0, 0)
