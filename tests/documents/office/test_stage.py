from __future__ import annotations

import pyarrow as pa
import pytest

from dcurate import DocumentBatch, PipelineError
from dcurate.documents import OfficeExtract
from dcurate.media import FileReading
from tests.documents.office import files


def test_every_file_is_a_row_or_has_its_reason() -> None:
    given = {
        "docx": files.docx_file(),
        "pptx": files.pptx_file(),
        "doc": files.zipped({"a": "b"}),
        "empty": b"",
        "blank": rb"{\rtf1 }",
        "bomb": files.zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": bytes(80_000_000)}),
        "odt": files.odt_file(),
    }
    data = pa.array(list(given.values()), pa.large_binary())
    stage = OfficeExtract(output="markdown")
    result = stage.process(DocumentBatch(data=pa.table({"name": list(given), "bytes": data})))
    stage.teardown()
    rows = {row["name"]: row for row in result.to_arrow().to_pylist()}
    assert list(rows) == ["docx", "pptx", "odt"]
    assert rows["docx"]["text"].startswith("# About fish")
    assert (rows["docx"]["title"], rows["docx"]["author"], rows["docx"]["kind"]) == ("The fish", "A. Writer", "docx")
    assert [page["number"] for page in rows["pptx"]["pages"]] == [1, 2]
    assert rows["pptx"]["n_characters"] == sum(page["characters"] for page in rows["pptx"]["pages"])
    reasons = {row["name"]: each.reason for each in result.rejections for row in each.data.to_pylist()}
    assert reasons == {"doc": "not an office file", "empty": "empty file", "bomb": "zip bomb", "blank": "no text"}
    assert [each.fault for each in result.rejections if each.reason == "no text"] == [False]


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(PipelineError, match="timeout_s=0 must be above zero"):
        OfficeExtract(reading=FileReading(timeout_s=0))
    with pytest.raises(PipelineError, match="needs a column 'media_ref' or 'bytes'"):
        OfficeExtract().process(DocumentBatch(data=pa.table({"text": ["a"]})))
