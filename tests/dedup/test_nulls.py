"""A null is not a value: such a row is kept, and is a duplicate of nothing, in each kind of deduplication."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from PIL import Image

from dcurate import (
    BatchKey,
    DocumentBatch,
    ExactDeduplicationWorkflow,
    ExactDuplicates,
    FuzzyDeduplicationWorkflow,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlWriter,
    Pipeline,
    SemanticDuplicates,
    SpanDuplicates,
    SubstringDuplicates,
    deduplicate,
    profile,
)
from dcurate.audio import AudioExactDuplicates, AudioNearDuplicates
from dcurate.core.public import find_public, homes
from dcurate.dedup import BloomDuplicates, Shingles
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.frames.hashes import rows_with_values
from dcurate.images import ImageDecontaminate, ImageExactDuplicates, ImageNearDuplicates
from dcurate.video import VideoExactDuplicates, VideoNearDuplicates
from tests.audio.sounds import voice
from tests.video.films import film

TEXT = "some words that are long enough to have shingles, to be a paragraph, and to be cut out of a second text"
OTHER = "a committee met on tuesday to discuss the budget of the coming year and adjourned without any decision at all"
#: Two copies of a text, another one, and each mixture of nulls and empty texts.
ROWS: dict[str, list[str | None]] = {
    "null": [TEXT, None, OTHER, None, TEXT, None],
    "empty": [TEXT, "", OTHER, "", TEXT, ""],
    "both": [TEXT, None, "", OTHER, None, "", TEXT],
    "only nulls": [None, None, None, None],
}
TYPES = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}
#: Stages, and whether empty texts are duplicates of each other.
STAGES: dict[str, tuple[Callable[[str], Any], bool]] = {
    "exact": (lambda _: ExactDuplicates(), True),
    "exact, flagged": (lambda _: ExactDuplicates(action="flag"), True),
    "exact, longest": (lambda _: ExactDuplicates(keep="longest"), True),
    "exact, normalized": (lambda _: ExactDuplicates(normalize=["case", "whitespace", "unicode"]), True),
    "exact, by columns": (lambda _: ExactDuplicates(fields=["text"]), True),
    "Bloom": (lambda path: BloomDuplicates(path, capacity=1000), True),
    "Bloom, normalized": (lambda path: BloomDuplicates(path, capacity=1000, normalize=["case"]), True),
    "Bloom, by columns": (lambda path: BloomDuplicates(path, capacity=1000, fields=["text"]), True),
    "fuzzy": (lambda _: FuzzyDuplicates(), False),
    "fuzzy, characters": (lambda _: FuzzyDuplicates(shingles=Shingles(3, "characters"), verification="none"), False),
    "fuzzy, estimated": (lambda _: FuzzyDuplicates(verification="estimated", action="flag"), False),
    "lines": (lambda _: SpanDuplicates(unit="line", keep="first"), False),
    "paragraphs": (lambda _: SpanDuplicates(unit="paragraph"), False),
    "substrings": (lambda _: SubstringDuplicates(), False),
    "semantic": (lambda _: SemanticDuplicates(n_clusters=1, eps=0.01), False),
    "images, bytes": (lambda _: ImageExactDuplicates(), False),
    "images, pixels": (lambda _: ImageExactDuplicates(by="pixels"), False),
    "images, near": (lambda _: ImageNearDuplicates(), False),
    "audio, bytes": (lambda _: AudioExactDuplicates(by="bytes"), False),
    "audio, samples": (lambda _: AudioExactDuplicates(), False),
    "audio, near": (lambda _: AudioNearDuplicates(), False),
    "audio, longest": (lambda _: AudioNearDuplicates(keep="longest", action="flag"), False),
    "video, bytes": (lambda _: VideoExactDuplicates(by="bytes"), False),
    "video, packets": (lambda _: VideoExactDuplicates(), False),
    "video, frames": (lambda _: VideoExactDuplicates(by="frames"), False),
    "video, near": (lambda _: VideoNearDuplicates(), False),
    "video, longest": (lambda _: VideoNearDuplicates(keep="longest", action="flag"), False),
    "images, largest": (lambda _: ImageNearDuplicates(keep="largest", flips=True, action="flag"), False),
}


def picture(seed: int) -> bytes:
    """A PNG of noise in large squares."""
    noise = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.kron(noise, np.ones((20, 20, 1), np.uint8))).save(file, "PNG")
    return file.getvalue()


@cache
def recording(seed: int) -> bytes:
    """A WAV file of a made-up voice."""
    file = io.BytesIO()
    soundfile.write(file, voice(seed, 2.0), 16_000, format="WAV")
    return file.getvalue()


@cache
def moving(seed: int) -> bytes:
    """A film of large squares that move."""
    noise = np.random.default_rng(seed).integers(0, 255, (8, 32, 3), np.uint8)
    wide = np.kron(noise, np.ones((20, 20, 1), np.uint8))
    data: bytes = film(frames=30, pictures=lambda number: wide[:, 5 * number : 5 * number + 160])
    return data


#: The file of each text, by the first word of the name of a stage; a picture where it is not here.
FILES: dict[str, Callable[[int], bytes]] = {"audio": recording, "video": moving}


def table(texts: list[str | None], kind: pa.DataType, file: Callable[[int], bytes] = picture) -> pa.Table:
    """Texts, with an embedding and a file of each, and null where there is none."""
    vectors = {TEXT: [1.0, 0.0], OTHER: [0.0, 1.0], "": None, None: None}
    files = {TEXT: file(1), OTHER: file(2), "": None, None: None}
    text = pa.array(texts, pa.string())
    return pa.table(
        {
            "id": pa.array(range(len(texts))),
            "text": text.dictionary_encode() if pa.types.is_dictionary(kind) else text.cast(kind),
            "embeddings": pa.array([vectors[text] for text in texts], pa.list_(pa.float32())),
            "bytes": pa.array([files[text] for text in texts], pa.binary()),
        }
    )


def expected(texts: list[str | None], empty: bool) -> list[int]:
    """The rows that stay: all nulls, and the first of equal texts."""
    seen: set[str] = set()
    stay = []
    for row, text in enumerate(texts):
        if text is None or text not in seen or not (text or empty):
            stay.append(row)
        seen |= {text} if text is not None else set()
    return stay


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", STAGES)
def test_a_row_of_null_is_kept_by_every_stage(name: str, rows: str, kind: str, tmp_path: Path) -> None:
    make, empty = STAGES[name]
    whole = table(ROWS[rows], TYPES[kind], FILES.get(name.partition(",")[0], picture))
    batches = [DocumentBatch(data=whole.slice(at, 3), key=BatchKey(f"b{at}")) for at in range(0, whole.num_rows, 3)]
    run = Pipeline("nulls", stages=[make(str(tmp_path))]).run(InlineExecutor(), batches, observers=[])
    left = run.to_arrow()
    if "is_duplicate" in left.column_names:
        left = left.filter(~np.asarray(left["is_duplicate"].to_numpy()))
    wanted = expected(ROWS[rows], empty)
    assert sorted(left["id"].to_pylist()) == wanted
    assert [text for text in whole["text"].to_pylist() if text is None] == [
        text for text in left["text"].to_pylist() if text is None
    ]
    dropped = sum(sum(stage.dropped.values()) for stage in run.report.stages)
    assert dropped == (0 if "is_duplicate" in run.to_arrow().column_names else whole.num_rows - len(wanted))
    assert not sum(sum(stage.faulty.values()) for stage in run.report.stages)


def test_every_public_stage_that_looks_for_duplicates_is_in_the_matrix(tmp_path: Path) -> None:
    public = {name for name in homes() if name.endswith("Duplicates") and isinstance(find_public(name), type)}
    assert public == {type(make(str(tmp_path))).__name__ for make, _ in STAGES.values()}


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])  # Dask makes no frame of string_view
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(
    ("ways", "empty"),
    [
        ({"on": "text"}, True),
        ({"on": ["text"]}, True),
        ({"method": ExactDuplicates()}, True),
        ({"method": ExactDuplicates(normalize=["case"])}, True),
        ({"method": "fuzzy"}, False),
    ],
    ids=["a text", "columns", "a stage", "a stage that normalizes", "fuzzy"],
)
def test_a_row_of_null_is_kept_on_a_frame(ways: dict[str, Any], empty: bool, rows: str, kind: str) -> None:
    column = table(ROWS[rows], TYPES[kind])["text"].combine_chunks()
    frame = pd.DataFrame({"text": pd.Series(column, dtype=pd.ArrowDtype(column.type))})
    made = deduplicate(dd.from_pandas(frame, npartitions=2), **ways).compute(scheduler="sync")
    assert made.index.tolist() == expected(ROWS[rows], empty)


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
@pytest.mark.parametrize("rows", ROWS)
def test_a_row_of_null_is_kept_by_workflows(kind: str, rows: str, tmp_path: Path) -> None:
    pq.write_table(table(ROWS[rows], TYPES[kind]).select(["id", "text"]), tmp_path / "in.parquet")
    for workflow, empty in ((ExactDeduplicationWorkflow, True), (FuzzyDeduplicationWorkflow, False)):
        folder = tmp_path / workflow.__name__
        settings: dict[str, Any] = {
            "input_path": str(tmp_path / "in.parquet"),
            "perform_removal": True,
            "input_filetype": "parquet",
        }
        if workflow is FuzzyDeduplicationWorkflow:
            settings["cache_path"] = str(folder / "cache")
        workflow(output_path=str(folder), **settings).run(InlineExecutor())
        left = pq.read_table(folder / "deduplicated")
        assert left["id"].to_pylist() == expected(ROWS[rows], empty)
        assert CURATOR_DEDUP_ID_STR not in left.column_names or left[CURATOR_DEDUP_ID_STR].null_count == 0


def test_rows_without_a_picture_are_remembered_and_no_benchmark_has_them(tmp_path: Path) -> None:
    for number, rows in enumerate(("null", "only nulls", "null")):
        whole = table(ROWS[rows], pa.string())
        stage = ImageNearDuplicates(index_path=str(tmp_path / "index"), action="flag")
        writer = JsonlWriter(str(tmp_path / f"out-{number}"), fields=["id", "is_duplicate"])
        pipeline = Pipeline(f"run-{number}", stages=[stage, writer])
        pipeline.run(InlineExecutor(), [DocumentBatch(data=whole.drop_columns("embeddings"))], observers=[])
        files = (tmp_path / f"out-{number}").glob("*.jsonl")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        known = [4] if number == 0 else [0, 2, 4] if rows == "null" else []
        assert [line["id"] for line in lines if line["is_duplicate"]] == known
    (tmp_path / "seen.png").write_bytes(picture(1))
    benchmark = ImageDecontaminate({"seen": str(tmp_path / "seen.png")})
    left = Pipeline("clean", stages=[benchmark]).run(InlineExecutor(), [table(ROWS["null"], pa.string())], observers=[])
    assert left.to_arrow()["id"].to_pylist() == [1, 2, 3, 5]


def test_a_null_in_the_values_of_a_dictionary_is_a_null() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, None], pa.int32()), pa.array(["a", None]))
    assert rows_with_values(pa.table({"text": column}), ["text"]).tolist() == [0]
    rows = pa.table({"id": [0, 1, 2, 3], "text": column})
    for stage in (ExactDuplicates(), ExactDuplicates(fields=["text"])):
        left = Pipeline("nulls", stages=[stage]).run(InlineExecutor(), [DocumentBatch(data=rows)], observers=[])
        assert left.to_arrow()["id"].to_pylist() == [0, 1, 2, 3]


def test_a_profile_counts_no_null_as_the_repetition_of_another(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array(["a", "a", None, None])}), tmp_path / "in.parquet")
    assert profile(str(tmp_path / "in.parquet"), executor=InlineExecutor()).duplicates == 0.25
