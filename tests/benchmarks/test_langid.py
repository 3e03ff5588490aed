from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from benchmarks.langid import shortest
from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program

ROWS = [
    ("deu", "Wer das liest, der versteht wohl die deutsche Sprache."),
    ("eng_US", "This is a sentence that anybody can read."),
    ("ces", "This is a sentence that anybody can read."),
    ("007", "No language has this number for a code."),
    ("tlu", "xqzt wvkk jjpl qqrx zzvb"),
    ("zh", "我来到北京清华大学"),
]


def test_langid_gives_accuracy_over_languages_and_rates(tmp_path: Path) -> None:
    file = tmp_path / "labelled.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps({"lang": lang, "text": text}) for lang, text in ROWS))
    figures, printed = figures_of(
        "langid", tmp_path, "--repeat", "1", "--input", str(file), "--peer", "fasttext", "--peer", "elvish"
    )
    assert figures["macro_accuracy"] == 3 / 5
    assert figures["macro_accuracy_of_known"] == 3 / 4
    assert figures["unknown_said_unknown"] == 1
    labelled = figures["inputs"]["labelled"]
    assert labelled["by_language"]["cs"]["taken_for"] == {"en": 1}
    assert labelled["left_out"] == ["007"]
    assert labelled["documents_per_cpu_s"] > 0
    assert figures["peers"]["labelled"]["fasttext"]["macro_accuracy"] == 3 / 5
    assert figures["peers"]["labelled"]["elvish"] is None
    assert "elvish: not run (KeyError: 'elvish')" in printed
    assert figures["splitting"]["zh"]["words"] == 4
    assert {"machine", "versions"} <= set(figures)


def test_codes_of_one_macrolanguage_are_the_same() -> None:
    assert [shortest(code) for code in ("cmn_hans", "zh-Hant", "arm", "nob", "por_BR", "x1")] == [
        *("zh", "zh", "hy", "no", "pt", "")
    ]
