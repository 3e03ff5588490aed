"""What runs on a GPU in the tests for one and in `benchmarks.device`, and what it runs on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dcurate
from dcurate import FuzzyDuplicates, JsonlReader, JsonlWriter, Pipeline, Resources, ScoreFilter
from dcurate.core.pipeline import AnyStage
from dcurate.dedup import MinHash, Shingles
from dcurate.frames.convert import cudf
from dcurate.frames.text import text_column
from dcurate.kernels.minhash import Signatures
from dcurate.kernels.permutations import Permutations
from dcurate.text import RepeatedLinesFilter, WordCountFilter

SAMPLE = Path(dcurate.__file__).parent / "bundled" / "sample"
CUDF = MinHash(Shingles(24, "characters"), 260, "cudf")
#: What cuDF's documentation says of ``minhash(seed=0, a=[1, 2, 3], b=[4, 5, 6], width=5)``.
DOCUMENTED = {
    "this is my": [1305480171, 462824409, 74608232],
    "favorite book": [32665388, 65330773, 97996158],
}


def sample() -> list[bytes]:
    """The texts of the bundled sample."""
    columns = [text_column(batch.to_arrow(), "text") for batch in read_all(reader(fields=["text"]))]
    return [
        column.data[start:stop].tobytes() for column in columns for start, stop in pairwise(column.offsets.tolist())
    ]


def reader(**options: Any) -> JsonlReader:
    """What reads the sample, which has lines that are none."""
    return JsonlReader(str(SAMPLE), on_bad_line="quarantine", **options)


def read_all(source: Any) -> list[Any]:
    return [batch for split in source.splits() if (batch := source.process(split)) is not None]


def by_cudf(frame: Any, draw: Permutations, seed: int, width: int) -> Signatures:
    """The MinHash of cuDF itself, of the column ``text``."""
    factors, summands = (cudf().Series(values) for values in draw)
    lists = frame["text"].str.minhash(seed=seed, a=factors, b=summands, width=width).to_arrow()
    return np.asarray(lists.flatten(), np.uint32).reshape(len(frame), len(draw.factors))


def curate(output: str, gpus: float, executor: Any) -> dict[str, int]:
    """Filter and deduplicate the sample; how often each line was written."""
    resources = Resources(cpus=1, gpus=gpus)
    stages: list[AnyStage] = [
        reader(),
        ScoreFilter(WordCountFilter(min_words=20), score_field="words").with_(resources=resources),
        ScoreFilter(RepeatedLinesFilter()).with_(resources=resources),
        FuzzyDuplicates().with_(resources=resources),
        JsonlWriter(output),
    ]
    Pipeline(name="sample", stages=stages).run(executor)
    lines = [line for path in sorted(Path(output).glob("*.jsonl")) for line in path.read_text().splitlines()]
    return {line: lines.count(line) for line in set(lines)}


def clouds(rows: int, dimensions: int) -> npt.NDArray[np.float32]:
    """Vectors of length one around a thousand centers, every tenth a near copy of the one before it."""
    draw = np.random.default_rng(3)
    centers = draw.normal(size=(1000, dimensions))
    found = centers[draw.integers(1000, size=rows)] + draw.normal(size=(rows, dimensions)) / 2
    found[1::10] = found[0::10][: len(found[1::10])] + draw.normal(size=found[1::10].shape) / 1000
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)
