"""PDFs in folders and archives through a run on workers: nothing is lost, and everything of text applies."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    DaskExecutor,
    ExactDuplicates,
    JsonlWriter,
    LocalCluster,
    Modify,
    PdfReader,
    Pipeline,
    ScoreFilter,
    read_run,
)
from dcurate.core.pipeline import AnyStage
from dcurate.documents import CharactersPerPageFilter, PdfExtract
from dcurate.media import FileReading
from dcurate.recipe import load_recipe
from dcurate.text import LanguageId, PiiModifier
from tests.documents.made import WORDS, bomb, pdf

pytestmark = pytest.mark.cluster

LONG = "\n".join([WORDS] * 5)


def record(url: str, data: bytes, mime: str = "application/pdf") -> bytes:
    message = f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\n\r\n".encode() + data
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {len(message)}\r\n\r\n"
    return gzip.compress(head.encode() + message + b"\r\n\r\n")


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl")
    (folder / "a").mkdir()
    (folder / "a" / "good.pdf").write_bytes(pdf([f"{LONG}\nWrite to jo@example.org."]))
    (folder / "a" / "scan.pdf").write_bytes(pdf(["", ""]))
    (folder / "a" / "html.pdf").write_bytes(b"<html>not found</html>")
    (folder / "a" / "empty.pdf").write_bytes(b"")
    (folder / "a" / "notes.txt").write_text("not a PDF, and not named as one")
    with zipfile.ZipFile(folder / "some.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("copy.pdf", pdf([f"{LONG}\nWrite to jo@example.org."], info=b"<</Title (A copy)>>"))
        archive.writestr("bomb.pdf", bomb())
    with tarfile.open(folder / "some.tar", "w") as archive:
        for name, data in (("tar.pdf", pdf([f"{LONG}\nIn a tar."])), ("cut.pdf", pdf([LONG, LONG])[:-150])):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    pages = [
        record("http://a/1.pdf", pdf([f"{LONG}\nIn a web archive."])),
        record("http://a/2", b"<html>", "text/html"),
    ]
    (folder / "some.warc.gz").write_bytes(b"".join(pages))
    lines = [{"id": n, "content": base64.b64encode(pdf([f"{LONG}\nLine {n}."])).decode()} for n in range(2)]
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def done(crawl: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("done") / "out"
    stages: list[AnyStage] = [
        PdfReader(str(crawl), bytes_field="content"),
        PdfExtract(reading=FileReading(timeout_s=60)),
        LanguageId(),
        Modify(PiiModifier(anonymize_action="replace")),
        ScoreFilter(CharactersPerPageFilter()),
        ExactDuplicates(),
        JsonlWriter(str(out)),
    ]
    with LocalCluster(n_workers=2):
        Pipeline("pdfs", stages=stages).run(DaskExecutor(), rejected=f"{out}-rejected", observers=[])
    return out


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_every_file_of_every_container_is_a_row_or_has_its_reason(done: Path) -> None:
    kept = {row["file_name"].rpartition("/")[2]: row for row in rows_in(done)}
    texts = Counter(row["text"].split("wife.")[-1].strip() for row in kept.values())
    expected = ["Write to <EMAIL_ADDRESS>.", "In a tar.", "", "In a web archive.", "Line 0.", "Line 1."]
    assert texts == Counter(expected)
    assert {row["language"] for row in kept.values()} == {"en"}
    cut = next(row for row in kept.values() if row["truncated"])
    assert (cut["truncated"], cut["media_ref"]["member"]) == ("no end mark", "cut.pdf")
    report = read_run(str(done)).report
    stages = {stage.name: stage for stage in report.stages}
    assert stages["pdf_extract"].faulty == {"not a PDF: HTML": 1, "empty": 1, "out of memory": 1}
    assert stages["pdf_extract"].rows_in == len(expected) + len(["scan", "copy", "html", "empty", "bomb"])
    dropped = Counter(row["_dcurate_reason"] for row in rows_in(Path(f"{done}-rejected")))
    assert dropped == {"characters_per_page": 1, "exact_duplicate": 1}


def test_the_report_shows_what_was_set_aside_with_its_first_page(done: Path) -> None:
    page = (Path(f"{done}.dcurate") / "report.html").read_text()
    section = page[page.index('<section id="aside">') :].partition("</section>")[0]
    assert section.count("<figure>") == 5
    assert section.count('src="data:image/jpeg;base64,') == 2
    assert all(word in section for word in ("scan.pdf", "not a PDF: HTML", "out of memory", "cannot be drawn"))


def test_the_recipe_reads_the_same_files(crawl: Path, tmp_path: Path) -> None:
    recipe = load_recipe("pdf", {"input": f"{crawl}/a", "output": str(tmp_path / "out"), "output_format": "parquet"})
    result = recipe.pipeline.run(observers=[])
    report = read_run(str(tmp_path / "out")).report
    assert [stage.rows_out for stage in report.stages][-1] == 1
    del result
