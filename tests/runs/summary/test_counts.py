"""Every number of a summary is what DuckDB counts in the same files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.runs import SummaryOptions, TrainingSummary, training_summary
from tests.runs.summary.corpora import ROWS, URLS, Recount, write

FILES = st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=3)
_EVERY = [[{"url": url, "text": "x" * len(url), "language": "en"} for url in URLS]]


def value(summary: TrainingSummary, name: str) -> Any:
    field = summary.field(name)
    assert field is not None, name
    assert field.how or field.blank, f"{name} says nothing of how it was obtained"
    return field.value


def listed(summary: TrainingSummary) -> list[tuple[Any, ...]]:
    return [(row["modality"], row["domain"], row["documents"], row["bytes"]) for row in value(summary, "domains")]


def by_value(rows: Sequence[dict[str, Any]], head: str) -> dict[str, tuple[int, int]]:
    return {row[head]: (row["documents"], row["bytes"]) for row in rows}


def same_as_duckdb(summary: TrainingSummary, folders: Sequence[Path], part: str) -> None:
    """Compare all numbers of a summary whose texts were read."""
    recount = Recount(*folders)
    total = recount.number("SELECT count(*) FROM rows")
    for modality in ("text", "other"):
        number = recount.number(f"SELECT count(*) FROM sized WHERE modality = '{modality}'")
        field = summary.field(f"{modality}_documents")
        assert (field.value if field else 0) == number
    assert value(summary, "text_bytes") == recount.number("SELECT coalesce(sum(nbytes), 0) FROM sized")
    tokens = "SELECT coalesce(sum(n_tokens), 0) + coalesce(sum(nbytes) FILTER (n_tokens IS NULL), 0) // 4 FROM sized"
    assert value(summary, "text_tokens") == recount.number(tokens)
    uncounted = recount.number("SELECT coalesce(sum(nbytes) FILTER (n_tokens IS NULL), 0) FROM sized")
    field = summary.field("text_tokens")
    assert field is not None
    assert field.estimate == (uncounted > 0)
    assert listed(summary) == [row for kind in ("text", "other") for row in recount.domains(kind, part)]
    domains = "SELECT count(DISTINCT site) FROM sized WHERE site NOT IN ('host', 'invalid')"
    assert value(summary, "domains_in_all") == recount.number(domains)
    assert value(summary, "documents_of_hosts") == recount.number("SELECT count(*) FROM sized WHERE site = 'host'")
    assert value(summary, "invalid_urls") == recount.number("SELECT count(*) FROM sized WHERE site = 'invalid'")
    assert value(summary, "documents_of_domains") == recount.number(
        "SELECT count(*) FROM sized WHERE site NOT IN ('host', 'invalid')"
    )
    without = recount.number("SELECT count(*) FROM rows WHERE url IS NULL OR url = ''")
    assert value(summary, "documents_without_url") == without
    assert by_value(value(summary, "languages"), "language") == recount.values("language")
    assert by_value(value(summary, "licences"), "licence") == recount.values("licence")
    rights = [row for row in value(summary, "rights_columns") or () if row["column"] == "rights_train"]
    assert by_value(rights, "value") == recount.values("rights_train")
    days = "SELECT min(day), max(day) FROM (SELECT try_cast(left(date, 10) AS DATE) AS day FROM rows)"
    [(first, last)] = recount.rows(days)
    assert value(summary, "latest_date") == (None if last is None else str(last))
    assert value(summary, "collection_period") == (None if first is None else f"{first} to {last}")
    synthetic = recount.number("SELECT count(*) FROM rows WHERE synthetic")
    assert value(summary, "synthetic_documents") == synthetic
    assert value(summary, "synthetic_share") == (round(synthetic / total, 6) if total else 0)


@settings(max_examples=25)
@given(files=FILES, form=st.sampled_from(["parquet", "jsonl"]), sme=st.booleans())
@example(files=_EVERY, form="jsonl", sme=False)
@example(files=_EVERY, form="parquet", sme=True)
def test_every_number_is_what_duckdb_counts(files: list[list[dict[str, Any]]], form: str, sme: bool) -> None:
    files[0].append({"url": "https://one.test/", "text": "here", **dict.fromkeys(("language", "licence", "date"), "x")})
    files[0][-1] |= {"n_tokens": 1, "rights_train": "x", "synthetic": False}
    with tempfile.TemporaryDirectory() as folder:
        out = write(Path(folder, "out"), files, form)
        summary = training_summary(str(out), options=SummaryOptions(sme=sme, read_texts=True))
        part = "least(ceil(n * 0.05), 1000)" if sme else "ceil(n * 0.1)"
        same_as_duckdb(summary, [out], part)


@settings(max_examples=15)
@given(first=FILES, second=FILES)
def test_several_outputs_are_added_up_in_any_order(
    first: list[list[dict[str, Any]]], second: list[list[dict[str, Any]]]
) -> None:
    for files in (first, second):
        files[0].append({"url": "https://two.test/", "text": "here", "language": "x", "licence": "x", "date": "x"})
        files[0][-1] |= {"n_tokens": 1, "rights_train": "x", "synthetic": True}
    with tempfile.TemporaryDirectory() as folder:
        outputs = [write(Path(folder, "a"), first, "parquet"), write(Path(folder, "b"), second, "jsonl")]
        options = SummaryOptions(read_texts=True)
        summary = training_summary([str(out) for out in outputs], options=options)
        same_as_duckdb(summary, outputs, "ceil(n * 0.1)")
        other = training_summary([str(out) for out in reversed(outputs)], options=options)
        assert other.sections == summary.sections


@settings(max_examples=20)
@given(rows=st.lists(ROWS, min_size=1, max_size=40), group=st.integers(1, 50))
def test_sizes_that_are_estimated_by_footers_are_those_of_duckdb(rows: list[dict[str, Any]], group: int) -> None:
    weighted = all(row["n_tokens"] is not None for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        out = write(Path(folder, "out"), [rows], "parquet", group)
        summary = training_summary(str(out))
        file = f"'{out}/part-0.parquet'"
        total = duckdb.sql(
            f"SELECT sum(total_uncompressed_size) FROM parquet_metadata({file}) WHERE path_in_schema = 'text'"
        ).fetchall()[0][0]
        assert value(summary, "text_bytes") == total
        assert value(summary, "text_documents") == len(rows)
        if not weighted:
            return
        sizes = duckdb.sql(
            f"""
            WITH groups AS (
                SELECT row_group_id AS id, any_value(row_group_num_rows) AS rows,
                       sum(total_uncompressed_size) FILTER (path_in_schema = 'text') AS nbytes
                FROM parquet_metadata({file}) GROUP BY 1
            ), numbered AS (
                SELECT url, file_row_number // {group} AS id, file_row_number AS place, n_tokens
                FROM read_parquet({file}, file_row_number = true)
            ), parts AS (
                SELECT url, nbytes, place, numbered.id,
                       CASE WHEN sum(n_tokens) OVER whole = 0 THEN 1 ELSE n_tokens END AS part
                FROM numbered JOIN groups USING (id) WINDOW whole AS (PARTITION BY numbered.id)
            ), ends AS (
                SELECT url, floor(nbytes * ((sum(part) OVER before)::DOUBLE / sum(part) OVER whole)) AS upto, id, place
                FROM parts WINDOW whole AS (PARTITION BY id), before AS (PARTITION BY id ORDER BY place)
            )
            SELECT url, (upto - coalesce(lag(upto) OVER (PARTITION BY id ORDER BY place), 0))::BIGINT FROM ends
            """
        ).fetchall()
        assert sum(size for _, size in sizes) == total
        by_domain: dict[str, int] = {}
        for url, size in sizes:
            site = URLS.get(url, "invalid")
            if site not in ("host", "invalid"):
                by_domain[site] = by_domain.get(site, 0) + size
        assert all(by_domain[row["domain"]] == row["bytes"] for row in value(summary, "domains"))
        assert max(by_domain.values(), default=0) == max((row["bytes"] for row in value(summary, "domains")), default=0)


def test_the_border_of_the_top_tenth_is_drawn_by_documents_and_then_by_name(tmp_path: Path) -> None:
    rows = [{"url": f"https://{name}.test/", "text": "same"} for name in "tsrqponmlkjihgfedcba"]
    rows += [{"url": "https://z.test/", "text": "sa"}, {"url": "https://z.test/", "text": "me"}]
    summary = training_summary(str(write(tmp_path / "out", [rows], "jsonl")))
    assert [row["domain"] for row in value(summary, "domains")] == ["z.test", "a.test", "b.test"]
    field = summary.field("domains")
    assert field is not None
    assert "3 of 21 of text, the last one tied with the next" in field.how


def test_private_suffixes_make_domains_of_their_own(tmp_path: Path) -> None:
    rows = [{"url": f"https://{name}.github.io/", "text": "x"} for name in ("jo", "ann")]
    out = str(write(tmp_path / "out", [rows], "jsonl"))
    assert value(training_summary(out), "domains_in_all") == 1
    assert value(training_summary(out, options=SummaryOptions(private_suffixes=True)), "domains_in_all") == 2


def test_texts_of_parquet_are_not_read(tmp_path: Path) -> None:
    rows = [{"url": f"https://{number}.test/", "text": f"{number} " * 5000} for number in range(200)]
    out = write(tmp_path / "out", [rows], "parquet", 50)
    summary = training_summary(str(out))
    size = (out / "part-0.parquet").stat().st_size
    read = duckdb.sql(
        f"SELECT sum(total_compressed_size) FROM parquet_metadata('{out}/*.parquet') WHERE path_in_schema IN "
        "('url', 'language', 'licence', 'date', 'n_tokens', 'rights_train', 'synthetic')"
    ).fetchall()[0][0]
    footer = duckdb.sql(f"SELECT footer_size FROM parquet_file_metadata('{out}/*.parquet')").fetchall()[0][0]
    assert summary.bytes_read == read + footer
    assert summary.bytes_read < size / 5


def test_media_and_their_captions_are_counted_apart(tmp_path: Path) -> None:
    rows = [
        {"url": "https://a.example/1", "file_name": "a.mp4", "text": "caption " * 9},
        {"url": "https://a.example/2", "file_name": "b.jpg", "text": "caption"},
        {"url": "https://a.example/3", "file_name": "c", "text": "a text"},
    ]
    summary = training_summary(str(write(tmp_path / "out", [rows], "jsonl")))
    assert value(summary, "domains_in_all") == 1
    assert [(row[0], row[3]) for row in listed(summary)] == [("text", 6), ("image", 0), ("video", 0)]
    assert value(summary, "text_bytes") == 8 * 9 + 7 + 6
    assert summary.field("video_bytes") is None
    sized = [{**row, "size": 10 * number if number else None} for number, row in enumerate(rows)]
    summary = training_summary(str(write(tmp_path / "sized", [sized], "jsonl")))
    assert value(summary, "image_bytes") == 10
    assert summary.field("video_bytes") is None, "the size of the film is not known"


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_numbers_that_make_no_sense_do_not_end_in_the_sums(tmp_path: Path, form: str) -> None:
    numbers = [2**62, 2**62, 5, -5]
    rows = [{"text": "abcd", "n_tokens": number, "size": number, "is_synthetic": number % 2} for number in numbers]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    else:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    summary = training_summary(str(tmp_path), options=SummaryOptions(read_texts=True))
    assert value(summary, "text_tokens") == 5 + 3 * 4 // 4
    assert value(summary, "synthetic_documents") == 2


def test_dates_that_cannot_be_are_not_the_latest(tmp_path: Path) -> None:
    dates = ["2024-01-31", "2024-02-29T03:04:05Z", "2024-02-30", "2024-04-31", "9999-12-31", "2100-01-01", "0001-01-01"]
    rows = [{"text": "a", "date": date} for date in dates]
    summary = training_summary(str(write(tmp_path / "out", [rows], "jsonl")))
    assert value(summary, "collection_period") == "2024-01-31 to 2024-02-29"
    field = summary.field("latest_date")
    assert field is not None
    assert field.how.endswith("2 of 7 rows")
