"""Recordings that repeat others are found again after they were changed; others are not."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
import soxr

from dcurate import DataError, DocumentBatch, InlineExecutor, ParquetReader, ParquetWriter, Pipeline, PipelineError
from dcurate.audio import AudioDecontaminate, AudioExactDuplicates, AudioNearDuplicates, BenchmarkRecordings
from dcurate.dedup import Preferred
from dcurate.media import Ref, ref_array
from tests.audio.sounds import voice

RATE = 16_000
VOICES = 12
Row = dict[str, Any]


def encoded(samples: np.ndarray, form: str = "FLAC", subtype: str | None = None, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.clip(samples, -1, 1), rate, subtype, format=form)
    return file.getvalue()


def noisy(samples: np.ndarray, decibels: float) -> np.ndarray:
    power = np.mean(samples[np.abs(samples) > 1e-3] ** 2)
    noise = np.random.default_rng(5).normal(0, np.sqrt(power / 10 ** (decibels / 10)), len(samples))
    return samples + noise


def resampled(samples: np.ndarray, rate: float) -> np.ndarray:
    return soxr.resample(samples, RATE, rate)


def padded(samples: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(RATE // 2), samples, np.zeros(RATE)])


CHANGES: dict[str, Callable[[np.ndarray], bytes]] = {
    "vorbis": lambda samples: encoded(samples, "OGG"),
    "opus": lambda samples: encoded(samples, "OGG", "OPUS"),
    "mp3": lambda samples: encoded(samples, "MP3"),
    "gain": lambda samples: encoded(0.2 * samples, "OGG"),
    "trimmed": lambda samples: encoded(samples[int(0.311 * RATE) : -int(0.2 * RATE)]),
    "padded": lambda samples: encoded(padded(samples)),
    "resampled": lambda samples: encoded(resampled(samples, 11_025), rate=11_025),
    "low-passed": lambda samples: encoded(soxr.resample(resampled(samples, 4_000), 4_000, RATE), "OGG"),
    "noise": lambda samples: encoded(noisy(samples, 20), "OGG"),
    "slower": lambda samples: encoded(resampled(samples, RATE * 1.02)),
    "faster": lambda samples: encoded(resampled(samples, RATE * 0.98)),
    "stereo": lambda samples: encoded(np.stack([samples, 0.5 * samples], axis=1)),
}


def dataset() -> list[Row]:
    rows: list[Row] = []
    for seed in range(VOICES):
        samples = voice(seed)
        rows.append({"file_name": f"{seed}", "bytes": encoded(samples)})
        for number, (change, made) in enumerate(CHANGES.items()):
            if (number + seed) % 2:
                rows.append({"file_name": f"{seed} {change}", "bytes": made(samples)})
    rows.append({"file_name": "silence", "bytes": encoded(np.zeros(RATE))})
    rows.append({"file_name": "silence again", "bytes": encoded(np.zeros(RATE))})
    rows.append({"file_name": "tone", "bytes": encoded(0.5 * np.sin(np.arange(4 * RATE) / 9))})
    rows.append({"file_name": "no file", "bytes": None})
    rows.append({"file_name": "web page", "bytes": b"<html></html>"})
    return [rows[place] for place in np.random.default_rng(2).permutation(len(rows))]


def written(folder: Path, rows: list[Row], files: int = 3) -> str:
    folder.mkdir(parents=True)
    for number in range(files):
        part = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        kinds = {"file_name": pa.string(), "bytes": pa.large_binary()}
        pq.write_table(
            pa.table({name: pa.array([row[name] for row in part], kind) for name, kind in kinds.items()}),
            folder / f"{number}.parquet",
        )
    return str(folder)


def run(source: str, out: Path, stage: Any, executor: Any = None, **options: Any) -> list[Row]:
    pipeline = Pipeline("near", stages=[ParquetReader(source), stage, ParquetWriter(str(out))])
    pipeline.run(executor or InlineExecutor(), observers=[], **options)
    tables = [pq.read_table(path) for path in sorted(out.glob("*.parquet"))]
    return [row for table in tables for row in table.to_pylist()]


def groups(rows: list[Row]) -> set[frozenset[str]]:
    by_group: dict[int, set[str]] = {}
    for row in rows:
        if row["duplicate_group"] is not None:
            by_group.setdefault(row["duplicate_group"], set()).add(row["file_name"])
    return {frozenset(names) for names in by_group.values() if len(names) > 1}


EXPECTED = {
    frozenset([f"{seed}", *(f"{seed} {change}" for number, change in enumerate(CHANGES) if (number + seed) % 2)])
    for seed in range(VOICES)
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return dataset()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> str:
    return written(tmp_path_factory.mktemp("near") / "in", rows)


def test_groups_are_the_versions_of_each_recording(source: str, tmp_path: Path, rows: list[Row]) -> None:
    flagged = run(source, tmp_path, AudioNearDuplicates(action="flag"))
    assert groups(flagged) == EXPECTED
    names = [row["file_name"] for row in rows if row["file_name"] != "web page"]
    assert [row["file_name"] for row in flagged] == names


def test_the_result_does_not_depend_on_files(source: str, tmp_path: Path, rows: list[Row]) -> None:
    kept = [run(source, tmp_path / how, AudioNearDuplicates(clustering=how)) for how in ("connected", "star")]
    again = run(written(tmp_path / "many", rows, 7), tmp_path / "b", AudioNearDuplicates())
    assert again == kept[0]
    assert len(kept[0]) == VOICES + 4
    assert len(kept[1]) >= VOICES + 4


def test_keeps_the_longest_or_those_of_a_split(source: str, tmp_path: Path) -> None:
    longest = {row["file_name"] for row in run(source, tmp_path / "a", AudioNearDuplicates(keep="longest"))}
    assert {f"{seed} padded" for seed in range(0, VOICES, 2)} <= longest
    wanted = Preferred("file_name", ["3 mp3"])
    assert "3 mp3" in {row["file_name"] for row in run(source, tmp_path / "b", AudioNearDuplicates(keep=wanted))}


def test_a_recording_within_a_longer_one_is_no_duplicate_unless_it_is_most_of_it(tmp_path: Path) -> None:
    parts = [voice(seed) for seed in (100, 101, 102)]
    rows = [
        {"file_name": "part", "bytes": encoded(parts[0])},
        {"file_name": "all", "bytes": encoded(np.concatenate(parts))},
        {"file_name": "with another", "bytes": encoded(np.concatenate([parts[0], parts[1][: RATE // 2]]))},
    ]
    source = written(tmp_path / "in", rows, 1)
    assert groups(run(source, tmp_path / "a", AudioNearDuplicates(action="flag"))) == {
        frozenset(["part", "with another"])
    }
    assert len(run(source, tmp_path / "b", AudioNearDuplicates(threshold=0.2))) == 1


def test_segments_are_compared_not_their_files(tmp_path: Path) -> None:
    (tmp_path / "talk.flac").write_bytes(encoded(np.concatenate([voice(1), voice(2), 0.5 * voice(1), voice(3)])))
    refs = [Ref(str(tmp_path / "talk.flac"), start_s=start, stop_s=start + 4.0) for start in (0.0, 4.0, 8.0, 12.0)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"n": range(4), "media_ref": ref_array(refs)}), tmp_path / "in/0.parquet")
    assert [row["n"] for row in run(str(tmp_path / "in"), tmp_path / "out", AudioNearDuplicates())] == [0, 1, 3]


def test_an_index_finds_copies_of_recordings_of_the_day_before(tmp_path: Path) -> None:
    days = [[(1, "vorbis"), (2, "mp3")], [(3, "vorbis"), (1, "noise"), (2, "trimmed")]]
    stage = AudioNearDuplicates(index_path=str(tmp_path / "index"))
    kept = []
    for day, chosen in enumerate(days):
        rows = [{"file_name": str(seed), "bytes": CHANGES[change](voice(seed))} for seed, change in chosen]
        kept.append(
            [row["file_name"] for row in run(written(tmp_path / f"{day}", rows, 1), tmp_path / f"o{day}", stage)]
        )
    assert kept == [["1", "2"], ["3"]]
    with pytest.raises(PipelineError, match="num_bands"):
        run(str(tmp_path / "1"), tmp_path / "o2", AudioNearDuplicates(index_path=stage.index_path, num_bands=8))


def test_exact_duplicates_by_samples_and_by_bytes(tmp_path: Path) -> None:
    samples = np.round(voice(4) * 2**15) / 2**15
    files = {
        "flac": encoded(samples),
        "wav": encoded(samples, "WAV", "PCM_16"),
        "flac again": encoded(samples),
        "other rate": encoded(samples, rate=8_000),
        "louder": encoded(1.5 * samples),
    }
    rows = [{"file_name": name, "bytes": data} for name, data in files.items()]
    source = written(tmp_path / "in", rows, 2)
    by_samples = run(source, tmp_path / "a", AudioExactDuplicates())
    by_bytes = run(source, tmp_path / "b", AudioExactDuplicates(by="bytes"))
    assert [row["file_name"] for row in by_samples] == ["flac", "other rate", "louder"]
    assert [row["file_name"] for row in by_bytes] == ["flac", "wav", "other rate", "louder"]


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0},
        {"threshold": 1.1},
        {"num_bands": 0},
        {"num_bands": 2.5},
        {"clustering": "guarded"},
        {"keep": "largest"},
        {"action": "remove"},
    ],
)
def test_refuses_settings_with_a_sentence(settings: Row) -> None:
    with pytest.raises(PipelineError, match="audio_near_duplicates"):
        AudioNearDuplicates(**settings)


def test_refuses_rows_without_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "in/0.parquet")
    with pytest.raises(PipelineError, match="media_ref"):
        run(str(tmp_path / "in"), tmp_path / "out", AudioNearDuplicates())


def test_decontamination_drops_copies_of_benchmark_recordings(tmp_path: Path, rows: list[Row]) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    for name, data in (("q1", voice(1)), ("q99", voice(99)), ("short", voice(98, 0.3)), ("silent", np.zeros(RATE))):
        (folder / f"{name}.flac").write_bytes(encoded(data))
    (folder / "q2.opus").write_bytes(CHANGES["opus"](voice(2)))
    kinds = {"file_name": pa.string(), "bytes": pa.large_binary()}
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    found = AudioDecontaminate({"words": str(folder)}).process(DocumentBatch(data=table))
    copies = {"silence", "silence again"} | {
        row["file_name"] for row in rows if row["file_name"].split()[0] in ("1", "2")
    }
    reasons = {rejection.reason: rejection.rows for rejection in found.rejections}
    assert reasons == {"not a recording: HTML or XML": 1, "contaminated: words": len(copies)}
    assert set(found.to_arrow()["file_name"].to_pylist()) == set(table["file_name"].to_pylist()) - copies - {"web page"}
    assert found.to_arrow().column_names == ["file_name", "bytes"]
    BenchmarkRecordings.build({"words": str(folder)}).write(str(tmp_path / "known"))
    flagged = AudioDecontaminate(str(tmp_path / "known"), action="flag").process(DocumentBatch(data=table)).to_arrow()
    hits = {row["file_name"]: row for row in flagged.to_pylist() if row["contamination_benchmark"] == "words"}
    assert set(hits) == copies
    assert {name for name, row in hits.items() if row["contamination_example"] == "silent.flac"} == {
        "silence",
        "silence again",
    }
    assert hits["1"]["contamination_similarity"] == 1
    assert all(row["contamination_example"] == f"q{name[0]}.flac" for name, row in hits.items() if name[0] == "1")


def test_decontamination_finds_the_most_similar_of_all(tmp_path: Path) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    whole = np.concatenate([voice(1), voice(2)])
    for name, samples in {"a": whole, "b": whole[: 7 * RATE], "c": whole[RATE:]}.items():
        (folder / f"{name}.flac").write_bytes(encoded(samples))
    table = pa.table({"bytes": pa.array([CHANGES["vorbis"](whole[: 7 * RATE])], pa.large_binary())})
    [row] = (
        AudioDecontaminate({"w": str(folder)}, action="flag").process(DocumentBatch(data=table)).to_arrow().to_pylist()
    )
    assert row["contamination_example"] == "b.flac"


def test_what_is_no_list_of_benchmark_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no recordings of benchmarks; make them with BenchmarkRecordings.build"):
        BenchmarkRecordings.read(str(tmp_path / "nothing"))
    (tmp_path / "bad.wav").write_bytes(b"<html></html>")
    with pytest.raises(DataError, match=r"'bad.wav' of benchmark 'w' cannot be read: not a recording: HTML or XML"):
        BenchmarkRecordings.build({"w": str(tmp_path / "*.wav")})
    (tmp_path / "bad.wav").write_bytes(encoded(voice(1), "WAV"))
    BenchmarkRecordings.build({"w": str(tmp_path / "*.wav")}).write(str(tmp_path / "known"))
    path = tmp_path / "known" / "recordings.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="are of another version; build them again"):
        BenchmarkRecordings.read(str(tmp_path / "known"))
    with pytest.raises(PipelineError, match="threshold=0 must lie above 0"):
        AudioDecontaminate({"w": "*.wav"}, threshold=0)
