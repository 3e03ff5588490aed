"""The forms of a summary hold the same, and strings of data stay data."""

from __future__ import annotations

import json
import re
import warnings
from io import StringIO
from pathlib import Path
from typing import Any

import docx
import duckdb
import mlcroissant
import pytest
import yaml
from packaging.licenses import canonicalize_license_expression
from rich.console import Console

from dcurate import PipelineError
from dcurate.runs import SummaryOptions, TrainingSummary, training_summary
from dcurate.runs.summary.croissant import croissant
from dcurate.runs.summary.dataset_card import dataset_card
from dcurate.runs.summary.licences import spdx_document
from dcurate.runs.summary.summary import table_of, text_of
from dcurate.runs.summary.word import write_docx
from dcurate.ui.training_summary import summary_page
from tests.runs.summary.corpora import write

HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }} | **x** \x00\x0b"
ROWS = [
    {
        "url": f"https://{number % 23}.example/{number}",
        "text": "word " * (number + 1),
        "language": HOSTILE if number == 3 else "en",
        "licence": ["CC-BY-4.0", "mit", "Our licence", HOSTILE][number % 4],
        "date": "2024-02-03",
        "n_tokens": number,
        "rights_train": "allowed",
        "synthetic": False,
    }
    for number in range(60)
]
FACTS = {"provider_name": HOSTILE, "public_datasets": [{"name": HOSTILE, "link": "javascript:alert(1)"}]}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return write(tmp_path / "out", [ROWS[:40], ROWS[40:]], "parquet")


@pytest.fixture
def summary(output: Path) -> TrainingSummary:
    return training_summary(str(output), facts=FACTS, options=SummaryOptions(read_texts=True))


def texts_of(summary: TrainingSummary) -> list[str]:
    """All that a person is to see of a summary."""
    shown: list[str] = []
    for section in summary.sections:
        for field in section.fields:
            shown += [field.title, field.how if not field.blank else ""]
            for value in (field.stated, field.value):
                if isinstance(value, list) and value and isinstance(value[0], dict):
                    heads, cells = table_of(value)
                    shown += [*heads, *(cell for row in cells for cell in row)]
                elif isinstance(value, list):
                    shown += map(text_of, value)
                elif value is not None:
                    shown.append(text_of(value))
    return [text for text in shown if text]


def plain(text: str) -> str:
    return re.sub("[\x00-\x1f\ufffd]", "", text)


def test_a_document_of_word_has_the_same_numbers(summary: TrainingSummary, tmp_path: Path) -> None:
    write_docx(summary, tmp_path / "summary.docx")
    document = docx.Document(str(tmp_path / "summary.docx"))
    texts = [plain(paragraph.text) for paragraph in document.paragraphs]
    texts += [plain(cell.text) for table in document.tables for row in table.rows for cell in row.cells]
    assert not [text for text in map(plain, texts_of(summary)) if not any(text in shown for shown in texts)]
    domains = next(table for table in document.tables if table.cell(0, 1).text == "domain")
    field = summary.field("domains")
    assert field is not None
    assert [row.cells[1].text for row in domains.rows][1:] == [row["domain"] for row in field.value]
    assert [row.cells[3].text for row in domains.rows][1:] == [f"{row['bytes']:,}" for row in field.value]


def test_tables_on_a_terminal_name_their_columns(summary: TrainingSummary) -> None:
    console = Console(width=120, file=StringIO())
    with console.capture() as capture:
        console.print(summary)
    lines = [line.split() for line in capture.get().splitlines()]
    head = lines.index(["Most", "relevant", "domain", "names", "modality", "domain", "documents", "bytes"])
    field = summary.field("domains")
    assert field is not None
    rows = [[row["modality"], row["domain"], f"{row['documents']:,}", f"{row['bytes']:,}"] for row in field.value]
    assert lines[head + 1 : head + 1 + len(rows)] == rows
    assert ["language", "documents", "share", "of", "documents", "bytes"] in [line[-6:] for line in lines]


def test_the_page_escapes_what_comes_from_data_and_loads_nothing(summary: TrainingSummary) -> None:
    page = summary_page(summary)
    assert "<script" not in page
    assert "{{ 7 * 7 }}" in page
    assert not re.search(r"<(img|link rel=.stylesheet|iframe|object|embed)|src=|@import|url\(", page)
    assert not re.search(r'href="(?!#|data:,)', page)
    assert "prefers-color-scheme: dark" in page
    for name in ("text_tokens", "text_bytes", "domains_in_all"):
        field = summary.field(name)
        assert field is not None
        assert text_of(field.value) in page


