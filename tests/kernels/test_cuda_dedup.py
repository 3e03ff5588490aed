"""What a GPU is to compute for deduplication is what the CPU does, as far as numba's simulator of CUDA can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from tests.kernels.cuda_process import Simulated, simulated_cuda
from tests.kernels.simulated_dedup import by_cpu
from tests.kernels.test_cuda import SAMPLE, TEXTS, WORDS

pytestmark = pytest.mark.program

MANY = " ".join(f"w{number * 7919 % 1000}" for number in range(900))
#: On both sides of where XXH3 goes another way.
LENGTHS = (0, 1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 128, 129, 160, 240, 241, 320, 321, 1024, 1025, 1088, 1089, 2049)


@pytest.fixture(scope="module")
def cuda() -> Iterator[Simulated]:
    with simulated_cuda("tests.kernels.simulated_dedup") as simulated:
        yield simulated


def test_deduplication_by_simulated_cuda_finds_what_the_cpu_finds_to_the_last_bit(cuda: Simulated) -> None:
    assert cuda(TEXTS) == by_cpu(TEXTS)
    assert cuda([]) == by_cpu([])


def test_texts_with_more_values_than_are_held_have_the_sets_of_the_cpu(cuda: Simulated) -> None:
    texts = [MANY, MANY[:-9], "so it goes", MANY[2000:]]
    found = by_cpu(texts)
    assert cuda(texts) == found
    assert 0 < found["jaccard"][0][2] < 1


def test_digests_by_simulated_cuda_are_those_of_xxhash_for_every_kind_of_length(cuda: Simulated) -> None:
    texts = ["x?" * (length // 2) + "y" * (length % 2) for length in LENGTHS]
    expected = [np.frombuffer(xxh3_128_digest(text.encode()), np.uint64).tolist() for text in texts]
    assert cuda(texts)["digests"] == expected[::-1]


def test_deduplication_by_simulated_cuda_finds_what_the_cpu_finds_in_documents(cuda: Simulated) -> None:
    texts = [json.loads(line)["text"][:400] for line in SAMPLE.read_bytes().splitlines()[:4]]
    assert cuda(texts) == by_cpu(texts)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=25).map("".join), max_size=3))
def test_deduplication_by_simulated_cuda_finds_what_the_cpu_finds_in_any_texts(
    cuda: Simulated, texts: list[str]
) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    assert cuda(texts) == by_cpu(texts)
