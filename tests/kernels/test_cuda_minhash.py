"""What a GPU is to compute is what the CPU does, as far as numba's simulator of CUDA can tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

from dcurate.kernels.minhash import one_permutation
from dcurate.kernels.shingles import Rule
from tests.kernels.shingle_oracle import layout

TEXTS = ["", "?!", "one", "Once upon a time, there was a KING", "so it goes " * 400, "中文 ab İx ΟΔΟΣ é", "ü" * 2050]
HASHES = 6
SIMULATED = """
import json, sys, warnings
import numpy as np
from dcurate.kernels.cuda_minhash import one_permutation
from dcurate.kernels.shingles import Rule
from tests.kernels.shingle_oracle import layout

warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap around
texts, hashes = json.load(sys.stdin)
for words in (True, False):
    rule = Rule(3, words, np.uint64(42))
    print(json.dumps(one_permutation(*layout(*texts), rule, hashes, grid=(2, 2)).tolist()))
"""


def test_signatures_by_simulated_cuda_are_those_of_the_cpu_to_the_last_bit() -> None:
    simulated = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", SIMULATED],
        input=json.dumps([TEXTS, HASHES]),
        env=simulated,
        capture_output=True,
        text=True,
        check=True,
    )
    by_cuda = [json.loads(line) for line in ended.stdout.splitlines()]
    column = layout(*TEXTS)
    rules = [Rule(3, words, np.uint64(42)) for words in (True, False)]
    assert by_cuda == [one_permutation(*column, rule, HASHES).tolist() for rule in rules]
