"""Every layout is written with the same bytes by one, two and three workers."""

import json
from typing import Any

import numpy as np
import pytest
import soundfile

from dcurate import DaskExecutor, InlineExecutor, LocalCluster, Pipeline
from dcurate.audio import (
    AudioFolderWriter,
    CutAudio,
    LhotseCutWriter,
    LhotseSharWriter,
    NemoManifestReader,
    NemoManifestWriter,
    NemoTarWriter,
)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for part in range(4):
        lines = []
        for number in range(3):
            name = f"{part}-{number}.wav"
            samples = np.random.default_rng(10 * part + number).integers(-(2**12), 2**12, 4000, dtype=np.int16)
            soundfile.write(folder / name, samples, 8000)
            lines.append({"audio_filepath": name, "text": name, "duration": 0.5})
            lines.append({"audio_filepath": name, "text": "part", "offset": 0.1, "duration": 0.25})
        lines.append({"audio_filepath": "none.wav"})
        (folder / f"{part}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(corpus, out, executor):
    """Write the corpus in each layout, and return all files."""
    stages: dict[str, list[Any]] = {
        "manifest": [NemoManifestWriter(str(out / "manifest"))],
        "tarred": [NemoTarWriter(str(out / "tarred"))],
        "cuts": [LhotseCutWriter(str(out / "cuts"))],
        "shar": [LhotseSharWriter(str(out / "shar"))],
        "folder": [CutAudio(audio_format="ogg"), AudioFolderWriter(str(out / "folder"))],
    }
    for name, last in stages.items():
        result = Pipeline(name, stages=[NemoManifestReader(f"{corpus}/*.json"), *last]).run(executor, observers=[])
        rows = result.report.stages
        assert (rows[0].rows_out, rows[-1].rows_out) == (24, 24)
    return {name: files_of(out / name) for name in stages}


def test_the_bytes_do_not_depend_on_the_number_of_workers(corpus, tmp_path, cluster: LocalCluster):
    alone = write(corpus, tmp_path / "one", InlineExecutor())
    assert {name: len(files) for name, files in alone.items()} == {
        "manifest": 4,
        "tarred": 8,
        "cuts": 4,
        "shar": 8,
        "folder": 28,
    }
    assert write(corpus, tmp_path / "two", DaskExecutor(cluster=cluster)) == alone
    with LocalCluster(n_workers=3, gpus=False) as three:
        assert write(corpus, tmp_path / "three", DaskExecutor(cluster=three)) == alone
