"""What a GPU is to compute is what the CPU does, as far as numba's simulator of CUDA can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.cuda_process import Simulated, simulated_cuda
from tests.kernels.simulated import by_cpu

SAMPLE = Path(__file__).parents[2] / "dcurate/bundled/sample/part-00.jsonl"
TEXTS = [
    *("", "?!", "one", "Once upon a time, there was a KING", "so it goes " * 60, "中文 ab İx ΟΔΟΣ é", "ü" * 300),
    "• one.\n\n• one.\nand so on...\n  \n> read more...\n{}[]()⟨⟩ ## # … [...]\nthe end\u3000of the end",
]
WORDS = [
    "a",
    "the",
    "ab",
    "é",
    "中",
    "...",
    "#",
    "•",
    "\n",
    "\n\n",
    " ",
    "\u2003",
    "read more",
    "x" * 9,
    "📚",
    "İ",
    "Σ",
]


@pytest.fixture(scope="module")
def cuda() -> Iterator[Simulated]:
    with simulated_cuda("tests.kernels.simulated") as simulated:
        yield simulated


def test_kernels_by_simulated_cuda_give_what_those_of_the_cpu_give_to_the_last_bit(cuda: Simulated) -> None:
    assert cuda(TEXTS) == by_cpu(TEXTS)


def test_kernels_by_simulated_cuda_give_what_those_of_the_cpu_give_for_documents(cuda: Simulated) -> None:
    lines = SAMPLE.read_bytes().splitlines()[:4]
    texts = [json.loads(line)["text"][:400] for line in lines]
    assert len(set(texts)) == 4
    assert cuda(texts) == by_cpu(texts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=30).map("".join), max_size=4))
def test_kernels_by_simulated_cuda_give_what_those_of_the_cpu_give_for_any_texts(
    cuda: Simulated, texts: list[str]
) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    assert cuda(texts) == by_cpu(texts)
