"""``dcurate summary`` as the guide runs it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import docx
import pandas as pd
import pytest
from click.testing import CliRunner

from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline
from dcurate.cli import cli
from dcurate_testing.browser import CHROMIUM, Browser, chromium
from tests.conftest import ROOT, skip_outside_ci
from tests.docs.test_examples import commands, examples

GUIDE = (ROOT / "docs" / "howto" / "summary.md").read_text("utf-8")


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(cli, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the sample, the Python and the commands of the guide ran."""
    monkeypatch.chdir(tmp_path)
    [facts] = re.findall(r'```yaml title="facts.yaml"\n(.*?)```', GUIDE, re.DOTALL)
    Path("facts.yaml").write_text(facts, "utf-8")
    invoke("sample", "crawl", "--crawl")
    exec(compile(examples(GUIDE), "guide", "exec"), {})
    for arguments in commands(GUIDE):
        if arguments[0] == "summary":
            invoke(*arguments)
    return tmp_path


def test_the_commands_of_the_guide_write_what_it_says(made: Path) -> None:
    values = json.loads((made / "summary.json").read_text())
    fields = {name: field for part in values["sections"].values() for name, field in part["fields"].items()}
    assert fields["provider_name"]["stated"] == "ACME Models"
    assert fields["collection_period"]["value"] == "2024-02-03 to 2024-02-03"
    [domain] = fields["domains"]["value"]
    assert domain["domain"] == "example.org"
    assert domain["documents"] == fields["text_documents"]["value"] > 200
    assert fields["text_tokens"]["estimate"]
    rows = list(csv.DictReader((made / "domains.csv").read_text().splitlines()))
    assert [(row["domain"], int(row["bytes"])) for row in rows] == [(domain["domain"], domain["bytes"])]
    assert docx.Document(str(made / "summary.docx")).paragraphs[0].text == "Public summary of training content"
    assert json.loads((made / "croissant.json").read_text())["recordSet"]
    assert (made / "README.md").read_text().startswith("---\n")
    shown = invoke("summary", "web/", "--json", "-")
    assert json.loads(shown)["sections"]["1.3"]["fields"]["text_documents"] == fields["text_documents"]
    assert "error" in CliRunner().invoke(cli, ["summary", "web/", "--column", "url"]).output.lower()


@pytest.mark.program
@pytest.mark.parametrize("width", [1200, 420])
def test_a_browser_shows_the_page_without_complaints(made: Path, width: int) -> None:
    if CHROMIUM is None:
        skip_outside_ci("Chromium is not installed: apt-get install chromium")
    with chromium() as opened:
        browser: Browser = opened
        browser.open((made / "summary.html").as_uri(), width=width)
        browser.wait("document.readyState === 'complete' && document.querySelectorAll('section').length > 10")
        assert browser.complaints == []
        assert browser.value("document.documentElement.scrollWidth <= window.innerWidth")
        assert "example.org" in browser.value("document.body.innerText")


@pytest.mark.parametrize("command", ["summary", "lineage"])
@pytest.mark.parametrize("option", ["--html", "--json"])
def test_folders_of_files_are_made_and_errors_are_sentences(command: str, option: str, tmp_path: Path) -> None:
    rows = DocumentBatch(data=pd.DataFrame({"text": ["words"]}))
    out = tmp_path / "out"
    Pipeline("demo", stages=[JsonlWriter(str(out))]).run(InlineExecutor(), [rows], observers=[])
    done = CliRunner().invoke(cli, [command, str(out), option, str(tmp_path / "new" / "page")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "page").stat().st_size
    [file] = out.glob("*.jsonl")
    done = CliRunner().invoke(cli, [command, str(out), option, str(file / "page")])
    assert done.exit_code == 1
    assert str(done.exception) == f"cannot write '{file / 'page'}': Not a directory"
