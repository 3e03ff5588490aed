from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dcurate import DocumentBatch, PipelineError
from dcurate.documents import PdfExtract
from dcurate.documents.columns import DOCUMENT
from dcurate.documents.figures import figure_pictures
from dcurate.isolate.template import Forked
from dcurate.media import FileReading, Ref, ref_array
from dcurate.media.interleaved.schema import check
from tests.documents.made import WORDS, bomb, endless, objects_of, packed, pdf, written

#: Files by the reason for which they have no row; None for those that have one.
FILES: dict[bytes, str | None] = {
    pdf([WORDS, "Another page."]): None,
    pdf([""]): None,
    packed([WORDS]): None,
    pdf()[:-90]: None,
    pdf([]): "no pages",
    b"": "empty",
    b"<html><p>404</p></html>": "not a PDF: HTML",
    pdf()[:60]: "truncated",
    b"%PDF-1.7\n" + bytes(range(256)): "damaged",
}


@pytest.fixture(scope="module")
def stage() -> Iterator[PdfExtract]:
    stage = PdfExtract(reading=FileReading(timeout_s=20))
    stage.setup()
    yield stage
    stage.teardown()


def batch(files: list[bytes], **columns: object) -> DocumentBatch:
    rows = {"id": pa.array(range(len(files)), pa.int32()), "bytes": pa.array(files, pa.large_binary()), **columns}
    return DocumentBatch(data=pa.table(rows))


@settings(max_examples=25, deadline=None)
@given(files=st.lists(st.sampled_from(list(FILES)), max_size=8))
def test_every_file_is_a_row_or_has_its_reason(stage: PdfExtract, files: list[bytes]) -> None:
    result = stage.process(batch(files))
    rows = result.to_arrow()
    assert rows["id"].to_pylist() == [place for place, data in enumerate(files) if FILES[data] is None]
    expected = Counter(reason for data in files if (reason := FILES[data]))
    assert {each.reason: each.rows for each in result.rejections} == expected
    assert all(each.fault is (each.reason != "no pages") for each in result.rejections)
    lost = {number for each in result.rejections for number in each.data["id"].to_pylist()}
    assert lost == {place for place, data in enumerate(files) if FILES[data]}
    assert rows.schema.names == ["id", "text", *DOCUMENT.names]
    assert [rows.schema.field(name).type for name in ("id", "pages")] == [pa.int32(), DOCUMENT.field("pages").type]


def test_text_pages_and_signals_are_those_of_the_file(stage: PdfExtract) -> None:
    data = pdf([WORDS, "Another page."], info=b"<</Title (A book) /Producer (By hand)>>")
    row = stage.process(batch([data])).to_arrow().to_pylist()[0]
    assert row["text"] == f"{WORDS}\n\nAnother page."
    parts = [row["text"].encode()[span["start"] : span["stop"]].decode().strip() for span in row["page_spans"]]
    assert parts == [WORDS, "Another page."]
    assert (row["title"], row["producer"], row["creator"]) == ("A book", "By hand", None)
    assert (row["n_pages"], row["scanned_share"], row["rotated_share"]) == (2, 0.0, 0.0)
    assert [(page["number"], page["width"], page["height"]) for page in row["pages"]] == [(1, 612, 792), (2, 612, 792)]
    assert row["n_characters"] == sum(page["characters"] for page in row["pages"])


def test_what_the_crawler_says_about_a_cut_stays(stage: PdfExtract) -> None:
    said = pa.array(["time", None, None], pa.string())
    rows = stage.process(batch([pdf(), pdf()[:-90], pdf()], truncated=said)).to_arrow()
    assert rows["truncated"].to_pylist() == ["time", "no end mark", None]


def test_the_text_can_be_markdown_of_the_first_pages_in_a_column_of_another_name() -> None:
    with_markdown = PdfExtract(output="markdown", text_field="content", max_pages=1)
    row = with_markdown.process(batch([pdf([WORDS, "Another page."])])).to_arrow().to_pylist()[0]
    with_markdown.teardown()
    assert row["content"] == WORDS
    assert row["n_pages"] == 2


