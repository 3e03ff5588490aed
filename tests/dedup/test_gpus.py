"""With slots that have a GPU the rows are those of the CPU, as far as numba's simulator of CUDA can tell."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import orjson

from tests.dedup.curate_on_gpus import curate
from tests.kernels.cuda_process import SIMULATED

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
    assert json.loads(done.stdout) == {"kernels": 3, "moved": moved}
    written = [sorted(path.name for path in (tmp_path / kind).glob("*.jsonl")) for kind in ("cpu", "gpu")]
    assert written[0] == written[1]
    rows = [b"".join((tmp_path / kind / name).read_bytes() for name in written[0]) for kind in ("cpu", "gpu")]
    assert rows[0] == rows[1]
    assert len(rows[0].splitlines()) == 6
