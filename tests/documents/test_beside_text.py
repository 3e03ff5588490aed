"""Text of PDFs beside text of other sources."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    ParquetReader,
    Pipeline,
)
from dcurate.documents import PdfExtract
from dcurate.text import HtmlExtractor

SAMPLE = (files("dcurate") / "bundled" / "documents" / "sample.pdf").read_bytes()


def test_a_web_page_and_the_pdf_of_the_same_text_are_near_duplicates(tmp_path: Path) -> None:
    stage = PdfExtract()
    papers = stage.process(DocumentBatch(data=pa.table({"url": ["a.pdf"], "bytes": [SAMPLE]}), key=BatchKey("p")))
    stage.teardown()
    paragraphs = papers.to_arrow()["text"][0].as_py().split("\n\n")
    page = "<title>A novel</title><nav>Home</nav><article>" + "".join(f"<p>{one}</p>" for one in paragraphs)
    html = HtmlExtractor("resiliparse")
    html.setup()
    pages = html.process(DocumentBatch(data=pa.table({"url": ["a.html"], "content": [page.encode()]})))
    for name, batch in (("pdf", papers), ("html", pages)):
        pq.write_table(batch.to_arrow().select(["url", "text"]), tmp_path / f"{name}.parquet")
    stages = [ParquetReader(str(tmp_path)), FuzzyDuplicates(threshold=0.8)]
    result = Pipeline("both", stages=stages).run(InlineExecutor(), observers=[])
    assert [row["url"] for batch in result for row in DocumentBatch.given(batch).to_arrow().to_pylist()] == ["a.html"]
    assert result.report.stages[-1].dropped == {"fuzzy_duplicate": 1}


def test_a_reader_of_text_says_who_reads_pdfs(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(SAMPLE)
    with pytest.raises(DataError, match="read it with PdfReader, and make text of it with PdfExtract"):
        list(JsonlReader(str(tmp_path / "a.pdf")).splits())
