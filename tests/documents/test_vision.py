from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest
from PIL import Image

from dcurate import DocumentBatch, PipelineError, ProcessingStage
from dcurate.documents import NeedsOcr, VisionExtract
from dcurate.documents.conventions import CONVENTIONS, read_nemotron_parse, read_olmocr
from dcurate.llm import AsyncOpenAIClient, RequestError
from dcurate_testing.llm_server import Endpoint

FRONT = "---\nprimary_language: en\nis_rotation_valid: {}\nrotation_correction: {}\nis_table: False\n---\n"


def scan(pages: int) -> bytes:
    pictures = [Image.new("RGB", (120, 160), (number, 200, 255)) for number in range(pages)]
    stream = io.BytesIO()
    pictures[0].save(stream, "PDF", save_all=True, append_images=pictures[1:])
    return stream.getvalue()


def batch(texts: list[str]) -> DocumentBatch:
    """A document whose pages without text are scans."""
    spans, pages, at = [], [], 0
    for number, text in enumerate(texts, 1):
        spans.append({"start": at, "stop": at + len(text.encode())})
        at += len(text.encode()) + 2
        pages.append({"number": number, "characters": 20 * len(text), "image_share": 0.0 if text else 1.0})
    data = pa.array([scan(len(texts))], pa.large_binary())
    return DocumentBatch(
        data=pa.table({"bytes": data, "text": ["\n\n".join(texts)], "pages": [pages], "page_spans": [spans]})
    )


def read(stage: ProcessingStage, given: DocumentBatch) -> dict:
    stage.setup()
    try:
        return stage.process(given).to_arrow().drop_columns(["bytes"]).to_pylist()[0]
    finally:
        stage.teardown()


def stage(endpoint: Endpoint, **options) -> VisionExtract:
    client = AsyncOpenAIClient(base_url=endpoint.url, base_delay_s=0.01, max_retries=1)
    return VisionExtract(client=client, model="made-up", **options)


def test_pages_of_the_route_take_their_place_in_the_text(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["one page of a document", FRONT.format("True", 0) + "Réad by a model"]])
    given = NeedsOcr(otherwise="vision").process(batch(["The fîrst page.", "", "The third page."]))
    row = read(stage(endpoint, convention="olmocr"), given)
    data = row["text"].encode()
    parts = [data[span["start"] : span["stop"]].decode() for span in row["page_spans"]]
    assert parts == ["The fîrst page.", "Réad by a model", "The third page."]
    assert [page["route"] for page in row["pages"]] == ["text", "vision", "text"]
    (body,) = endpoint.seen.bodies
    picture, prompt = body["messages"][0]["content"]
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    assert prompt["text"] == CONVENTIONS["olmocr"].prompt


def test_a_page_is_turned_when_the_model_asks_for_it(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["one page of a document", FRONT.format("False", 90) + "Turned"]])
    given = NeedsOcr(otherwise="vision").process(batch([""]))
    row = read(stage(endpoint, convention="olmocr"), given)
    assert row["text"] == "Turned"
    first, second = (body["messages"][0]["content"][0]["image_url"]["url"] for body in endpoint.seen.bodies)
    assert first != second


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"replies": [["one page of a document", "no front matter"]]}, "vision model: unreadable answer"),
        ({"faults": [{"status": 500, "times": 9}]}, "vision model: "),
        ({"faults": [{"kind": "length", "times": 9}]}, "vision model: answer too long"),
    ],
)
def test_a_page_without_a_usable_answer_is_set_aside(endpoint: Endpoint, behaviour: dict, reason: str) -> None:
    endpoint.behave(**behaviour)
    given = NeedsOcr(otherwise="vision").process(batch(["Good.", ""]))
    row = read(stage(endpoint, convention="olmocr"), given)
    assert row["text"] == "Good.\n\n"
    assert row["pages"][1]["route"] == "set aside"
    assert row["pages"][1]["route_reason"].startswith(reason)


def test_nothing_is_asked_where_nothing_is_routed(endpoint: Endpoint) -> None:
    read(stage(endpoint), NeedsOcr().process(batch(["Good.", ""])))
    assert endpoint.seen.requests == 0


def test_answers_of_nemotron_parse_are_blocks_with_classes() -> None:
    block = "<x_0.1><y_0.0512>{}<x_0.9><y_0.2><class_{}>"
    given = [("Head", "Page-header"), ("Fish", "Title"), ("a < b <i>", "Text"), ("Cod", "List-item"), ("", "Picture")]
    answer = "".join(block.format(*each) for each in given)
    assert read_nemotron_parse(answer).text == "# Fish\n\na < b <i>\n\n- Cod"
    with pytest.raises(RequestError, match="no block"):
        read_nemotron_parse("Sorry, I cannot do that.")


def test_answers_of_olmocr_may_say_that_a_page_is_empty() -> None:
    assert read_olmocr(FRONT.format("True", 0) + "null").text == ""
    with pytest.raises(RequestError, match="is not a turn"):
        read_olmocr(FRONT.format("False", "'a lot'"))


def test_settings_are_checked(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="convention='olmoocr' is unknown; did you mean 'olmocr'"):
        stage(endpoint, convention="olmoocr")
    assert json.dumps(sorted(stage(endpoint).settings()))
