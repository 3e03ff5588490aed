"""NeMo Curator's pipelines of recordings under its names: rows are those that its own stages make."""

from __future__ import annotations

import copy
import importlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tokenizers
import torch

from dcurate import DataError, PipelineError
from dcurate.compat import nemo
from dcurate.compat.nemo.audio_stages.snippet_outputs import append_member, shard_path
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.missing import MissingError
from tests.audio.test_signals import nemo_bandwidth
from tests.audio.test_speech import voice

pytestmark = pytest.mark.cluster

_FILE = Path(__file__).parent / "nemo" / "audio_rows.jsonl"
#: Rows, drawn at random, and what the stages of NeMo Curator 1.4.0 make of them.
CASES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]
STAGES = sorted({case["stage"] for case in CASES})


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    nemo.install()
    yield
    nemo.uninstall()


def of(module: str, *names: str) -> Any:
    """Names of a module of NeMo Curator."""
    found = [getattr(importlib.import_module(f"nemo_curator.{module}"), name) for name in names]
    return found[0] if len(found) == 1 else found


def row_of(stage: Any, row: dict[str, Any]) -> dict[str, Any]:
    task = stage.process(of("tasks", "AudioTask")(data=copy.deepcopy(row)))
    return dict(task.data)


def rules(folder: Path) -> None:
    """The files that the cases name."""
    (folder / "phrases.txt").write_text("Thank you\nSubtitles by\nyou\n\n", "utf-8")
    lines = [{"pattern": " um ", "repl": " "}, {"pattern": r"\[.*?\]", "repl": " "}]
    lines.append({"pattern": "a", "repl": "e", "count": 1})  # type: ignore[dict-item]
    (folder / "rules.yaml").write_text(json.dumps(lines), "utf-8")


@pytest.mark.parametrize("name", STAGES)
def test_rows_are_those_that_nemos_own_stage_makes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules(tmp_path)
    monkeypatch.chdir(tmp_path)
    module, _, kind = name.partition(":")
    for case in (case for case in CASES if case["stage"] == name):
        stage = of(module, kind)(**case["settings"])
        stage.setup()
        made = row_of(stage, case["row"])
        assert json.loads(json.dumps(made)) == case["result"], case["settings"]


def test_the_cases_change_rows_of_every_stage() -> None:
    for name in STAGES:
        changed = [case["result"] != case["row"] for case in CASES if case["stage"] == name]
        assert sum(changed) >= 5, name


