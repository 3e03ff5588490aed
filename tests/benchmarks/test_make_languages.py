"""Profiles of languages are made from translations, the same again from the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from benchmarks.make_languages import code_of
from dcurate.text.declaration import Declaration
from tests.conftest import ROOT

pytestmark = pytest.mark.program

#: Of nonsense languages, so that nobody takes them for what is bundled.
TRANSLATIONS = {"eo": "tuta homoj naskigas liberaj ", "deu_1996": "alle menschen sind frei ", "007": "nothing "}


def test_profiles_learn_all_but_the_beginning_and_come_out_the_same_again(tmp_path: Path) -> None:
    rows = [{"text": "xyzzy " * 10 + text * 30, "lang": lang} for lang, text in TRANSLATIONS.items()]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    for name in ("one.npz", "other.npz"):
        command = ["--input", tmp_path / "in.jsonl", "--output", tmp_path / name, "--spare", "60"]
        subprocess.run([sys.executable, "-m", "benchmarks.make_languages", *map(str, command)], cwd=ROOT, check=True)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    made = Declaration(tmp_path / "one.npz")
    assert made.languages == {"eo", "de"}
    found = made.closest(TRANSLATIONS["deu_1996"] * 30)
    assert found is not None
    assert found.language == "de"
    assert abs(found.likeness - 1) < 0.01
    assert made.closest("xyzzy zyx") is None or made.closest("xyzzy zyx").likeness < 0.5


def test_codes_are_those_that_the_models_give() -> None:
    labels = ("tgl", "nob", "quy", "cmn_hans", "deu_1901", "007", "011")
    assert [code_of(label) for label in labels] == ["tl", "no", "qu", "zh", "de", "", ""]
