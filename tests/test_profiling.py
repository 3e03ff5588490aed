"""One call that says what a corpus is like."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    CorpusProfile,
    DaskExecutor,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    profile,
)
from dcurate.core.pipeline import AnyStage
from dcurate.recipe import BUNDLED
from dcurate.text import (
    AddId,
    CommonEnglishWordsFilter,
    DocumentFilter,
    NonAlphaNumericFilter,
    RepeatedLinesFilter,
    WhiteSpaceFilter,
    WordCountFilter,
)
from tests.forked import finished

pytestmark = pytest.mark.cluster

FILTERS = [
    NonAlphaNumericFilter(0.25),
    WhiteSpaceFilter(0.2),
    WordCountFilter(min_words=12, max_words=300),
    RepeatedLinesFilter(0.9),
    CommonEnglishWordsFilter(),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """The bundled sample, cut into documents of all sizes, with some that are empty or come again."""
    rows: list[dict[str, Any]] = []
    for path in sorted((BUNDLED / "sample").glob("*.jsonl*")):
        reader = JsonlReader(str(path), on_bad_line="quarantine")
        for batch in Pipeline("read", stages=[reader]).run(InlineExecutor()):
            for row in batch.to_arrow().to_pylist():  # type: ignore[attr-defined]
                pieces = (row["text"] or "").split("\n\n")[:6]
                rows += [{"text": "\n\n".join(pieces[:size]), "lang": "en" if size % 2 else "de"} for size in (1, 3, 6)]
    rows = rows[:700] + [{"text": "", "lang": None}] * 3 + rows[:50] + [{"text": None, "lang": "en"}]
    rows = [{"id": f"d{number}", **row} for number, row in enumerate(rows)]
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(4):
        lines = [json.dumps(row) + "\n" for row in rows[number::4]]
        (folder / f"{number}.jsonl").write_text("".join(lines))
    return str(folder), rows


@pytest.fixture(scope="module")
def found(corpus: tuple[str, list[dict[str, Any]]]) -> CorpusProfile:
    return profile(corpus[0], id_field="id", filters=FILTERS, executor=InlineExecutor())


def test_counts_are_those_of_plain_python(found: CorpusProfile, corpus: tuple[str, list[dict[str, Any]]]) -> None:
    texts = [row["text"] or "" for row in corpus[1]]
    assert (found.documents, found.empty) == (len(texts), sum(not text.split() for text in texts))
    assert found.nbytes == sum(len(text.encode()) for text in texts)
    totals = {name: each.total for name, each in found.distributions.items()}
    assert totals == {
        "characters": sum(map(len, texts)),
        "words": sum(len(text.split()) for text in texts),
        "lines": sum(bool(line.strip()) for text in texts for line in text.split("\n")),
        "bytes": found.nbytes,
        "tokens": sum(-(-len(text.encode()) // 4) for text in texts),
    }
    words = sorted(len(text.split()) for text in texts)
    assert (found.distributions["words"].least, found.distributions["words"].most) == (words[0], words[-1])
    given = [row["text"] for row in corpus[1] if row["text"] is not None]
    assert len(given) < len(texts)
    assert found.duplicates == pytest.approx((len(given) - len(set(given))) / len(texts))
    assert found.duplicates_exact
    assert found.counts == {"lang": dict(Counter(str(row["lang"]) for row in corpus[1]).most_common())}


def test_a_filter_fails_what_it_drops_alone_and_comes_first_for_what_it_drops_in_a_chain(
    found: CorpusProfile, corpus: tuple[str, list[dict[str, Any]]]
) -> None:
    chain: list[AnyStage] = [JsonlReader(corpus[0]), *(ScoreFilter(rule) for rule in FILTERS)]
    report = Pipeline("chain", stages=chain).run(InlineExecutor()).report
    assert [each.first for each in found.filters] == [sum(stage.dropped.values()) for stage in report.stages[1:]]
    assert found.kept == report.stages[-1].rows_out
    for place, (rule, each) in enumerate(zip(FILTERS, found.filters, strict=True)):
        others = [ScoreFilter(other) for other in FILTERS[:place] + FILTERS[place + 1 :]]
        alone, without = (
            Pipeline("some", stages=[JsonlReader(corpus[0]), *stages]).run(InlineExecutor()).report.stages[-1].rows_out
            for stages in ([ScoreFilter(rule)], others)
        )
        assert each.drops == found.documents - alone > 0
        assert each.only == without - found.kept
        assert sum(bar.count for bar in each.scores.histogram) == found.documents
        assert sum(bar.dropped for bar in each.scores.histogram) == each.drops


def test_examples_are_documents_that_the_filter_drops(
    found: CorpusProfile, corpus: tuple[str, list[dict[str, Any]]]
) -> None:
    texts = {row["id"]: row["text"] or "" for row in corpus[1]}
    for rule, each in zip(FILTERS, found.filters, strict=True):
        assert len(each.examples) == min(3, each.drops)
        for example in each.examples:
            assert not rule.keep_document(rule.score_document(texts[example.id]))
            assert " ".join(texts[example.id].split()).startswith(example.excerpt.removesuffix("…"))


def test_a_threshold_drops_as_many_documents_as_it_says(
    found: CorpusProfile, corpus: tuple[str, list[dict[str, Any]]]
) -> None:
    made: dict[tuple[str, str], Callable[[Any], Any]] = {
        ("alpha_numeric", "high"): NonAlphaNumericFilter,
        ("white_space", "high"): WhiteSpaceFilter,
        ("word_count", "low"): lambda least: WordCountFilter(int(least), 10**9),
        ("word_count", "high"): lambda most: WordCountFilter(0, int(most)),
        ("common_english_words", "low"): lambda least: CommonEnglishWordsFilter(int(least), stop_at_false=False),
    }
    tried = 0
    for each in found.filters:
        for cut in each.cuts:
            assert cut.suggested is None or cut.dropped > 0.05 * found.documents
            assert cut.suggested is None or cut.suggested in cut.choices
            for choice in cut.choices if (each.name, cut.side) in made else ():
                rule = made[each.name, cut.side](choice.value)
                dropped = sum(not rule.keep_document(rule.score_document(row["text"] or "")) for row in corpus[1])
                assert dropped == choice.dropped <= 0.1 * found.documents, (each.name, choice)
                tried += 1
    assert tried > 12
    assert any(cut.suggested is not None for each in found.filters for cut in each.cuts)


def test_both_sides_of_a_filter_are_distinguished(
    found: CorpusProfile, corpus: tuple[str, list[dict[str, Any]]]
) -> None:
    words = [len((row["text"] or "").split()) for row in corpus[1]]
    cuts = {cut.side: cut.dropped for cut in found.filters[2].cuts}
    assert cuts == {"low": sum(n < 12 for n in words), "high": sum(n > 300 for n in words)}


def test_the_profile_is_the_same_for_any_files_and_workers(
    found: CorpusProfile, corpus: tuple[str, list[dict[str, Any]]], cluster: LocalCluster, tmp_path: Path
) -> None:
    rows: list[AnyStage] = [JsonlReader(corpus[0]), ParquetWriter(str(tmp_path / "parquet"), max_rows_per_file=40)]
    Pipeline("copy", stages=rows).run(InlineExecutor())
    on_cluster = profile(corpus[0], id_field="id", filters=FILTERS, executor=DaskExecutor(cluster=cluster))
    assert replace(on_cluster, seconds=0) == replace(found, seconds=0)
    parquet = profile(str(tmp_path / "parquet"), id_field="id", filters=FILTERS, executor=InlineExecutor())

    def told(each: CorpusProfile) -> dict[str, Any]:
        return {name: table for name, table in each.tables().items() if name != "examples"}

    assert told(parquet) == told(found)


class Kind(DocumentFilter):
    """Scores with a word, and drops one of them."""

    def score_document(self, text: str) -> str:
        return "short" if len(text) < 80 else "long"

    def keep_document(self, score: str) -> bool:
        return score == "long"


def test_scores_that_are_no_numbers_are_counted_by_value(
    corpus: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    found = profile(corpus[0], filters=[Kind()], executor=InlineExecutor())
    (each,) = found.filters
    short = sum(len(row["text"] or "") < 80 for row in corpus[1])
    assert each.labels == {"long": len(corpus[1]) - short, "short": short}
    assert (each.drops, each.cuts, each.scores.histogram) == (short, (), ())
    assert re.fullmatch(r"\d\.jsonl:\d+", each.examples[0].id)
    found.to_html(tmp_path / "page.html")
    assert "<th>short</th>" in (tmp_path / "page.html").read_text("utf-8")


def test_the_filters_of_a_recipe_are_taken(corpus: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    for params in ("", "params: {input: null}\n"):
        (tmp_path / "r.yaml").write_text(
            f"{params}stages:\n  - JsonlReader: {{file_paths: x}}\n  - AddId: {{id_field: id}}\n"
            "  - ScoreFilter: {filter_obj: [{WordCountFilter: {min_words: 9}}, {WhiteSpaceFilter: }]}\n"
        )
        found = profile(corpus[0], filters=str(tmp_path / "r.yaml"), executor=InlineExecutor())
        assert [each.name for each in found.filters] == ["word_count", "white_space"]


def test_a_pipeline_is_profiled_as_it_comes_out(corpus: tuple[str, list[dict[str, Any]]]) -> None:
    pipeline = Pipeline(
        "clean", stages=[JsonlReader(corpus[0], fields=["text"]), ScoreFilter(WordCountFilter(12, 300))]
    )
    pipeline.add_stage(AddId("id"))
    found = profile(pipeline, filters=[WordCountFilter(12, 300)], tokens=len, executor=InlineExecutor())
    words = [len((row["text"] or "").split()) for row in corpus[1]]
    assert found.documents == found.kept == sum(12 <= n <= 300 for n in words)
    assert (found.source, found.counts, found.tokens_estimated) == ("clean", {}, False)
    assert found.distributions["tokens"].total == found.distributions["characters"].total
    stages_before = len(pipeline.stages)
    assert stages_before == 3


def test_a_corpus_without_documents_has_a_profile(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    found = profile(str(tmp_path), filters=FILTERS, executor=InlineExecutor())
    assert (found.documents, found.kept, found.nbytes, len(found.filters)) == (0, 0, 0, 5)
    assert "documents" in str(found)
    found.to_html(tmp_path / "page.html")


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": \n\n[]\n{"text": "two"}\n')
    found = profile(str(tmp_path), filters=[], executor=InlineExecutor())
    assert (found.documents, found.faulty) == (2, 2)
    assert "2 rows" in str(found)


@pytest.mark.parametrize("executor", [InlineExecutor(), pytest.param(None, marks=pytest.mark.cluster)])
def test_reasons_of_rows_that_cannot_be_read_have_counts_and_a_place(executor: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' * 8 + '{"text": \n[]\n{"text": "two"}\n{"text": [1]}\n')
    (tmp_path / "b.csv").write_text('text\nfour\n"open\n')
    found = profile(str(tmp_path), filters=[], executor=executor)
    faults = {fault.reason: (fault.rows, fault.place) for fault in found.faults}
    assert faults == {
        "malformed line": (2, "a.jsonl line 9"),
        "column 'text' of another type": (1, "a.jsonl line 12"),
        "malformed row": (1, "b.csv line 3"),
    }
    assert found.faulty == sum(fault.rows for fault in found.faults) == 4
    assert found.tables()["faults"] == [vars(fault) for fault in found.faults]
    assert all(fault.error for fault in found.faults)
    found.to_html(tmp_path / "page.html")
    for text in ("2 rows, malformed line, as in a.jsonl line 9: not valid JSON",):
        assert text in " ".join(str(found).split())
        assert text in (tmp_path / "page.html").read_text()


def test_a_column_of_too_many_values_is_not_counted(
    corpus: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcurate.text.profile.MOST_VALUES", 100)
    found = profile(corpus[0], filters=[], columns=["id", "lang"], executor=InlineExecutor())
    assert found.counts["id"] is None
    assert found.counts["lang"] is not None
    assert "more than" in str(found)


def test_the_page_needs_nothing_else_and_shows_text_as_text(tmp_path: Path) -> None:
    rows = [{"text": "<script>alert(1)</script> & more " * n, "lang": "<b>"} for n in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = profile(str(tmp_path / "in.jsonl"), filters=FILTERS, executor=InlineExecutor())
    found.to_html(tmp_path / "deep" / "page.html")
    page = (tmp_path / "deep" / "page.html").read_text("utf-8")
    assert os.listdir(tmp_path / "deep") == ["page.html"]
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)\s*=", page)
    assert "@import" not in page
    assert "alert(1)</script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<svg ") == 4 + len(FILTERS)


def test_all_tables_are_frames_and_json(found: CorpusProfile, tmp_path: Path) -> None:
    found.to_json(tmp_path / "profile.json")
    written = json.loads((tmp_path / "profile.json").read_text())
    assert list(written) == list(found.tables())
    for name, table in found.tables().items():
        assert len(found.to_pandas(name)) == len(table) == len(written[name])
        assert table or name == "faults"  # all rows of the corpus can be read
    assert found.to_pandas()["filter"].tolist() == [rule.name for rule in FILTERS]
    with pytest.raises(PipelineError, match="a profile has no table 'x'; there are 'summary'"):
        found.to_pandas("x")


def test_what_cannot_be_profiled_is_refused(corpus: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    stages: list[AnyStage] = [JsonlReader(corpus[0]), JsonlWriter(str(tmp_path))]
    for source, settings, said in [
        (Pipeline("p", stages=stages), {}, "pipeline 'p' ends with a writer; leave it out"),
        (corpus[0], {"filters": [len]}, "is not a filter; give filters such as WordCountFilter"),
        (corpus[0], {"filters": "nemo-englisch"}, "nemo-english"),
        (corpus[0], {"most_dropped": 5}, "most_dropped=5 is a share of the documents"),
        (corpus[0], {"text_field": "body"}, "reads column 'body'"),
    ]:
        with pytest.raises(PipelineError) as refusal:
            profile(source, executor=InlineExecutor(), **settings)  # type: ignore[arg-type]
        assert said in str(refusal.value)


def test_the_command_shows_the_profile_and_writes_it(corpus: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    arguments = [corpus[0], "--id-field", "id", "--mode", "inline", "--html", "p.html", "--json", "p.json"]
    command = [sys.executable, "-m", "dcurate.cli", "profile", *arguments]
    done = finished(command, cwd=tmp_path, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("documents", "word_count", "repeating_dup_5gram", "lang"))
    (summary,) = json.loads((tmp_path / "p.json").read_text())["summary"]
    assert summary["documents"] == len(corpus[1])
    assert (tmp_path / "p.html").read_text("utf-8").count("<svg ") > 10
