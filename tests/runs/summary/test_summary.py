"""What records of runs say in a summary, what is left blank, and what is refused."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Modify,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    TokenWriter,
    WarcReader,
)
from dcurate.core.report import RunReport
from dcurate.download import DownloadCommonCrawl
from dcurate.fs.stores import Directory
from dcurate.io.corpus_columns import FileColumns
from dcurate.rights import FilterByRights, FindRights
from dcurate.runs import SummaryOptions, training_summary
from dcurate.runs.load import RecordedRun
from dcurate.runs.manifest import provenance
from dcurate.runs.summary.fields import FACTS, SECTIONS
from dcurate.runs.summary.licences import spdx_document
from dcurate.runs.summary.stages import sources_of
from dcurate.text import LanguageFilter, PiiModifier, WordCountFilter
from dcurate.tokens import Mixture
from dcurate_testing.token_files import train_bpe
from tests.archives import archive, warc_record
from tests.conftest import ROOT
from tests.runs.summary.corpora import write
from tests.runs.summary.test_counts import value


def run(folder: Path, stages: list[Any], rows: list[dict[str, Any]] | None = None, **settings: Any) -> str:
    """The output of a run, as Parquet."""
    batches = None if rows is None else [DocumentBatch(data=pd.DataFrame(rows))]
    out = folder / "out"
    pipeline = Pipeline("demo", stages=[*stages, ParquetWriter(str(out))])
    pipeline.run(InlineExecutor(), batches, observers=[], **settings)
    return str(out)


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    (folder / "part.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


ROWS = [
    {
        "id": number,
        "url": f"https://{number % 7}.example/{number}",
        "text": "word " * number,
        "lang": "en" if number % 3 else "de",
    }
    for number in range(40)
]


@pytest.mark.parametrize("writer", [ParquetWriter, JsonlWriter])
def test_columns_of_rights_and_their_policy_are_counted(tmp_path: Path, writer: Any) -> None:
    heads = [
        "HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n",
        'HTTP/1.1 200 OK\r\nLink: <https://creativecommons.org/licenses/by/4.0/>; rel="license"',
        "HTTP/1.1 200 OK\r\nX-Robots-Tag: noindex",
        "HTTP/1.1 200 OK",
    ]
    rows = pd.DataFrame({"url": [f"https://a.example/{n}" for n in range(4)], "http_headers": heads, "text": "words"})
    stages: list[Any] = [FindRights(), FilterByRights("train"), writer(str(tmp_path / "out"))]
    batch = DocumentBatch(data=rows)
    result = Pipeline("rights", stages=stages).run(InlineExecutor(), [batch], observers=[])
    summary = training_summary(str(tmp_path / "out"))
    licences = {row["licence"]: row["documents"] for row in value(summary, "licences")}
    assert licences == {"(none)": 2, "CC-BY-4.0": 1}
    counted = {(row["column"], row["value"]): row["documents"] for row in value(summary, "rights_columns")}
    assert counted["rights_search", "false"] == 1
    measures = value(summary, "opt_out_measures")
    removed = {row["reason"]: row["removed documents"] for row in measures if row["stage"] == "filter_by_rights"}
    assert removed["train: header Content-Usage"] == result.report.stages[1].rows_in - 3 == 1
    assert {package["licenseConcluded"] for package in spdx_document(summary, "2026-01-01T00:00:00Z")["packages"]} >= {
        "CC-BY-4.0"
    }


def test_stages_and_what_was_removed_are_counted_as_duckdb_counts_inputs_and_outputs(tmp_path: Path) -> None:
    source, rejected = written(tmp_path / "in", ROWS), str(tmp_path / "rejected")
    stages = [JsonlReader(str(source)), ScoreFilter(WordCountFilter(min_words=10), name="robots_optout")]
    out = run(tmp_path, stages, rejected=rejected)
    summary = training_summary(out, options=SummaryOptions(removed=True))
    query = f"SELECT count(*), count(*) FILTER (length(text) < 50) FROM read_json('{source}/*.jsonl')"
    kept = duckdb.sql(f"SELECT count(*) FROM read_parquet('{out}/*.parquet')").fetchall()[0][0]
    [(rows_in, short)] = duckdb.sql(query).fetchall()
    assert rows_in == kept + short
    [stage] = [row for row in value(summary, "opt_out_measures") if row["stage"] == "robots_optout"]
    assert stage["removed documents"] == short
    [field] = [field for section in summary.sections for field in section.fields if field.name.startswith("stages_")]
    by_stage = {row["stage"]: row for row in field.value}
    assert (by_stage["robots_optout"]["documents in"], by_stage["robots_optout"]["documents out"]) == (rows_in, kept)
    assert value(summary, "removed_documents") == short
    [by_reason] = value(summary, "removed_by_reason")
    assert (by_reason["reason"], by_reason["documents"]) == ("word_count", short)
    aside = duckdb.sql(
        f"SELECT regexp_extract(url, '//([^/]+)', 1) AS site, count(*), sum(strlen(text)) "
        f"FROM read_json('{rejected}/**/*.jsonl*') GROUP BY 1 ORDER BY 3 DESC, 2 DESC, 1"
    ).fetchall()
    assert value(summary, "removed_domains_in_all") == len(aside)
    assert [tuple(row.values())[1:] for row in value(summary, "removed_domains")] == aside[:1]


def test_what_was_removed_is_a_blank_where_it_was_not_kept(tmp_path: Path) -> None:
    summary = training_summary(run(tmp_path, [], ROWS), options=SummaryOptions(removed=True))
    field = summary.field("removed_documents")
    assert field is not None
    assert field.value is None
    assert "rejected=" in field.blank


def test_personal_data_that_was_replaced_is_counted_by_kind(tmp_path: Path) -> None:
    rows = [{"text": f"Write to a{number}@example.org, please."} for number in range(3)]
    summary = training_summary(run(tmp_path, [Modify(PiiModifier(anonymize_action="replace"))], rows))
    [row] = value(summary, "illegal_content_measures")
    assert (row["counted"], row["number"]) == ("EMAIL_ADDRESS", 3)


def test_languages_are_read_in_the_structures_that_the_language_filter_writes(tmp_path: Path) -> None:
    rows = [{"text": "This is certainly an English sentence about the weather in spring."}] * 4
    stages = [ScoreFilter(LanguageFilter("en", min_score=0.5), score_field="language")]
    summary = training_summary(run(tmp_path, stages, rows))
    [row] = value(summary, "languages")
    assert (row["language"], row["documents"]) == ("en", 4)


def test_rows_that_a_language_model_wrote_are_counted_in_its_column(tmp_path: Path) -> None:
    out = write(tmp_path / "plain", [ROWS[:3]], "jsonl")
    assert value(training_summary(str(out)), "synthetic_documents") is None
    made = [{"url": None, "text": "x", "qa": "q" if number % 2 else None} for number in range(10)]
    run_out = run(tmp_path, [], made)
    records = Path(f"{run_out}.dcurate") / "report.json"
    report = json.loads(records.read_text())
    settings = {"output_field": "'qa'", "model": "'llama-4'"}
    report["about"]["stages"].append({"name": "ask", "kind": "Rephrase", "needs": "", "settings": settings})
    records.write_text(json.dumps(report))
    summary = training_summary(run_out)
    count = duckdb.sql(f"SELECT count(qa) FROM read_parquet('{run_out}/*.parquet')").fetchall()[0][0]
    assert value(summary, "synthetic_documents") == count == 5
    assert value(summary, "synthetic_models") == ["llama-4"]
    assert value(summary, "synthetic_share") == 0.5


def test_crawlers_are_named_by_the_descriptions_of_web_archives(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(2):
        says = f"software: Crawler/2\r\nhttp-header-user-agent: Bot/{number}\r\nrobots: obey\r\n"
        info = warc_record((says + "isPartOf: CC-MAIN-2024-10\r\n").encode(), "", "warcinfo")
        (source / f"{number}.warc.gz").write_bytes(archive([info, warc_record(b"text", kind="resource")]))
    out = run(tmp_path, [WarcReader(str(source), record_types=["resource"])])
    summary = training_summary(out)
    assert value(summary, "crawlers") == ["Bot/0", "Bot/1", "Crawler/2"]
    assert value(summary, "crawler_behaviour") == ["obey (2 archives)"]
    assert value(summary, "crawls_named") == ["CC-MAIN-2024-10 (2 archives)"]
    assert [row["source"] for row in value(summary, "sources_read")] == ["web archives (WARC)"]
    for path in source.iterdir():
        path.unlink()
    field = training_summary(out).field("crawlers")
    assert field is not None
    assert field.value is None
    assert "cannot be reached" in field.blank


def test_tokens_of_a_folder_are_those_in_its_files(tmp_path: Path) -> None:
    texts = [f"some words and {number}" for number in range(30)]
    tokenizer = train_bpe(tmp_path / "tokenizer.json", texts)
    out = tmp_path / "tokens"
    batch = DocumentBatch(data=pd.DataFrame({"text": texts}))
    writer = TokenWriter(str(out), tokenizer, "npy", packing="concat", sequence_length=64)
    Pipeline("tokens", stages=[writer]).run(InlineExecutor(), [batch], observers=[])
    summary = training_summary(str(out))
    query = f'SELECT sum("end" - start) FROM read_parquet("{out}/**/*.parquet")'
    [(tokens,)] = duckdb.sql(query).fetchall()
    assert value(summary, "text_tokens") == tokens
    assert value(summary, "text_documents") == 30
    field = summary.field("text_tokens")
    assert field is not None
    assert not field.estimate


def test_media_are_counted_in_their_units(tmp_path: Path) -> None:
    rows = [{"file_name": f"{n}.wav", "duration": 1800.5, "size": 10} for n in range(3)]
    rows += [{"file_name": "a.MP4", "mime_type": "video/mp4", "duration": 7200}, {"file_name": "b.png", "size": 7}]
    rows += [{"file_name": "c.wav", "duration": None}, {"file_name": "d.wav", "duration": "long"}]
    out = written(tmp_path / "out", rows)
    with tarfile.open(out / "shard.tar", "w") as shard:
        for name in ("1.jpg", "1.txt", "2.webp", "3.json"):
            member = tarfile.TarInfo(name)
            member.size = 5
            shard.addfile(member, io.BytesIO(b"12345"))
    summary = training_summary(str(out))
    audio = "SELECT sum(duration) / 3600 FROM (VALUES (1800.5), (1800.5), (1800.5)) AS t(duration)"
    assert value(summary, "audio_hours") == pytest.approx(float(duckdb.sql(audio).fetchall()[0][0]))
    assert (value(summary, "audio_documents"), value(summary, "audio_bytes")) == (5, 30)
    assert (value(summary, "video_hours"), value(summary, "video_documents")) == (2.0, 1)
    assert (value(summary, "image_documents"), value(summary, "image_bytes")) == (3, 17)
    assert value(summary, "image_range") == "less than 1 million images"
    assert value(summary, "audio_range") == "less than 10,000 hours"
    assert value(summary, "modalities") == ["image", "audio", "video"]


def test_an_empty_corpus_has_zeros_and_blanks(tmp_path: Path) -> None:
    stages = [JsonlReader(str(written(tmp_path / "in", ROWS))), ScoreFilter(WordCountFilter(min_words=1000))]
    summary = training_summary(run(tmp_path, stages))
    counted = [field.value for section in summary.sections for field in section.fields if "documents" in field.name]
    assert not any(isinstance(number, int) and number for number in counted)
    assert value(summary, "domains") in (None, [])
    [stage] = [row for row in value(summary, summary.sections[-1].fields[-1].name) if row["stage"] == "word_count"]
    assert stage["removed documents"] == len(ROWS)


def test_columns_of_all_types_that_suit_are_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "language=de").mkdir(parents=True)
    days = pa.array([datetime(2024, 2, 3, tzinfo=UTC), None], pa.timestamp("ns", "UTC"))
    url = pa.array(["https://example.org/", "https://example.com/"]).dictionary_encode()
    table = pa.table(
        {
            "text": pa.array(["ab", "c"], pa.large_string()),
            "url": url,
            "date": days,
            "n_tokens": pa.array([3, None], pa.uint16()),
            "rights_signals": pa.array([["tdm", "ai.txt"], None]),
            "opted_out": pa.array([True, None]),
            "a.b": ["x", "y"],
        }
    )
    pq.write_table(table, out / "language=de" / "part.parquet")
    twice = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"]), pa.array(["z"])], ["url", "url", "text"])
    pq.write_table(twice, out / "twice.parquet")
    summary = training_summary(str(out), options=SummaryOptions(read_texts=True))
    assert [(row["language"], row["documents"]) for row in value(summary, "languages")] == [("de", 2)]
    assert value(summary, "latest_date") == "2024-02-03"
    assert value(summary, "domains_in_all") == 2
    assert (value(summary, "text_bytes"), value(summary, "text_tokens")) == (4, 3 + 2 // 4)
    rights = {(row["column"], row["value"]): row["documents"] for row in value(summary, "rights_columns")}
    assert rights[("rights_signals", "ai.txt, tdm")] == rights[("opted_out", "true")] == 1
    dotted = training_summary(str(out), options=SummaryOptions(columns={"text": "a.b"}))
    [(size,)] = duckdb.sql(
        f"SELECT sum(total_uncompressed_size) FROM parquet_metadata('{out}/language=de/part.parquet') "
        "WHERE path_in_schema LIKE '%a.b%'"
    ).fetchall()
    assert value(dotted, "text_bytes") == size > 0


def test_what_was_not_used_is_not_applicable_and_what_is_optional_is_not_blank(tmp_path: Path) -> None:
    out = str(write(tmp_path / "out", [ROWS], "jsonl"))
    summary = training_summary(out, facts={"user_data_used": False, "crawlers_used": False, "comments_2_3": "none"})
    assert summary.stated("user_data") == summary.stated("crawlers") == "not applicable"
    assert value(summary, "crawled_modalities") == ["text"]
    assert summary.stated("crawled_modalities") is None
    assert summary.stated("comments_2_3") == "none"
    assert summary.field("comments_2_4") is None
    assert not [field for field in summary.blanks if field.name in FACTS and FACTS[field.name].optional]


def test_sources_of_a_mixture_have_the_tokens_that_were_drawn_of_them(tmp_path: Path) -> None:
    sources = {}
    for name, number in (("web", 30), ("books", 20)):
        rows = [{"text": f"{name} {n}", "n": 10} for n in range(number)]
        sources[name] = {"input": str(written(tmp_path / name, rows)), "share": 0.5}
    mixture = Mixture(sources, budget=200, tokens_field="n")
    Pipeline("mixed", stages=[mixture, ParquetWriter(str(tmp_path / "out"))]).run(InlineExecutor(), observers=[])
    summary = training_summary(str(tmp_path / "out"), options=SummaryOptions(columns={"tokens": "n"}))
    drawn = {row["source"]: row["tokens drawn"] for row in value(summary, "sources_mixed")}
    query = f"SELECT split_part(text, ' ', 1), sum(n) FROM read_parquet('{tmp_path}/out/*.parquet') GROUP BY 1"
    assert drawn == dict(duckdb.sql(query).fetchall())
    assert sum(drawn.values()) == value(summary, "text_tokens")


def test_two_outputs_of_a_run_count_what_it_removed_once(tmp_path: Path) -> None:
    stages = [JsonlReader(str(written(tmp_path / "in", ROWS))), ScoreFilter(WordCountFilter(min_words=10))]
    out = run(tmp_path, stages, rejected=str(tmp_path / "rejected"))
    shutil.copytree(out, tmp_path / "copy")
    shutil.copytree(f"{out}.dcurate", tmp_path / "copy.dcurate")
    summary = training_summary([out, str(tmp_path / "copy")], options=SummaryOptions(removed=True))
    assert value(summary, "removed_documents") == 10
    shutil.rmtree(tmp_path / "rejected")
    field = training_summary(out, options=SummaryOptions(removed=True)).field("removed_documents")
    assert field is not None
    assert "it is not there any more" in field.blank


def test_common_crawl_is_named_where_a_run_downloads_it() -> None:
    pipeline = Pipeline("crawl", stages=[DownloadCommonCrawl("2024-10", "2024-10", "downloads")])
    about = provenance(pipeline, pipeline.build())
    assert sources_of(RecordedRun(RunReport("7f3a", "crawl", "inline", 0.0, 1.0, ()), about=about)) == ["Common Crawl"]


def test_long_documents_are_parsed_a_few_at_a_time(tmp_path: Path) -> None:
    rows = [{"text": "x" * 2**20, "url": f"https://{number}.test/"} for number in range(40)]
    out = written(tmp_path / "out", rows)
    files = FileColumns(Directory(str(out)), "part.jsonl")
    assert [described.rows for described in files.pieces()] == [16, 16, 8]
    assert value(training_summary(str(out)), "text_bytes") == 40 * 2**20


def test_rows_of_ever_new_columns_take_time_and_memory_that_grow_with_them_alone(tmp_path: Path) -> None:
    rows = [{"text": "x", **{f"rights_{number}_{key}": 1 for key in range(200)}} for number in range(2000)]
    out = str(written(tmp_path / "out", rows))
    began = time.process_time()
    summary = training_summary(out)
    assert time.process_time() - began < 30, "each column is looked for in each row"
    assert value(summary, "text_documents") == 2000
    assert len(summary.columns[0]) == 10_000


def test_facts_that_expand_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "facts.yaml").write_text("\n".join([*lines, "crawlers: *a11"]))
    with pytest.raises(PipelineError, match="unknown key 'a0'"):
        training_summary(str(written(tmp_path / "out", ROWS)), facts=str(tmp_path / "facts.yaml"))
    nested: list[Any] = ["x"]
    for _ in range(40):
        nested = [nested, nested]
    with pytest.raises(PipelineError, match="crawlers: list must be text"):
        training_summary(str(tmp_path / "out"), facts={"crawlers": nested})


def test_an_output_in_a_store_is_counted(tmp_path: Path) -> None:
    local = write(tmp_path / "out", [ROWS[:9]], "jsonl") / "part-0.jsonl"
    fsspec.filesystem("memory").pipe_file("/summary/out/part-0.jsonl", local.read_bytes())
    here, there = training_summary(str(tmp_path / "out")), training_summary("memory://summary/out")
    assert here.sections == there.sections


def test_a_corpus_without_records_is_counted_and_says_what_is_missing(tmp_path: Path) -> None:
    summary = training_summary(
        str(write(tmp_path / "out", [ROWS], "jsonl")), options=SummaryOptions(columns={"language": "lang"})
    )
    assert value(summary, "text_documents") == 40
    field = summary.field("opt_out_measures")
    assert field is not None
    assert "the outputs have no records of runs" in field.blank


def test_every_field_is_counted_stated_or_a_named_blank(tmp_path: Path) -> None:
    options = SummaryOptions(removed=True)
    summary = training_summary(run(tmp_path, [], ROWS), facts={"provider_name": "ACME"}, options=options)
    assert value(summary, "crawled_modalities") == ["text"]
    for section in summary.sections:
        assert section.title == SECTIONS[section.number]
        for field in section.fields:
            assert (field.value is not None or field.stated is not None) != bool(field.blank), field
    asked = {name for name, fact in FACTS.items() if not fact.optional}
    assert {field.name for section in summary.sections for field in section.fields} >= asked
    assert "to be filled in by the provider: contact details of the provider" in {
        field.blank for field in summary.blanks
    }
    assert summary.stated("provider_name") == "ACME"


def test_the_guide_names_all_facts_and_roles() -> None:
    page = (ROOT / "docs" / "howto" / "summary.md").read_text("utf-8")
    for name, fact in FACTS.items():
        optional = " (optional)" if fact.optional else ""
        assert f"| {fact.section} | `{name}` | {fact.title}{optional} | {fact.kind} |" in page
        assert not fact.used or FACTS[fact.used].kind == "yes or no"
