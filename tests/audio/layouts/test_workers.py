"""Every layout is written with the same bytes by one, two and three workers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from dcurate import DaskExecutor, DcurateError, InlineExecutor, LocalCluster, Pipeline, ProcessingStage
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


@dataclass
class FailOnce(ProcessingStage):
    """Fails at the third split, as long as a file is not there."""

    path: str
    name: str = "fail_once"

    def settings(self):
        return {}

    def process(self, batch):
        if "2.json" in str(batch.key) and not Path(self.path).exists():
            raise ValueError("stopped")
        return batch


@pytest.mark.parametrize(
    "writer", [NemoManifestWriter, NemoTarWriter, LhotseCutWriter, LhotseSharWriter, AudioFolderWriter]
)
def test_half_a_run_and_a_resume_write_the_files_of_one_run(corpus, tmp_path, writer):
    def run(out, mark, resume=False):
        stages = [NemoManifestReader(f"{corpus}/*.json"), FailOnce(str(mark)), writer(str(out))]
        Pipeline("resume", stages=stages).run(InlineExecutor(), observers=[], resume=resume)

    with pytest.raises(DcurateError, match="stopped"):
        run(tmp_path / "out", tmp_path / "mark")
    some = files_of(tmp_path / "out")
    (tmp_path / "mark").touch()
    run(tmp_path / "out", tmp_path / "mark", resume=True)
    run(tmp_path / "whole", tmp_path / "mark")
    assert some.items() < files_of(tmp_path / "out").items()
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("writer", [NemoTarWriter, LhotseSharWriter, AudioFolderWriter])
def test_the_files_of_an_earlier_run_are_known_and_replaced(corpus, tmp_path, writer):
    def run(mode):
        stages = [NemoManifestReader(f"{corpus}/*.json"), writer(str(tmp_path / "out"), mode=mode)]
        Pipeline("again", stages=stages).run(InlineExecutor(), observers=[])
        return files_of(tmp_path / "out")

    first = run("error")
    with pytest.raises(DcurateError, match="holds the output of a finished or unfinished run"):
        run("error")
    assert run("overwrite") == first


@pytest.mark.parametrize("writer", [NemoTarWriter, AudioFolderWriter])
def test_layouts_whose_names_have_no_runs_refuse_to_be_appended_to(writer):
    with pytest.raises(DcurateError, match="mode='append' is not for this layout"):
        writer("out", mode="append")
