"""Windows of films, and captions of them by a model behind a real endpoint."""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from dcurate import DocumentBatch, InlineExecutor, Pipeline, PipelineError
from dcurate.llm import AsyncOpenAIClient, Generate
from dcurate.media.refs import Ref, ref_array
from dcurate.video import CaptionWindows, FramePolicy
from dcurate.video.film import Film
from dcurate.video.selection import FrameSelector
from dcurate.video.windows import FrameWindow, sampled_frames, windows_of
from tests.video.films import film

pytestmark = pytest.mark.program


def test_windows_are_those_of_nemo_curator():
    """Worked by hand from its ``compute_windows``: the ends of windows for numbers of frames, 256 and 128."""
    expected = {
        3: [],
        4: [(0, 3)],
        256: [(0, 255)],
        257: [(0, 256)],
        383: [(0, 382)],
        384: [(0, 255), (256, 383)],
        512: [(0, 255), (256, 511)],
        639: [(0, 255), (256, 638)],
        640: [(0, 255), (256, 511), (512, 639)],
    }
    assert {frames: [tuple(window) for window in windows_of(frames)] for frames in expected} == expected
    for frames in range(4, 900):
        for size, least in ((256, 128), (10, 5), (7, 20)):
            cut = windows_of(frames, size, least)
            assert [cut[0].start, *(window.end + 1 for window in cut)] == [*(window.start for window in cut), frames]
            assert all(window.end - window.start + 1 == size for window in cut[:-1])


def test_sampled_frames_are_those_of_torch():
    torch = pytest.importorskip("torch")
    for total in range(4, 512, 5):
        for fps in (1.0, 10.0, 24000 / 1001, 25.0, 30.0, 60.0):
            for start in (0, 256, 2560):
                sampled = sampled_frames(FrameWindow(start, start + total - 1), fps)
                line = torch.linspace(start, start + total - 1, len(sampled)).round().long().tolist()
                assert sampled == line, (total, fps, start)
                assert len(sampled) % 2 == 0
                assert len(sampled) >= 4
    assert len(sampled_frames(FrameWindow(0, 255), 25.0)) == 20
    assert len(sampled_frames(FrameWindow(0, 9_999), 2.0)) == 768


@contextmanager
def cutting(**settings):
    stage = CaptionWindows(**settings)
    try:
        yield lambda rows: stage.process(DocumentBatch(data=pa.table(rows)))
    finally:
        stage.teardown()


def reds_of(data):
    """The mean red of each frame of a film."""
    chosen = Film(io.BytesIO(data)).chosen([FrameSelector(FramePolicy(), 0.0, None, 60.0)])
    return [float(frame.pixels()[..., 0].mean()) for _, frame in filter(None, chosen)]


def test_rows_have_the_frames_of_their_windows():
    films = {5: film(frames=105), 6: film("vp9", frames=30), 7: film(frames=3)}
    reds = {n: reds_of(data) for n, data in films.items()}
    with cutting(window_size=40, remainder_threshold=20) as cut:
        batch = cut({"n": list(films), "bytes": list(films.values())})
    rows = batch.to_arrow().to_pylist()
    assert [(row["n"], row["window_number"], row["window_start"], row["window_end"]) for row in rows] == [
        (5, 0, 0, 39), (5, 1, 40, 79), (5, 2, 80, 104), (6, 0, 0, 29),
    ]  # fmt: skip
    assert "bytes" not in rows[0]
    for row in rows:
        numbers = sampled_frames(FrameWindow(row["window_start"], row["window_end"]), 25.0)
        assert row["window_frames_s"] == pytest.approx([number / 25 for number in numbers], abs=2e-3)
        for number, data in zip(numbers, row["window_frames"], strict=True):
            assert np.asarray(Image.open(io.BytesIO(data)))[..., 0].mean() == pytest.approx(
                reds[row["n"]][number], abs=1
            )
    assert [(rejection.reason, rejection.rows) for rejection in batch.rejections] == [("too few frames", 1)]


def test_a_clip_has_windows_of_its_own(tmp_path):
    (tmp_path / "a.mp4").write_bytes(film(frames=100))
    refs = [Ref(str(tmp_path / "a.mp4"), None, None, None, *span) for span in ((1.0, 3.0), (0.0, None), (50.0, None))]
    with cutting() as cut:
        batch = cut({"media_ref": ref_array(refs)})
    rows = batch.to_arrow().to_pylist()
    assert [(row["window_start"], row["window_end"]) for row in rows] == [(0, 49), (0, 99)]
    assert rows[0]["window_frames_s"] == pytest.approx([1.0, 1.64, 2.32, 2.96])
    assert [rejection.reason for rejection in batch.rejections] == ["bad segment"]


def test_an_endpoint_is_asked_about_the_frames_of_each_window(endpoint):
    client = AsyncOpenAIClient(base_url=endpoint.url, base_delay_s=0.01)
    ask = Generate(
        prompt="Describe window {window_number}.",
        output_field="caption",
        client=client,
        model="made-up",
        images_field="window_frames",
    )
    source = DocumentBatch(data=pa.table({"bytes": [film(frames=60)]}))
    stages = [CaptionWindows(window_size=30, remainder_threshold=10), ask]
    rows = Pipeline("captions", stages=stages).run(InlineExecutor(), [source], observers=[]).to_arrow().to_pylist()
    assert len(rows) == 2
    for row in rows:
        shown = " ".join(f"<image/jpeg {hashlib.sha256(data).hexdigest()[:8]}>" for data in row["window_frames"])
        assert row["caption"] == f"echo: {shown} Describe window {row['window_number']}."


def test_frames_that_take_too_much_go_to_quarantine():
    with cutting(max_frame_bytes=1_000) as cut:
        batch = cut({"bytes": [film(frames=60)]})
    assert [rejection.reason for rejection in batch.rejections] == ["too many frames"]


@pytest.mark.parametrize("settings", [{"window_size": 3}, {"remainder_threshold": 0}, {"sampling_fps": 0}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(PipelineError, match=next(iter(settings))):
        CaptionWindows(**settings)