def test_interleaved_rows_have_the_pages_in_order_and_the_columns_of_their_pdf() -> None:
    stage = PdfExtract(output="interleaved", id_field="url")
    urls = pa.array(["a", "b", "c"])
    result = stage.process(batch([pdf([WORDS, "", "Another page."]), b"", pdf(["Text."])], url=urls))
    stage.teardown()
    rows = result.to_arrow()
    check(rows.column_names)
    assert [
        (row["sample_id"], row["position"], row["modality"], row["page"], row["id"])
        for row in rows.select(["sample_id", "position", "modality", "page", "id"]).to_pylist()
    ] == [
        ("a", -1, "metadata", None, 0),
        ("a", 0, "text", 1, 0),
        ("a", 1, "text", 3, 0),
        ("c", -1, "metadata", None, 2),
        ("c", 0, "text", 1, 2),
    ]
    assert rows["text_content"].to_pylist()[1:3] == [WORDS, "Another page."]
    assert json.loads(rows["text_content"][0].as_py())["n_pages"] == 3
    assert [each.reason for each in result.rejections] == ["empty"]


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_a_figure_is_drawn_from_its_place_on_the_page(rotate: int) -> None:
    objects = objects_of([""])
    objects[4] = b"<</Type /Page /Parent 2 0 R /Contents 5 0 R /Rotate %d>>" % rotate
    objects[5] = b"<</Length 30>>\nstream\n1 0 0 rg 100 600 200 100 re f \nendstream"
    figures = [{"page": 1, "bbox": [100, 92, 300, 192]}, {"page": 1, "bbox": [100, 92, 300, 93]}]
    red, rule = figure_pictures(written(objects), figures)
    assert rule == b""
    picture = Image.open(io.BytesIO(red))
    assert picture.size == ((400, 200) if rotate % 180 == 0 else (200, 400))
    reds, greens, _ = (np.asarray(band) for band in picture.split())
    assert reds.min() > 200
    assert greens.max() < 60


def rows_around(bad: bytes, timeout_s: float) -> tuple[list[str], list[tuple[str, list[int], bool]]]:
    """The texts of two good PDFs with another between them, and the reason, place and fault of what was lost."""
    stage = PdfExtract(reading=FileReading(timeout_s=timeout_s))
    result = stage.process(batch([pdf(), bad, pdf(["After it."])]))
    stage.teardown()
    lost = [(each.reason, each.data["id"].to_pylist(), each.fault) for each in result.rejections]
    return result.to_arrow()["text"].to_pylist(), lost


def test_a_pdf_that_takes_too_much_is_one_row_in_quarantine() -> None:
    assert rows_around(bomb(), 60.0) == ([WORDS, "After it."], [("out of memory", [1], True)])


def test_a_pdf_that_takes_too_long_is_one_row_in_quarantine() -> None:
    for seconds in (1.5, 10.0, 40.0):  # on a machine with much else to do, good ones may take a second, too
        texts, lost = rows_around(endless(), seconds)
        ((reason, rows, _),) = lost
        assert reason == "timed out"
        assert 1 in rows
        if rows == [1]:
            break
    assert (texts, lost) == ([WORDS, "After it."], [("timed out", [1], True)])


def test_files_that_are_gone_or_too_large_are_faults_of_their_rows(tmp_path: object) -> None:
    refs = ref_array([Ref(f"{tmp_path}/gone.pdf")])
    stage = PdfExtract(reading=FileReading(max_file_bytes=100))
    gone = stage.process(DocumentBatch(data=pa.table({"media_ref": refs})))
    large = stage.process(batch([pdf()]))
    stage.teardown()
    assert [gone.rejections[0].reason, large.rejections[0].reason] == ["missing", "too large"]
    assert gone.rejections[0].data["media_ref"].to_pylist()[0]["path"].endswith("gone.pdf")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"output": "html"}, "output='html' is not one of 'text'"),
        ({"max_pages": 0}, "max_pages=0 must be at least 1"),
        ({"reading": FileReading(sandbox=False)}, "always reads files in a child process; leave out sandbox=False"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting: dict[str, object], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        PdfExtract(**setting)  # type: ignore[arg-type]


PLUGIN = """
import threading
def init():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def test_the_child_is_forked_so_that_a_bomb_costs_little_more_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a plugin of Numba that is installed starts a thread."""
    (tmp_path / "plugin_of_numba.py").write_text(PLUGIN)
    (tmp_path / "plugin_of_numba-1.dist-info").mkdir()
    (tmp_path / "plugin_of_numba-1.dist-info" / "METADATA").write_text("Name: plugin-of-numba\nVersion: 1\n")
    points = tmp_path / "plugin_of_numba-1.dist-info" / "entry_points.txt"
    points.write_text("[numba_extensions]\ninit = plugin_of_numba:init\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    stage = PdfExtract(ocr="off")
    stage.setup()
    stage.process(batch([pdf()]))
    assert stage._sandbox is not None
    assert stage._sandbox._child is not None
    assert isinstance(stage._sandbox._child._process, Forked)
    stage.teardown()


def test_rows_without_files_are_refused(stage: PdfExtract) -> None:
    with pytest.raises(PipelineError, match="read the files with PdfReader"):
        stage.process(DocumentBatch(data=pa.table({"text": ["a"]})))