def test_json_holds_all_fields_by_section_and_name(summary: TrainingSummary) -> None:
    values = json.loads(json.dumps(summary.to_dict()))
    assert list(values) == ["template", "outputs", "bytes_read", "sections"]
    assert values["outputs"] == ["out"]
    for section in summary.sections:
        shown = values["sections"][section.number]["fields"]
        assert [(name, field["value"]) for name, field in shown.items()] == [(f.name, f.value) for f in section.fields]
    assert values["sections"]["1.1"]["fields"]["provider_name"]["stated"] == HOSTILE


def test_neither_folders_nor_passwords_of_addresses_are_in_the_forms(summary: TrainingSummary, output: Path) -> None:
    far = TrainingSummary(summary.sections, ("https://me:pw@host/deep/out", "https://host/b?sig=hidden"))
    assert "hidden" not in json.dumps(far.to_dict())
    assert far.to_dict()["outputs"][0] == "out"
    for text in (json.dumps(summary.to_dict()), summary_page(summary), dataset_card(summary)):
        assert str(output.parent) not in text


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_croissant_is_valid_and_its_records_are_those_of_the_files(form: str, tmp_path: Path) -> None:
    rows = [{**row, "licence": None, "language": "en"} for row in ROWS]
    out = write(tmp_path / "out [1]", [rows[:40], rows[40:]], form)
    described = croissant(training_summary(str(out), facts={"dataset_licence": "MIT"}), str(tmp_path), "2026-08-02")
    (tmp_path / "croissant.json").write_text(json.dumps(described))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = mlcroissant.Dataset(jsonld=str(tmp_path / "croissant.json"))
        assert not data.metadata.ctx.issues.errors
        [records] = described["recordSet"]
        loaded = list(data.records(records["@id"]))
    key = records["@id"]
    reader = "read_parquet" if form == "parquet" else "read_json"
    wanted = duckdb.sql(f"SELECT url, text, n_tokens FROM {reader}('{tmp_path}/out ?1]/*')").fetchall()
    got = [(row[f"{key}/url"].decode(), row[f"{key}/text"].decode(), int(row[f"{key}/n_tokens"])) for row in loaded]
    assert sorted(got) == sorted(wanted)


def test_croissant_refuses_what_it_cannot_describe(output: Path, tmp_path: Path) -> None:
    summary = training_summary(str(output))
    with pytest.raises(PipelineError, match="is not below"):
        croissant(summary, str(tmp_path / "elsewhere"), "2026-08-02")
    (output / "more.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(PipelineError, match="neither all Parquet nor all plain JSON Lines"):
        croissant(training_summary(str(output)), str(tmp_path), "2026-08-02")


def test_licences_are_spdx_expressions_or_have_their_text(summary: TrainingSummary) -> None:
    document = spdx_document(summary, "2026-08-02T00:00:00Z")
    whole, *parts = document["packages"]
    known = {entry["licenseId"]: entry["extractedText"] for entry in document["hasExtractedLicensingInfos"]}
    assert known["LicenseRef-Our-licence"] == "Our licence"
    ids = [part["licenseConcluded"] for part in parts]
    assert {"CC-BY-4.0", "MIT", "LicenseRef-Our-licence"} <= set(ids)
    assert whole["licenseConcluded"] == " AND ".join(sorted(ids))
    for expression in ids:
        assert expression in known or canonicalize_license_expression(expression) == expression
        assert re.fullmatch(r"[A-Za-z0-9.-]+", expression)
    assert [part["comment"] for part in parts] == ["15 documents"] * 4
    contained = [
        pair["relatedSpdxElement"] for pair in document["relationships"] if pair["relationshipType"] == "CONTAINS"
    ]
    assert contained == [part["SPDXID"] for part in parts]
    with pytest.raises(PipelineError, match="column of licences"):
        spdx_document(TrainingSummary((), ()), "2026-08-02T00:00:00Z")


def test_the_card_has_valid_yaml_and_what_comes_from_data_ends_no_cell(summary: TrainingSummary) -> None:
    card = dataset_card(summary)
    _, head, body = card.split("---\n", 2)
    about: dict[str, Any] = yaml.safe_load(head)
    assert about["language"] == ["en"]
    assert about["size_categories"] == ["n<1K"]
    assert "<script" not in body
    field = summary.field("text_tokens")
    assert field is not None
    assert f"| Text: tokens | {field.value:,} |" in body
