"""What a GPU is to compute is what the CPU does, as far as numba's simulator of CUDA can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate.kernels.minhash import one_permutation
from dcurate.kernels.permutations import as_cudf, permuted
from dcurate.kernels.repeats import repeat_signals
from dcurate.kernels.traits import sought_signals, trait_signals
from dcurate_testing.cuda_measures import MEASURES, all_signals
from tests.kernels.cuda_process import Simulated, simulated_cuda
from tests.kernels.simulated import by_cpu

#: On a clone in which nothing is compiled, the first of them compiles all kernels of signals for the CPU.
pytestmark = [pytest.mark.program, pytest.mark.timeout(900)]

SAMPLE = Path(__file__).parents[2] / "dcurate/bundled/sample/part-00.jsonl"
TEXTS = [
    *("", "?!", "one", "Once upon a time, there was a KING", "so it goes " * 30, "中文 ab İx ΟΔΟΣ é", "ü" * 120),
    "• one.\n\n• one.\nand so on...\n  \n> read more...\n{}[]()⟨⟩ ## # … [...]\nthe end\u3000of the end",
]
PAGES = [
    "see https://a.b/c%20d?porn and http://, or http:// www.c.d https://e",
    "We use coo\N{KELVIN SIGN}ies.\n\n\nLorem ipsum\n\nuse cookies, use Cookies\n\nCookie Policy",
    'int i; // é\n/* two */ "a // b" /* three',
    '# a\n\'#\' "x\\"#" b # c\n<!-- d --> " <!-- e --> \n<!-- f',
    "é<?xml version\r\n- a…\r\n- a…\r\n\u2028 - a… \x1c\n\n\n\nb...\n\nb...",
    "Mail jo@example.org, phone +1 (415) 555-2671 or 030 901820, from 8.8.8.8, 10.0.0.1 or 2001:4860:4860::8888.",
    "Visa 4111 1111 1111 1111, IBAN DE89 3704 0044 0532 0130 00, SSN 536-22-1234, https://a:b@c.de/ ghp_" + "0a1B2" * 8,
    "A line that ends.[1]\n\u2003One more [edit] line. \nno end\nJavascript is on.\nIs[citation needed] {.\r\nEnd...",
    'We stay here. And more follows!\nOur privacy policy is here.\nIt said [२] "so".\x85 Lorem ipsum is here.',
    "Это по-русски, mostly. ΔΟΣ ΔΟΣ 日本 にほん 👍🏽 🇫🇷 ❤\ufe0f",
]
WORDS = [
    *("a", "the", "ab", "é", "中", "...", "#", "•", "\n", "\n\n", " ", "\u2003", "read more", "x" * 9, "📚", "İ", "Σ"),
    *("http://", "https://a.b/porn", "use cookies", "lorem ipsum", "\N{KELVIN SIGN}", "я", "\r\n", "\x85"),
    *("//", "/*", "*/", '"', "'", "\\", "`", "<!--", "-->", "<?xml", "-", "…"),
    *("jo@example.org", "+1 415 555 2671", "8.8.8.8", "4111 1111 1111 1111", "1", "0", ".", ":", "@", "(0)20"),
    *("[1]", "[", "]", "{", "So it ends.", "Javascript", ".\n"),
]


@pytest.fixture(scope="module")
def cuda() -> Iterator[Simulated]:
    with simulated_cuda("tests.kernels.simulated") as simulated:
        yield simulated


def test_every_signal_is_compared_with_its_cpu_kernel() -> None:
    # MinHash is not a measure of a text, and signals of word ids are compared as signals of texts.
    others = {one_permutation, permuted, as_cudf, repeat_signals, sought_signals, trait_signals}
    missing = all_signals() - others - {signal for _, signal, _ in MEASURES}
    assert missing == set(), "add the signal, with options, to MEASURES in dcurate_testing/cuda_measures.py"


def test_kernels_by_simulated_cuda_give_what_those_of_the_cpu_give_to_the_last_bit(cuda: Simulated) -> None:
    for texts in (TEXTS, PAGES):
        assert cuda(texts) == by_cpu(texts)


def test_kernels_by_simulated_cuda_give_what_those_of_the_cpu_give_for_documents(cuda: Simulated) -> None:
    lines = SAMPLE.read_bytes().splitlines()[:4]
    texts = [json.loads(line)["text"][:400] for line in lines]
    assert len(set(texts)) == 4
    assert cuda(texts) == by_cpu(texts)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=25).map("".join), max_size=3))
def test_kernels_by_simulated_cuda_give_what_those_of_the_cpu_give_for_any_texts(
    cuda: Simulated, texts: list[str]
) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    assert cuda(texts) == by_cpu(texts)
