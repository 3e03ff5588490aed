"""Frames that wait for their batch: in memory as long as there is room, which made batches give back."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, ResourceError
from dcurate.media.refs import BYTES
from dcurate.video import ExtractFrames, FramePolicy, frame_batches
from dcurate.video.frame_batches import FrameBatches, FrameStore, KeptFrame
from tests.video.films import film

pytestmark = pytest.mark.program

#: Sizes of the frames of films, in parts that are decoded before their frames go to batches.
PARTS = st.lists(st.lists(st.lists(st.integers(1, 40), max_size=5), max_size=5), max_size=6)


class Watched(FrameBatches):
    """Says which batches are on disk."""

    def __init__(self, store: FrameStore, most_films: int | None) -> None:
        super().__init__(store, most_films)
        self.placed: list[tuple[int, bool]] = []

    def _in_memory(self, files: Sequence[KeptFrame]) -> pa.Array:
        self.placed.append((sum(map(len, files)), False))
        return super()._in_memory(files)

    def _on_disk(self, files: Sequence[KeptFrame]) -> pa.Array:
        self.placed.append((sum(map(len, files)), True))
        return super()._on_disk(files)


@given(parts=PARTS, most=st.sampled_from([None, 1, 2]))
def test_a_frame_or_batch_is_on_disk_only_if_what_is_in_memory_leaves_no_room(
    parts: list[list[list[int]]], most: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for limit, size in (("_BATCH", 60), ("_WAITING", 90), ("_IN_MEMORY", 150)):
            patch.setattr(frame_batches, limit, size)
        store = FrameStore()
        batches = Watched(store, most)
        expected: list[bytes] = []
        for part in parts:
            held = sum(len(frame) for frame in batches.waiting() if isinstance(frame, bytes))
            films: list[list[KeptFrame]] = []
            for sizes in part:
                films.append([])
                for size in sizes:
                    expected.append(bytes([len(expected) % 256]) * size)
                    kept = store.keep(expected[-1])
                    assert isinstance(kept, bytes) == (held + size <= 90)
                    held += size if isinstance(kept, bytes) else 0
                    films[-1].append(kept)
            for film in films:
                batches.add(pa.table({"n": [0]}), (list(map(float, range(len(film)))), film))
            store.forget_all_but(batches.waiting())
        tables = batches.all()
        store.close()
    assert [frame for table in tables for frame in table[BYTES].to_pylist()] == expected
    held = 0
    for size, is_on_disk in batches.placed:
        assert is_on_disk == (held + size > 150)
        held += 0 if is_on_disk else size


def test_the_file_of_waiting_frames_does_not_grow_with_the_films_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_batches, "_WAITING", 10)
    store = FrameStore()
    for _ in range(20):
        for number in range(8):
            store.keep(bytes([number]) * 7)
        store.forget_all_but([])
    assert store.bytes_on_disk == 0
    frames = [bytes([number]) * 7 for number in range(8)]
    kept = [store.keep(frame) for frame in frames]
    assert store.bytes_on_disk == 49
    assert list(map(store.read, kept)) == frames
    store.close()


@pytest.mark.parametrize("limit", ["_WAITING", "_IN_MEMORY"])
def test_a_full_temporary_folder_is_named_and_leaves_no_file(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(frame_batches, limit, 0)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    noise = np.random.default_rng(0)
    recording = film(frames=100, pictures=lambda number: noise.integers(0, 256, (96, 128, 3), np.uint8))
    stage = ExtractFrames(FramePolicy("all"), image_format="png")
    task = DocumentBatch(data=pa.table({"bytes": [recording]}))
    with pytest.raises(ResourceError, match=r"frames .* cannot be kept in the temporary folder \(No space .* TMPDIR"):
        stage.process(task)
    assert not list(small_disk.iterdir())
    subprocess.run(["mount", "-o", "remount,size=9m", small_disk], check=True)
    batches = stage.process(task)
    stage.teardown()
    assert sum(batch.num_items for batch in batches) == 100
