"""The index of a ledger: what is added is found, whichever runs are in memory or on disk."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.errors import RunError
from dcurate.io import ledger_index
from dcurate.io.ledger_index import RecordIndex

hashes = st.one_of(st.integers(0, 12), st.integers(0, 2**64 - 1))


@settings(deadline=None)
@given(added=st.lists(st.lists(hashes, max_size=60), max_size=12), gone=st.sets(st.integers(0, 200), max_size=20))
def test_what_is_added_is_found_unless_its_segment_is_gone(added: list[list[int]], gone: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MOST_IN_MEMORY": 16, "_BLOCK": 4, "_CHUNK": 3}.items():
            patch.setattr(ledger_index, name, value)
        index, kept = RecordIndex(lambda places: ~np.isin(places, list(gone))), defaultdict[int, list[int]](list)
        number = 0
        for keys in added:
            places = np.arange(number, number + len(keys))
            index.add(np.array(keys, np.uint64), places)
            for key, place in zip(keys, places.tolist(), strict=True):
                kept[key].append(place)
            number += len(keys)
        for key, places_of_key in kept.items():
            found = index.find(key)
            assert found == sorted(found, reverse=True)
            assert set(found) - gone == set(places_of_key) - gone
        assert kept.get(2**64 - 2) or index.find(2**64 - 2) == []
        present = {key: set(places_of_key) - gone for key, places_of_key in kept.items()}
        repeated = {place for places_of_key in present.values() if len(places_of_key) > 1 for place in places_of_key}
        found_repeated = set(index.repeated())
        assert found_repeated == repeated if not gone else found_repeated >= repeated


def test_a_long_index_holds_next_to_nothing_in_memory_and_its_files_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracemalloc = pytest.importorskip("tracemalloc")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before, rng = len(os.listdir("/proc/self/fd")), np.random.default_rng(1)
    tracemalloc.start()
    index, keys = RecordIndex(lambda places: places >= 0), rng.integers(0, 2**63, 300_000).astype(np.uint64)
    for start in range(0, len(keys), 500):
        index.add(keys[start : start + 500], np.arange(start, start + 500))
    held = tracemalloc.get_traced_memory()[0] - keys.nbytes
    tracemalloc.stop()
    assert held < 1_000_000  # of 4,800,000 bytes of entries
    assert all(index.find(int(keys[place])) == [place] for place in range(0, len(keys), 997))
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) > before
    del index
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_temporary_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    index = RecordIndex(lambda places: places >= 0)
    with pytest.raises(RunError, match=r"cannot be kept in the temporary folder \(.*No space left.*TMPDIR"):
        index.add(np.arange(100_000, dtype=np.uint64), np.arange(100_000))
