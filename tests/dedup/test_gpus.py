"""With slots that have a GPU the rows are those of the CPU, according to numba's simulator of CUDA."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.dedup.curate_on_gpus import curate
from tests.dedup.cut_on_gpus import KINDS, cut
from tests.dedup.pairs_on_gpu import pairs
from tests.kernels.cuda_process import SIMULATED, simulated_cuda

pytestmark = pytest.mark.program

WORDS = ("so", "it", "goes", "and", "then", "the", "king", "said", "unto", "them", "nothing", "was", "had", "been")
FEW, REPEATED = "too few words", "again\n" * 9


def documents() -> list[str]:
    draw = random.Random(5)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(30, 60))) for _ in range(6)]
    return [*texts, texts[0] + "!", texts[1].upper(), FEW, REPEATED, *texts[4:]]


def test_a_pipeline_on_a_simulated_gpu_keeps_the_rows_that_it_keeps_on_the_cpu(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(orjson.dumps({"text": text}) + b"\n" for text in documents()))
    curate(str(source), str(tmp_path / "cpu"), gpus=0)
    command = [sys.executable, "-m", "tests.dedup.curate_on_gpus", str(source), str(tmp_path / "gpu")]
    done = subprocess.run(command, env={**os.environ, **SIMULATED}, capture_output=True, text=True, check=True)
    whole = sum(len(text) for text in documents())
    moved = [whole, whole - len(FEW) - len(REPEATED)]  # once a stage, however many filters it has
    # characters, words, lines, n-grams, signatures, hashes of texts, and two for the sets that are remembered
    kernels = 8
    assert json.loads(done.stdout) == {"kernels": kernels, "moved": moved}
    rows = [b"".join(path.read_bytes() for path in files(tmp_path / kind, "*.jsonl")) for kind in ("cpu", "gpu")]
    assert rows[0] == rows[1]
    assert len(rows[0].splitlines()) == 6
    seen = [remembered(tmp_path / kind) for kind in ("cpu-seen", "gpu-seen")]
    assert seen[0] == seen[1]
    assert len(seen[0]["rows"]) == len(seen[0]["bands"]) == 1


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def remembered(folder: Path) -> dict[str, list[bytes]]:
    """The index entries of documents, and their bands."""
    return {kind: [path.read_bytes() for path in files(folder, f"**/{kind}/*")] for kind in ("rows", "bands")}


def test_pairs_on_a_simulated_gpu_are_those_of_the_cpu() -> None:
    with simulated_cuda("tests.dedup.pairs_on_gpu") as gpu:
        assert gpu(documents()) == pairs(documents(), lambda column: column)
        assert gpu([]) == pairs([], lambda column: column)
    exact = pairs(documents(), lambda column: column)["exact"]
    assert [0, 6] in [pair[:2] for pair in exact]


def test_a_bloom_pass_over_a_batch_of_cudf_takes_to_the_host_what_it_drops_and_no_more() -> None:
    command = [sys.executable, "-m", "tests.dedup.bloom_on_gpu"]
    done = subprocess.run(command, env={**os.environ, **SIMULATED}, capture_output=True, text=True, check=True)
    passes = json.loads(done.stdout)
    for host, gpu in passes:
        assert gpu[:2] == host[:2]
        assert (host[2], gpu[2]) == ("pyarrow", "cudf")
    plain, without_nulls = passes[0], passes[-1]
    assert plain[0][:2] == [["one", "two", None, "", "é " * 200, "é" * 9], 3]
    # Only rows without nulls are hashed on the GPU, as they are.
    assert [gpu[3].count("cudf.DataFrame.to_arrow") for _, gpu in passes] == [2, 2, 2, 1]
    assert without_nulls[1][:2] == [["one", "two", "", "é " * 200, "é" * 9], 3]


def test_spans_found_on_a_simulated_gpu_are_cut_as_those_that_the_cpu_finds(tmp_path: Path) -> None:
    said = "Nothing was said.\nAnd so it goes, said the king unto them all!\n"
    texts = [f"{said}{number} {text}\n{said}" for number, text in enumerate(documents())]
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(orjson.dumps({"text": text}) + b"\n" for text in texts))
    cut(str(source), str(tmp_path / "cpu"), gpus=0)
    command = [sys.executable, "-m", "tests.dedup.cut_on_gpus", str(source), str(tmp_path / "gpu")]
    done = subprocess.run(command, env={**os.environ, **SIMULATED}, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"kernels": 4}  # two for units, two for anchors
    for kind in KINDS:
        written = [
            b"".join(path.read_bytes() for path in files(tmp_path / on / kind, "*.jsonl")) for on in ("cpu", "gpu")
        ]
        assert written[0] == written[1]
        assert len(written[0]) < source.stat().st_size
