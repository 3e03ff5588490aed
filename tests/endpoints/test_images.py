"""Pictures in the questions to a vision model, against a real server."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcurate import DocumentBatch, InlineExecutor, Pipeline, PipelineError
from dcurate.endpoints.config import Request
from dcurate.endpoints.images import content, data_url
from dcurate.llm import AsyncOpenAIClient, Generate, GenerationConfig, RequestError
from dcurate.media.refs import Ref, ref_array
from dcurate_testing.llm_server import Endpoint

pytestmark = pytest.mark.program

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
JPEG = b"\xff\xd8\xff\xe0" + bytes(64)
REF = "https://example.org/a.png"


def caption(endpoint: Endpoint, **settings: Any) -> Generate:
    client = AsyncOpenAIClient(base_url=endpoint.url, base_delay_s=0.01)
    plain = {"prompt": "Describe it.", "output_field": "caption", "images_field": "image"}
    return Generate(**{**plain, "client": client, "model": "made-up", **settings})


def run(stage: Generate, table: pa.Table) -> Any:
    batch = DocumentBatch(data=table)
    return Pipeline("test", stages=[stage]).run(InlineExecutor(), initial_tasks=[batch], observers=[])


def shown(kind: str, data: bytes) -> str:
    return f"<{kind} {hashlib.sha256(data).hexdigest()[:8]}>"


def test_the_endpoint_gets_the_bytes_of_each_row_before_its_prompt(endpoint: Endpoint) -> None:
    table = pa.table({"image": pa.array([PNG, None, JPEG], pa.large_binary())})
    [batch] = run(caption(endpoint), table)
    assert batch.to_arrow()["caption"].to_pylist() == [
        f"echo: {shown('image/png', PNG)} Describe it.",
        None,
        f"echo: {shown('image/jpeg', JPEG)} Describe it.",
    ]


def test_lists_addresses_and_hugging_face_s_layout_are_pictures_too(endpoint: Endpoint) -> None:
    layout = pa.table({"image": [[{"bytes": PNG, "path": "a.png"}, {"bytes": JPEG, "path": None}]]})
    [batch] = run(caption(endpoint), layout)
    both = f"{shown('image/png', PNG)} {shown('image/jpeg', JPEG)}"
    assert batch.to_arrow()["caption"].to_pylist() == [f"echo: {both} Describe it."]
    [batch] = run(caption(endpoint), pa.table({"image": [REF]}))
    assert batch.to_arrow()["caption"].to_pylist() == [f"echo: <{REF}> Describe it."]


def test_pictures_are_fetched_by_reference(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    refs = ref_array([Ref(str(tmp_path / "a.png")), None, Ref(str(tmp_path / "gone.png"))])
    stage = caption(endpoint, images_field="media_ref", on_error="null", error_field="error")
    [batch] = run(stage, pa.table({"media_ref": refs}))
    assert batch.to_arrow()["caption"].to_pylist() == [f"echo: {shown('image/png', PNG)} Describe it.", None, None]
    assert [bool(error) for error in batch.to_arrow()["error"].to_pylist()] == [False, False, True]


def test_a_file_that_is_no_picture_goes_to_quarantine_with_its_reason(endpoint: Endpoint) -> None:
    table = pa.table({"image": pa.array([b"<html>", PNG], pa.binary())})
    result = run(caption(endpoint), table)
    assert sum(batch.num_items for batch in result) == 1
    [rejection] = caption_rejections(endpoint, table)
    assert (rejection.reason, rejection.rows, rejection.fault) == ("no picture", 1, True)


def caption_rejections(endpoint: Endpoint, table: pa.Table) -> Any:
    stage = caption(endpoint)
    stage.setup()
    try:
        return stage.process(DocumentBatch(data=table)).rejections
    finally:
        stage.teardown()


def test_a_column_of_numbers_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="holds int, not pictures"):
        run(caption(endpoint), pa.table({"image": [1]}))


def test_what_is_no_picture_is_refused_before_it_is_sent() -> None:
    for wrong in (b"", b"II*\0", "ftp://example.org/a.png"):
        with pytest.raises(RequestError) as refused:
            data_url(wrong)
        assert refused.value.reason == "no picture"


def test_a_limit_of_tokens_counts_a_picture_by_its_size_on_screen_not_by_its_bytes() -> None:
    large = Request([{"role": "user", "content": content("Hi", [PNG + bytes(10**6)])}], "m", GenerationConfig())
    small = Request([{"role": "user", "content": content("Hi", [PNG])}], "m", GenerationConfig())
    assert large.size == small.size < 1000