def manifest(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def conversation(number: int) -> dict[str, Any]:
    """A row of a manifest with the turns of two speakers, and values that no stage knows."""
    turns = [
        {
            "start": 30.0 * turn,
            "end": 30.0 * turn + 28,
            "speaker": "ab"[turn % 2],
            "metrics": {"bandwidth": 8000},
            "words": [{"word": "yes", "start": 30.0 * turn, "end": 30.0 * turn + 1}],
        }
        for turn in range(12)
    ]
    about = {"audio_filepath": f"{number}.wav", "audio_sample_rate": 16000, "note": [number, None, {"x": "\u00df"}]}
    return {**about, "segments": turns}


def test_the_tutorial_of_conversations_runs(client: RayClient, tmp_path: Path) -> None:
    """The stages, arguments and order of tutorials/audio/alm/pipeline.yaml."""
    create = of("config.run", "create_pipeline_from_yaml")
    rows = [conversation(number) for number in range(7)] + [{**conversation(7), "audio_sample_rate": 8000}]
    target = tmp_path / "out" / "alm_output.jsonl"
    target.parent.mkdir()
    target.write_text("of an earlier run\n")
    stages = [
        {
            "_target_": "nemo_curator.stages.audio.ManifestReader",
            "manifest_path": manifest(tmp_path / "in.jsonl", rows),
            "files_per_partition": 1,
        },
        {
            "_target_": "nemo_curator.stages.audio.alm.ALMDataBuilderStage",
            "target_window_duration": 120.0,
            "tolerance": 0.1,
            "min_sample_rate": 16000,
            "min_bandwidth": 8000,
            "min_speakers": 2,
            "max_speakers": 5,
            "truncation": True,
            "drop_fields": "words",
            "drop_fields_top_level": "words,segments",
        },
        {
            "_target_": "nemo_curator.stages.audio.alm.ALMDataOverlapStage",
            "overlap_percentage": 50,
            "target_duration": 120.0,
        },
        {"_target_": "nemo_curator.stages.audio.ManifestWriterStage", "output_path": str(target)},
    ]
    results = create({"stages": stages}).run(of("backends.xenna", "XennaExecutor")())
    written = {row["audio_filepath"]: row for row in lines(target)}
    assert len(lines(target)) == len(results) == len(written) == 8
    for row in rows[:7]:
        made = written[row["audio_filepath"]]
        assert made["note"] == row["note"]
        assert "segments" not in made
        # one begins at each turn but the last 3: 4 turns of 118 s, and the first word of the next, which is cut
        assert len(made["windows"]) == 9
        assert [window["segments"][0]["start"] for window in made["filtered_windows"]] == [0.0, 90.0, 180.0]
        assert made["filtered_dur"] == 3 * 121.0
    assert written["7.wav"]["windows"] == []
    assert written["7.wav"]["stats"]["lost_sr"] == 12
    metrics = of("tasks.utils", "TaskPerfUtils").collect_stage_metrics(results)
    assert 9 <= metrics["alm_data_builder"]["custom.windows_created"].sum() <= 7 * 9


def test_the_tutorial_of_hallucinations_runs(client: RayClient, tmp_path: Path) -> None:
    """The stages, arguments and order of tutorials/audio/whisper_hallucination/pipeline.yaml."""
    rules(tmp_path)
    texts = {"the cat sat on the mat": "", "Thank you.": "Hallucination:WhisperHallucination", "": ""}
    rows = [{"pred_text": text, "_skipme": "", "duration": 4.0, "language": "en"} for text in texts]
    reader, writer = of("stages.audio.common", "ManifestReader", "ManifestWriterStage")
    pipeline = of("pipeline", "Pipeline")(name="hallucinations")
    pipeline.add_stage(reader(manifest_path=manifest(tmp_path / "in.jsonl", rows), files_per_partition=1))
    pipeline.add_stage(
        of("stages.audio.text_filtering", "WhisperHallucinationStage")(
            common_hall_file=str(tmp_path / "phrases.txt"),
            unique_words_threshold=0.4,
            long_word_threshold=25,
            agglutinative_long_word_threshold=35,
            long_word_rel_threshold=3.0,
            max_char_rate=40.0,
            overwrite=False,
            recovery_value="",
        )
    )
    pipeline.add_stage(writer(output_path=str(tmp_path / "out.jsonl")))
    pipeline.run(of("backends.ray_data", "RayDataExecutor")())
    assert {row["pred_text"]: row["_skipme"] for row in lines(tmp_path / "out.jsonl")} == texts


def test_the_tutorial_of_read_speech_runs_without_its_models(client: RayClient, tmp_path: Path) -> None:
    """The stages of tutorials/audio/readspeech/pipeline.py with ``--enable-vad``, on files as it unpacks them."""
    folder = tmp_path / "data" / "read_speech"
    folder.mkdir(parents=True)
    samples = np.repeat(voice(20.0), 3)  # the same sound at 48 kHz, but for what is above 8 kHz
    for number in range(2):
        soundfile.write(folder / f"book_0{number}_chp_1_reader_9_x.wav", samples, 48_000)
    soundfile.write(folder / "other_rate.wav", samples, 44_100)
    composite = of("stages.audio.advanced_pipelines", "AudioDataFilterStage")
    off = {name: {"enable": False} for name in ("band_filter", "utmos", "sigmos", "speaker_separation")}
    stages = [
        of("stages.audio.datasets.readspeech", "CreateInitialManifestReadSpeechStage")(
            raw_data_dir=str(tmp_path / "data"), max_samples=5000, auto_download=False, batch_size=1
        ),
        composite(config={"mono_conversion": {"output_sample_rate": 48000}, "vad": {"enable": True}, **off}),
        of("stages.audio.io.convert", "AudioToDocumentStage")(),
        of("stages.text.io.writer", "JsonlWriter")(path=str(tmp_path / "out"), write_kwargs={"force_ascii": False}),
    ]
    of("pipeline", "Pipeline")(name="readspeech", stages=stages).run(of("backends.xenna", "XennaExecutor")())
    written = [row for path in sorted((tmp_path / "out").glob("*.jsonl")) for row in lines(path)]
    assert {Path(row["original_file"]).name for row in written} == {
        f"book_0{number}_chp_1_reader_9_x.wav" for number in range(2)
    }
    for row in written:
        assert row["duration_ms"] == row["original_end_ms"] - row["original_start_ms"] >= 2000
        assert row["sample_rate"] == 48000
    with pytest.raises(MissingError, match="'utmos' of AudioDataFilterStage is not in dcurate"):
        composite(config={**off, "utmos": {"enable": True}}).decompose()


def tokenizer(folder: Path) -> str:
    """A tokenizer of whole words."""
    words = {word: number for number, word in enumerate(["?", *"abcdefghij"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return str(folder)


def long_recordings(folder: Path) -> list[dict[str, Any]]:
    """Recordings in stereo at 24 kHz, with segments that stay and some of each kind that is dropped."""
    folder.mkdir()
    ramp = np.linspace(-0.5, 0.5, 24_000 * 100)
    spans = [(0.0, 4.0, "a b"), (5.0, 9.0, "c"), (9.5, 9.9, ""), (50.0, 80.0, "d"), (81.0, 81.2, "e")]
    spans += [(84.0, 88.0, "f"), (87.0, 89.0, "g"), (95.0, 99.0, "h " * 30)]
    rows = []
    for number in range(3):
        soundfile.write(folder / f"{number}.wav", np.stack([ramp, 0 * ramp], axis=1), 24_000)
        segments = [
            {"speaker": "x", "start": start, "end": end, "text": text, "words": [{"word": text, "start": start - 0.01}]}
            if text
            else {"speaker": "x", "start": start, "end": end, "text": text}
            for start, end, text in spans
        ]
        rows.append(
            {
                "id": f"talks/{number}.x",
                "audio_filepath": f"elsewhere/{number}.wav",
                "duration": 100.0,
                "audio_sample_rate": 24_000,
                "alignment": [1],
                "note": {"n": number},
                "text": "all",
                "segments": list(reversed(segments)),
            }
        )
    return [*rows, {**rows[0], "id": "gone", "audio_filepath": "gone.wav"}, {**rows[0], "id": "silent", "segments": []}]


@pytest.mark.parametrize("dry", [False, True])
def test_the_tutorial_of_snippets_runs(client: RayClient, tmp_path: Path, dry: bool) -> None:
    """What tutorials/audio/audio_pretrain/run.py calls, with its arguments."""
    build, prepare, finalize = of(
        "stages.audio.alm.pretrain",
        *("build_audio_pretrain_pipeline", "prepare_audio_pretrain_outputs", "finalize_audio_pretrain_outputs"),
    )
    rows = long_recordings(tmp_path / "sound")
    rows[4]["audio_filepath"] = "silent.wav"
    extra = [{"audio_filepath": "no id.wav"}, {**rows[0], "note": "again"}]
    source = manifest(tmp_path / "in.jsonl", [*rows, *extra])
    Path(source).write_text(Path(source).read_text() + "{not json\n")
    out, tar, metrics = (tmp_path / "new" / name for name in ("snippets.jsonl", "snippets.tar", "metrics.json"))
    out.parent.mkdir()
    (out.parent / "snippets.jsonl.shard-1-old.jsonl").write_text("of a run that was stopped\n")
    pipeline = build(
        input_manifest=source,
        audio_dir=str(tmp_path / "sound"),
        output_dir=str(tmp_path / "new"),
        output_manifest_path=str(out),
        output_audio_tar_path=str(tar),
        metrics_path=str(metrics),
        max_duration_sec=15.0,
        tokenizer_path=tokenizer(tmp_path / "tokenizer"),
        dry_run=dry,
    )
    assert "audio_pretrain_long_form_cut" in pipeline.describe()
    prepare(str(out), str(metrics), str(tar))
    pipeline.run(of("backends.xenna.executor", "XennaExecutor")(config={"execution_mode": "streaming"}))
    finalize(str(out), str(metrics), str(tar), audio_filepath_key="audio_filepath")
    assert {path.name for path in out.parent.iterdir()} == {out.name, metrics.name} | (set() if dry else {tar.name})
    written, of_gone = lines(out), [row for row in lines(out) if row["id"] == "gone"]
    assert len(of_gone) == (1 if dry else 0)
    kept = [row for row in written if row["id"] != "gone"]
    assert len(kept) == 3
    for number, row in enumerate(kept):
        assert re.fullmatch(rf"talks_{number}_x-[0-9a-f]{{16}}-0_000-9_000", row["snippet_id"])
        assert row["audio_filepath"] == f"{row['snippet_id']}.flac"
        assert (row["duration"], row["audio_sample_rate"], row["text"]) == (9.0, 16_000, "a b c")
        assert row["note"] == {"n": number}
        assert "alignment" not in row
        assert [(part["start"], part["end"], part["words"][0]["start"]) for part in row["segments"]] == [
            (0.0, 4.0, 0.0),
            (5.0, 9.0, 4.99),
        ]
    summary = json.loads(metrics.read_text())
    dropped = {"empty": 1, "overlap": 2, "too_long": 1, "too_short": 1, "no_text": 0, "repetition": 1}
    dropped |= {"unreadable": 0, "no_sound": 0}
    assert summary["num_input_audios"] == 5
    assert summary["num_output_snippets"] == len(written)
    assert summary["dropped"] == {name: 4 * count for name, count in dropped.items()} | {"unreadable": int(not dry)}
    assert summary["snippet_duration_histogram_30s"] == {"0-30": len(written)}
    assert summary["output_total_duration_sec"] == 9.0 * len(written)
    assert summary["dropped_repetition_examples"] == [("h " * 30).strip()] * 4
    counts = {row["id"]: (row["in_segments"], row["out_snippets"], row["dropped"]) for row in summary["per_original"]}
    assert counts["talks/1.x"] == (8, 1, dropped)
    assert counts["silent"] == (0, 0, dict.fromkeys(dropped, 0))
    if not dry:
        with tarfile.open(tar) as archive:
            assert archive.getnames() == [row["audio_filepath"] for row in written]
            sound, rate = soundfile.read(io.BytesIO(archive.extractfile(archive.getnames()[1]).read()))
        assert (sound.ndim, len(sound), rate) == (1, 144_000, 16_000)
        expected = np.linspace(-0.25, 0.25, 1_600_000)[:144_000]
        assert np.abs(sound - expected)[200:-200].max() < 1e-3  # resampling rings at both ends


def test_snippets_that_are_written_twice_or_not_whole_are_there_once_or_counted(tmp_path: Path) -> None:
    extract = of("stages.audio.alm.pretrain.extraction", "SnippetExtractionStage")
    write, count = of("stages.audio.alm.pretrain.io", "SnippetManifestWriterStage", "PretrainMetricsAggregatorStage")
    prepare, finalize = of(
        "stages.audio.alm.pretrain", "prepare_audio_pretrain_outputs", "finalize_audio_pretrain_outputs"
    )
    path = sound(tmp_path / "a.wav", 8.0)
    plan = [{"start": start, "end": start + 2, "segments": []} for start in (0.0, 2.0, 4.0)]
    row = {"id": "a", "audio_filepath": path, "_snippet_plan": plan}
    out, tar, metrics = (str(tmp_path / name) for name in ("out.jsonl", "out.tar", "metrics.json"))
    prepare(out, metrics, tar)
    for _ in range(2):  # as if a worker had died, and the task had run again
        for task in extract(str(tmp_path), tar).process(of("tasks", "AudioTask")(data=row)):
            count(metrics).process(write(out).process(task))
    [shard] = tmp_path.glob("out.tar.shard-*")
    whole = shard.read_bytes()
    first = whole[: len(whole) // 2]
    shard.write_bytes(first[: first.index(b"a-4_000-6_000") + 700])
    finalize(out, metrics, tar)
    assert [row["snippet_id"] for row in lines(Path(out))] == ["a-0_000-2_000", "a-2_000-4_000"]
    summary = json.loads(Path(metrics).read_text())
    assert summary["dropped"]["missing_audio"] == 1
    assert (summary["num_output_snippets"], summary["per_original"][0]["out_snippets"]) == (2, 2)
    finalize(out, metrics, tar)  # of a run that wrote nothing: what is there stays
    assert len(lines(Path(out))) == 2


def cut(folder: Path, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str], dict[str, Any]]:
    """The rows, the members and the summary of recordings that are planned, cut and joined."""
    plan, extract, write, count, prepare, finalize = of(
        "stages.audio.alm.pretrain",
        *("SnippetCutPlannerStage", "SnippetExtractionStage", "SnippetManifestWriterStage"),
        *("PretrainMetricsAggregatorStage", "prepare_audio_pretrain_outputs", "finalize_audio_pretrain_outputs"),
    )
    out, tar, metrics = (str(folder / name) for name in ("out.jsonl", "out.tar", "metrics.json"))
    prepare(out, metrics, tar)
    for row in rows:
        task = plan(max_segment_gap_in_snippet=0.0).process(of("tasks", "AudioTask")(data=copy.deepcopy(row)))
        for snippet in extract(str(folder), tar).process(task):
            count(metrics).process(write(out).process(snippet))
    finalize(out, metrics, tar)
    with tarfile.open(tar) as archive:
        return lines(Path(out)), archive.getnames(), json.loads(Path(metrics).read_text())


def spoken(*spans: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"start": start, "end": end, "text": "a"} for start, end in spans]


def test_snippets_of_recordings_with_similar_ids_are_all_there(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", 2.0)
    names = of("stages.audio.alm.pretrain.utils", "make_snippet_id")
    taken = names("a.b", 0.0, 1.0).removesuffix("-0_000-1_000")  # an id that is the name of another
    ids = ["a_b", "a.b", "a/b", "a\\b", "a\0b", taken]
    rows, members, summary = cut(
        tmp_path, [{"id": name, "audio_filepath": path, "segments": spoken((0.0, 1.0))} for name in ids]
    )
    assert sorted(row["id"] for row in rows) == sorted(ids)
    assert members == [row["audio_filepath"] for row in rows]
    assert (len(set(members)), summary["num_output_snippets"]) == (6, 6)
    assert rows[[row["id"] for row in rows].index("a_b")]["snippet_id"] == "a_b-0_000-1_000"
    assert not any(set(row["snippet_id"]) & set("./\\\0") for row in rows)


def test_rows_of_one_name_stay_apart_by_their_ids(tmp_path: Path) -> None:
    write, finalize = of("stages.audio.alm.pretrain", "SnippetManifestWriterStage", "finalize_audio_pretrain_outputs")
    for name in ("b", "a", "b"):
        task = of("tasks", "AudioTask")(data={"id": name, "snippet_id": "x-0-1"})
        write(str(tmp_path / "out.jsonl")).process(task)
    finalize(*(str(tmp_path / name) for name in ("out.jsonl", "metrics.json", "out.tar")))
    assert [row["id"] for row in lines(tmp_path / "out.jsonl")] == ["a", "b"]


def test_a_full_disk_leaves_no_part_of_a_row_or_member_before_the_next(small_disk: Path) -> None:
    """What did not fit is written again by a task that runs again, and the rest is read."""
    write, finalize = of("stages.audio.alm.pretrain", "SnippetManifestWriterStage", "finalize_audio_pretrain_outputs")
    manifest = of("stages.audio.common", "ManifestWriterStage")
    sound = io.BytesIO()
    soundfile.write(sound, np.zeros(800, np.int16), 8000, format="WAV")
    outputs = [str(small_disk / name) for name in ("out.jsonl", "metrics.json", "out.tar")]
    writers = [write(outputs[0]).process, manifest(str(small_disk / "all.jsonl")).process]
    archive = shard_path(outputs[2], "tar")

    def rows(name: str, length: int) -> Any:
        row = {"id": name, "snippet_id": f"{name}-0", "audio_filepath": f"{name}.wav", "text": "a" * length}
        return of("tasks", "AudioTask")(data=row)

    for name, length in (("a", 1), ("b", 2**21), ("c", 1)):
        for process in writers:
            if name == "b":
                with pytest.raises(DataError, match=r"no space left on device while writing .*; free some"):
                    process(rows(name, length))
            else:
                process(rows(name, length))
        if name == "b":
            with pytest.raises(DataError, match=r"no space left on device while writing .*\.tar'; free some"):
                append_member(archive, f"{name}.wav", bytes(2**21))
        else:
            append_member(archive, f"{name}.wav", sound.getvalue())
    assert [row["id"] for row in lines(small_disk / "all.jsonl")] == ["a", "c"]
    finalize(*outputs)
    assert [row["id"] for row in lines(small_disk / "out.jsonl")] == ["a", "c"]
    with tarfile.open(outputs[2]) as joined:
        assert joined.getnames() == ["a.wav", "c.wav"]


def test_outputs_that_do_not_fit_are_not_there_and_their_shards_stay(small_disk: Path) -> None:
    write, finalize = of("stages.audio.alm.pretrain", "SnippetManifestWriterStage", "finalize_audio_pretrain_outputs")
    outputs = [str(small_disk / name) for name in ("out.jsonl", "metrics.json", "out.tar")]
    row = {"id": "a", "snippet_id": "a-0", "text": "a" * 600_000}
    write(outputs[0]).process(of("tasks", "AudioTask")(data=row))
    with pytest.raises(DataError, match=r"no space left on device while writing .*out.jsonl'; free some"):
        finalize(*outputs)
    assert not Path(outputs[0]).exists()
    subprocess.run(["mount", "-o", "remount,size=9m", small_disk], check=True)
    finalize(*outputs)
    assert lines(small_disk / "out.jsonl") == [row]
    assert [path.name for path in small_disk.iterdir()] == ["out.jsonl"]


def test_planned_snippets_are_written_or_counted(tmp_path: Path) -> None:
    spans = ((0.0, 1.0), (1.5, 2.5), (7.0, 8.0), (9.0, 10.0))
    about = {"segments": spoken(*spans)}
    (tmp_path / "damaged.wav").write_bytes(b"RIFF....WAVE")
    rows, _, summary = cut(
        tmp_path,
        [
            {"id": "short", "audio_filepath": sound(tmp_path / "short.wav", 3.0), **about},
            {"id": "damaged", "audio_filepath": str(tmp_path / "damaged.wav"), **about},
            {"id": "missing", "audio_filepath": str(tmp_path / "missing.wav"), **about},
        ],
    )
    assert [row["id"] for row in rows] == ["short", "short"]
    dropped = {row["id"]: row["dropped"] for row in summary["per_original"]}
    assert (dropped["short"]["unreadable"], dropped["short"]["no_sound"]) == (0, 2)
    assert (dropped["damaged"]["unreadable"], dropped["missing"]["unreadable"]) == (4, 4)
    assert summary["num_output_snippets"] + sum(summary["dropped"].values()) == 3 * len(spans)


def test_a_snippet_that_starts_before_its_recording_has_the_times_of_its_sound(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", 3.0)
    [row], _, _ = cut(tmp_path, [{"id": "a", "audio_filepath": path, "segments": spoken((-2.0, 2.0))}])
    assert row["duration"] == 2.0
    assert [(part["start"], part["end"]) for part in row["segments"]] == [(0.0, 2.0)]


def test_texts_of_dropped_snippets_are_with_the_first_snippet_only(tmp_path: Path) -> None:
    extract = of("stages.audio.alm.pretrain", "SnippetExtractionStage")(str(tmp_path), "x.tar", dry_run=True)
    plan = [{"start": n, "end": n + 1, "segments": []} for n in range(50)]
    texts = [f"text {number}" for number in range(1000)]
    metadata = {"pretrain_long_form": {"dropped_repetition": 1000, "filtered_repetition_texts": texts}}
    task = of("tasks", "AudioTask")(data={"id": "a", "_snippet_plan": plan}, _metadata=metadata)
    made = extract.process(task)
    counts = [snippet._metadata["pretrain_long_form"] for snippet in made]
    assert sum(len(about.get("filtered_repetition_texts", [])) for about in counts) == 1000
    assert [about["dropped_repetition"] for about in counts] == [1000] * 50
    count, finalize = of(
        "stages.audio.alm.pretrain", "PretrainMetricsAggregatorStage", "finalize_audio_pretrain_outputs"
    )
    for snippet in reversed(made):
        count(str(tmp_path / "metrics.json")).process(snippet)
    finalize(*(str(tmp_path / name) for name in ("out.jsonl", "metrics.json", "out.tar")))
    assert json.loads((tmp_path / "metrics.json").read_text())["dropped_repetition_examples"] == texts


_GOOD = {"id": "b", "audio_filepath": "b.wav", "segments": [{"start": 0, "end": 1.5, "text": None}]}
_SEGMENT = '{"id": "b", "audio_filepath": "b.wav", "segments": [%s]}'
_BAD_LINES = [
    '{"id": "b", "audio_filepath": 5}',
    '{"id": "b", "audio_filepath": "\xff"}',  # as one byte, which is not UTF-8
    "[" * 100_000,
    '{"id": "b", "audio_filepath": "b.wav", "about": ' + "[" * 900 + "]" * 900 + "}",
    '{"id": "b", "audio_filepath": "b.wav", "note": "\\ud800"}',
    '{"id": "b", "audio_filepath": "b.wav", "n": %s}' % ("9" * 5000),
    '{"id": "b", "audio_filepath": "b.wav", "segments": {"start": 0}}',
    *(
        _SEGMENT % segment
        for segment in (
            "5",
            '{"start": 0, "text": "a"}',
            '{"start": 0, "end": NaN}',
            '{"start": 0, "end": Infinity}',
            '{"start": "0", "end": "1"}',
            '{"start": false, "end": 1}',
            '{"start": 0, "end": 1%s}' % ("0" * 400),
            '{"start": 0, "end": 1, "text": 7}',
            '{"start": 0, "end": 1, "text": "\\ud800"}',
            '{"start": 0, "end": 1, "words": "a"}',
            '{"start": 0, "end": 1, "words": ["a"]}',
            '{"start": 0, "end": 1, "words": [{"word": "a", "start": null}]}',
        )
    ),
]


@pytest.mark.parametrize("number", range(len(_BAD_LINES)))
def test_a_bad_line_of_a_manifest_of_recordings_is_left_out_and_counted(
    number: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = _BAD_LINES[number].encode("latin-1") + b"\n" + json.dumps(_GOOD).encode() + b"\n"
    (tmp_path / "in.jsonl").write_bytes(content)
    stage = of("stages.audio.alm.pretrain", "ReadLongFormManifestStage")(str(tmp_path / "in.jsonl"), "/data")
    with caplog.at_level("WARNING", "dcurate.compat.nemo"):
        [task] = stage.process(of("tasks", "EmptyTask"))
    assert dict(task.data) == {**_GOOD, "audio_filepath": "/data/b.wav"}
    assert stage._consume_custom_metrics() == {"manifest_rows": 1.0, "skipped_lines": 1.0}
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith("[ReadLongFormManifest] line 1: ")
    assert len(warning) < 300


def test_recordings_that_would_be_taken_for_each_other_are_refused(tmp_path: Path) -> None:
    rows = [{"id": number, "audio_filepath": f"{number}/a.wav"} for number in range(2)]
    path = manifest(tmp_path / "in.jsonl", rows)
    read, empty = of("stages.audio.alm.pretrain", "ReadLongFormManifestStage"), of("tasks", "EmptyTask")
    with pytest.raises(ValueError, match=r"duplicate audio basename 'a\.wav' of ids '0' and '1'"):
        read(path, "/data").process(empty)
    for way, expected in (("relative", "/data/1/a.wav"), ("as_is", "1/a.wav")):
        tasks = read(path, "/data", audio_path_resolution=way).process(empty)
        assert tasks[1].data["audio_filepath"] == expected
    with pytest.raises(ValueError, match="unknown audio_path_resolution"):
        read(path, "/data", audio_path_resolution="other").process(empty)


def test_metrics_of_a_stage_are_those_since_they_were_last_taken() -> None:
    """As NeMo Curator's backends take them, of a stage of one's own."""

    class Counting(of("stages.base", "ProcessingStage")):  # type: ignore[misc]
        name = "counting"

        def inputs(self) -> Any:
            return [], []

        def outputs(self) -> Any:
            return [], []

        def process(self, task: Any) -> Any:
            self._log_metrics({"rows": len(task.data), "word": "none"})
            self._log_metric("share", 1)
            return task

    stage = Counting()
    task = of("tasks", "AudioTask")(data={"a": 1, "b": 2})
    stage.process(task)
    assert stage._consume_custom_metrics() == {"rows": 2.0, "share": 1.0}
    assert stage._consume_custom_metrics() == {}
    stage.process(task)
    task.data["c"] = 3
    stage.process(task)
    assert stage._consume_custom_metrics() == {"rows": 3.0, "share": 1.0}


def sound(path: Path, seconds: float = 2.0, rate: int = 16_000) -> str:
    """A recording with sound up to 2 kHz."""
    times = np.arange(int(seconds * rate)) / rate
    samples = sum(np.sin(2 * np.pi * hertz * times) for hertz in range(100, 2001, 100)) / 40
    soundfile.write(path, np.stack([samples, 0.5 * samples], axis=1), rate)
    return str(path)


def test_durations_and_bandwidths_come_from_the_recordings(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav")
    duration, bandwidth = (
        of("stages.audio.common", "GetAudioDurationStage"),
        of("stages.audio.metrics.bandwidth", "BandwidthEstimationStage"),
    )
    assert row_of(duration(), {"audio_filepath": path, "x": [1]}) == {"audio_filepath": path, "x": [1], "duration": 2.0}
    assert row_of(duration(), {"audio_filepath": str(tmp_path / "none.wav")})["duration"] == -1.0
    segments = [
        {"start": 0.0, "end": 1.5},
        {"start": 1.0, "end": 2.0, "speaker": "no-speaker"},
        {"start": 9.0, "end": 10.0},
        {"start": 1.0, "end": 1.0, "text": "a"},
    ]
    made = row_of(bandwidth(), {"audio_filepath": path, "segments": segments})["segments"]
    samples = soundfile.read(path, dtype="float32")[0].mean(axis=1)
    assert made[0]["metrics"]["bandwidth"] == nemo_bandwidth(samples[:24_000], 16_000)[0]
    assert "metrics" not in made[1]
    assert "metric_skip_reason" in made[2]["metrics"]
    assert "metric_skip_reason" in made[3]["metrics"]
    assert row_of(bandwidth(), {"audio_filepath": path, "duration": 2.0})["metrics"] == {
        "bandwidth": nemo_bandwidth(samples, 16_000)[0]
    }
    with pytest.raises(RuntimeError, match="Failed to load audio"):
        row_of(bandwidth(), {"audio_filepath": str(tmp_path / "none.wav"), "duration": 1.0})
    with pytest.raises(ValueError, match="leave them at 512"):
        bandwidth(n_fft=1024)


def test_error_rates_are_those_of_nemo() -> None:
    pairwise, compute = of("stages.audio.metrics.wer", "GetPairwiseWerStage", "ComputeWERStage")
    assert row_of(pairwise(), {"text": "a b c", "pred_text": "a x c d"})["wer_pct"] == 66.6667
    assert "wer_pct" not in row_of(pairwise(), {"text": None, "pred_text": "a"})
    assert row_of(pairwise(), {"text": "", "pred_text": "a"})["wer_pct"] == float("inf")
    segment = {"start": 1.0, "end": 3.0, "text": "One, too!", "text_ref": "one two"}
    row = row_of(compute(compute_pnc_wer=True), {"segments": [segment, {"text": "a", "text_ref": "!"}, {"text": "b"}]})
    metrics = row["segments"][0]["metrics"]
    assert metrics["wer"] == {"wer": 0.5, "tokens": 2, "ins_rate": 0.0, "del_rate": 0.0, "sub_rate": 0.5}
    assert metrics["cer"]["cer"] == round(1 / 7, 4)
    assert (metrics["char_rate"], metrics["word_rate"]) == (4.0, 1.0)
    assert metrics["wer_pnc"]["wer"] == 1.0
    assert row["segments"][1]["metrics"] == {"wer": None, "cer": None, "metric_skip_reason": "empty_reference"}
    assert "metrics" not in row["segments"][2]


def test_values_keep_rows(client: RayClient, tmp_path: Path) -> None:
    reader, keep, writer = of("stages.audio.common", "ManifestReader", "PreserveByValueStage", "ManifestWriterStage")
    rows = [{"audio_filepath": f"{n}.wav", "wer_pct": n * 1.5, "held": {"n": n}} for n in range(9)]
    pipeline = of("pipeline", "Pipeline")(name="keep")
    for stage in (
        reader(manifest_path=manifest(tmp_path / "in.jsonl", rows)),
        keep("wer_pct", 5.5, "le"),
        writer(output_path=str(tmp_path / "out.jsonl")),
    ):
        pipeline.add_stage(stage)
    pipeline.run()
    assert sorted(lines(tmp_path / "out.jsonl"), key=lambda row: row["wer_pct"]) == rows[:4]
    with pytest.raises(ValueError, match="Operator must be one of"):
        keep("a", 1, "about")
    with pytest.raises(NotImplementedError):
        keep("a", 1).process(None)


@pytest.mark.parametrize("line", ["{not json", "[1]", '"text"'])
def test_a_line_that_is_not_a_row_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"a": 1}}\n\n{line}\n')
    stage = of("stages.audio.common", "ManifestReaderStage")()
    with pytest.raises(DataError, match=r"in\.jsonl, line 3 is"):
        stage.process(of("tasks", "FileGroupTask")(dataset_name="x", data=[str(path)]))


def test_a_worker_that_starts_again_does_not_empty_the_manifest(tmp_path: Path) -> None:
    stage = of("stages.audio", "ManifestWriterStage")(output_path=str(tmp_path / "new" / "out.jsonl"))
    task = of("tasks", "AudioTask")
    stage.engine_form([], True)
    for number in range(3):
        stage.setup()
        stage.process(task(data={"n": number}))
    assert [row["n"] for row in lines(tmp_path / "new" / "out.jsonl")] == [0, 1, 2]


def test_sound_in_memory_is_the_mean_of_the_channels_and_never_becomes_a_document(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", 0.5, 48_000)
    mono = of("stages.audio", "MonoConversionStage")
    task = of("tasks", "AudioTask")(data={"audio_filepath": path})
    assert mono().process(task) is task
    samples = soundfile.read(path, dtype="float32")[0].mean(axis=1)
    assert np.allclose(task.data["waveform"].numpy()[0], samples, atol=1e-7)
    assert (task.data["num_samples"], task.data["duration"]) == (24_000, 0.5)
    assert mono(output_sample_rate=16_000).process(task) == []
    assert mono().process(of("tasks", "AudioTask")(data={"audio_filepath": "none.wav"})) == []
    [batch] = of("stages.audio.io.convert", "AudioToDocumentStage")().process_batch([task])
    assert list(batch.data.columns) == ["audio_filepath", "sample_rate", "is_mono", "duration", "num_samples"]
    assert torch.is_tensor(task.data["waveform"])


def test_events_of_the_file_and_of_memory_are_the_same(tmp_path: Path) -> None:
    frames = np.zeros((100, 527), np.float32)
    frames[20:70, 0] = 0.9
    np.savez(tmp_path / "a.npz", framewise=frames, fps=50.0, valid_frames=60)
    stage = of("stages.audio.postprocessing.sed_postprocessing", "SEDPostprocessingStage")()
    row = row_of(stage, {"_sed_framewise": frames, "sed_fps": 50.0, "sed_valid_frames": 60})
    assert list(row) == ["sed_fps", "sed_valid_frames", "sed_events"]
    [event] = row["sed_events"]
    assert (event["start_time"], event["end_time"], event["label"], event["superclass"]) == (
        0.4,
        1.2,
        "speech",
        "speech",
    )
    assert row_of(stage, {"npz_filepath": str(tmp_path / "a.npz")})["sed_events"] == [event]
    assert row_of(stage, {"npz_filepath": "none.npz"})["sed_events"] == []


def test_a_task_is_a_row_whose_values_are_attributes(tmp_path: Path) -> None:
    task = of("tasks", "AudioTask")(data={"audio_filepath": str(tmp_path), "n": 1}, filepath_key="audio_filepath")
    assert (task.data.n, task.num_items, task.validate()) == (1, 1, True)
    assert not hasattr(task.data, "absent")
    task.data.audio_filepath = "none.wav"
    assert not task.validate()
    with pytest.raises(AttributeError):
        del task.data.absent


@pytest.mark.parametrize("target", ["os.system", "subprocess.Popen", "print"])
def test_a_configuration_calls_stages_alone(target: str) -> None:
    create = of("config.run", "create_pipeline_from_yaml")
    with pytest.raises(PipelineError, match="is not a stage"):
        create({"stages": [{"_target_": target, "args": "true"}]})
    with pytest.raises(MissingError, match="Transcribe"):
        create({"stages": [{"_target_": "nemo_curator.stages.audio.inference.asr.stage.ASRStage"}]})
    with pytest.raises(RuntimeError, match="either stages or one workflow"):
        create({})
