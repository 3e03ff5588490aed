"""The time to find duplicates and benchmarks within a text grows with its length, on hostile texts too."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

from dcurate import Decontaminate, DocumentBatch, SpanDuplicates, SubstringDuplicates
from dcurate.dedup import Benchmark, MinHash, Shingles
from dcurate.dedup.spans import Unit
from dcurate.frames.text import column_of
from tests.growth import LENGTHS, SHORT, assert_linear, pairs, singles

TEXTS = [
    *(
        "a",
        "a ",
        "ab",
        "aab",
        "a b ",
        "a\n",
        "a\n\n",
        "a. ",
        ".",
        "...",
        "\n",
        " ",
        "\r\n",
        "\x85",
        "\t",
        "1 ",
        "'",
        ")",
    ),
    *(
        '"',
        "é",
        "e\u0301",
        "\u0301",
        "ﬁ",
        "中",
        "中。",
        "。",
        "한",
        "ก",
        "\u200d",
        "\x00",
        "\u3000",
        "x1 ",
        "lorem ipsum ",
    ),
]
FORMS = ("case", "digits", "punctuation", "unicode", "whitespace")

WORK: dict[str, Callable[[Any], object]] = {
    **{unit: SpanDuplicates(unit=unit, span=3, normalize=FORMS).finder().spans for unit in get_args(Unit)},
    "substrings": SubstringDuplicates().finder().spans,
    "words": MinHash().signatures,
    "characters": MinHash(Shingles(24, "characters"), method="cudf").signatures,
    "permutations": MinHash(method="permutations").signatures,
    "sets": partial(MinHash().sets, rows=np.array([0])),
}


@pytest.mark.parametrize("what", WORK)
def test_texts_are_compared_in_linear_time(what: str) -> None:
    def work(text: str) -> None:
        WORK[what](column_of([text.encode()]))

    assert_linear(work, singles(TEXTS), SHORT if what in get_args(Unit) else LENGTHS)
    assert_linear(work, pairs(["a", "b ", ". ", "\n"]), SHORT)


def test_benchmarks_are_found_in_linear_time(tmp_path: Path) -> None:
    questions = ["a " * 20, "a b " * 20, "lorem ipsum " * 20, "1 " * 30, "x1 " * 13]
    (tmp_path / "tasks.jsonl").write_text("\n".join(json.dumps({"question": question}) for question in questions))
    stage = Decontaminate(Benchmark(str(tmp_path / "tasks.jsonl"), "question"), action="flag")
    stage.setup()

    def work(text: str) -> None:
        stage.process(DocumentBatch(data=pa.table({"text": [text]})))

    assert_linear(work, singles(TEXTS), SHORT)
    assert_linear(work, pairs(["a ", "b ", "1 ", "lorem ipsum ", "x1 "]), SHORT)
