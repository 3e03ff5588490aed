"""A student and an n-gram model are the same to the bit for any workers, files and batches, and after kills."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import psutil
import pytest

from dcurate import DaskExecutor, DocumentReader, InlineExecutor, LocalCluster, Pipeline
from dcurate.learn import HeldBack, Learn, Training, TrainNgrams, ngram_rounds, train_ngrams
from tests.learn.test_learn import DAMPED, SMALL, digest, texts, written
from tests.learn.test_train_ngrams import drawn

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    "features", [{"features": SMALL}, {"features": DAMPED}, {"feature_fields": ["size", "vector"]}]
)
def test_the_model_is_the_same_to_the_bit_for_any_workers_files_and_batches(tmp_path, features):
    rows = texts(300)
    for number, row in enumerate(rows):
        row |= {"size": number * 37 % 100, "vector": [number * 11 % 17 / 7, number % 2 + number % 5 / 3]}
    digests = set()
    for files, workers, blocksize in ((1, 0, "64MiB"), (3, 2, "4kB"), (7, 1, "2kB"), (2, 3, "9kB")):
        labels = written(tmp_path / f"labels-{files}", rows, files)
        model = tmp_path / f"model-{files}"
        learn = Learn(str(model), head_fields=["label", "grade"], held_back=HeldBack(site_field="url"), **features)
        executor = DaskExecutor({}, LocalCluster(n_workers=workers)) if workers else InlineExecutor()
        stages = [DocumentReader(str(labels), blocksize=blocksize), learn]
        Pipeline("learn", stages=stages).run(executor, observers=[])
        digests.add(digest(model))
    assert len(digests) == 1


def kill_who_trains(killed: list[int], stop: threading.Event) -> None:
    """Kill the process that has the lists of features open, once."""
    while not killed and not stop.is_set():
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if any(file.path.endswith("/features") for file in process.open_files()):
                    killed.append(process.pid)
                    process.kill()
                    return


@pytest.mark.parametrize("features", [SMALL, DAMPED])
def test_a_worker_that_is_killed_while_it_trains_changes_no_bit(tmp_path, features):
    labels = written(tmp_path / "labels", texts(300), 4)
    settings: dict[str, Any] = {"features": features, "training": Training(epochs=3000, patience=None)}
    stages = [DocumentReader(str(labels)), Learn(str(tmp_path / "calm"), **settings)]
    Pipeline("learn", stages=stages).run(InlineExecutor(), observers=[])
    killed: list[int] = []
    stop = threading.Event()
    killer = threading.Thread(target=kill_who_trains, args=(killed, stop))
    killer.start()
    try:
        stages = [DocumentReader(str(labels), blocksize="1kB"), Learn(str(tmp_path / "killed"), **settings)]
        Pipeline("learn", stages=stages).run(DaskExecutor({}, LocalCluster(n_workers=2)), observers=[])
    finally:
        stop.set()
        killer.join()
    assert len(killed) == 1
    assert digest(tmp_path / "calm") == digest(tmp_path / "killed")


def test_an_ngram_model_is_the_same_to_the_bit_for_any_workers_files_and_ranges(tmp_path, monkeypatch):
    rows = [{"text": text} for text in drawn(200)]
    models = set()
    for files, workers, blocksize, block in (
        (1, 0, "64MiB", 2**26),
        (5, 1, "4kB", 2**12),
        (3, 2, "9kB", 2**16),
        (4, 3, "3kB", 2**14),
    ):
        monkeypatch.setattr(train_ngrams, "_BLOCK", block)
        monkeypatch.setattr(ngram_rounds, "_TEXTS", 2**10)  # of the process that runs inline
        folder, path = written(tmp_path / f"in-{files}", rows, files), tmp_path / f"{files}.arpa"
        executor = DaskExecutor({}, LocalCluster(n_workers=workers)) if workers else InlineExecutor()
        stages = [DocumentReader(str(folder), blocksize=blocksize), TrainNgrams(path, min_counts=(1, 1, 2))]
        Pipeline("train", stages=stages).run(executor, observers=[])
        models.add(path.read_bytes())
    assert len(models) == 1


def kill_who_counts(killed: list[int], stop: threading.Event) -> None:
    """Kill a process that reads or writes n-grams of a round, once."""
    while not killed and not stop.is_set():
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if any("/scratch/" in file.path for file in process.open_files()):
                    killed.append(process.pid)
                    process.kill()
                    return


def test_a_worker_that_is_killed_while_it_counts_ngrams_changes_no_bit(tmp_path):
    folder = written(tmp_path / "in", [{"text": text} for text in drawn(3000)], 8)
    calm, path = tmp_path / "calm.arpa", tmp_path / "killed.arpa"
    Pipeline("train", stages=[DocumentReader(str(folder)), TrainNgrams(calm)]).run(InlineExecutor(), observers=[])
    killed: list[int] = []
    stop = threading.Event()
    killer = threading.Thread(target=kill_who_counts, args=(killed, stop))
    killer.start()
    try:
        stages = [DocumentReader(str(folder), blocksize="20kB"), TrainNgrams(path)]
        Pipeline("train", stages=stages).run(DaskExecutor({}, LocalCluster(n_workers=2)), observers=[])
    finally:
        stop.set()
        killer.join()
    assert len(killed) == 1
    assert calm.read_bytes() == path.read_bytes()
