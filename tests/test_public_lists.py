"""All that belongs to a public filter, modifier, extractor or stage is there: export, reference, oracle, tests."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from typing import Any

import pytest

import dcurate
import dcurate.llm
from dcurate.core.public import find_public, homes, public_modules
from dcurate.core.stage import FunctionStage, Stage
from dcurate.llm.synthetic import LanguageSamples
from dcurate.text import DocumentFilter, DocumentModifier, HTMLExtractorAlgorithm, SignalFilter
from dcurate_testing.filter_oracle import RULES
from tests.conftest import ROOT

#: Rules of published sets, which are reached through their set: `gopher`, `fineweb_quality`, `c4`, `refinedweb`.
OF_SETS = re.compile(r"dcurate\.text\.(filters\.)?(c4|fineweb|gopher|refinedweb)$")

#: Filters that are not in the oracle of the kernels, and the tests that hold their scores against something else.
ELSEWHERE = {
    **dict.fromkeys(
        (
            *("AlphaFilter", "GeneralCommentToCodeFilter", "HTMLBoilerplateFilter", "NumberOfLinesOfCodeFilter"),
            *("PerExtensionFilter", "PythonCommentToCodeFilter", "XMLHeaderFilter"),
        ),
        "tests/text/test_code_filters.py",
    ),
    "C4BadWordsFilter": "tests/text/test_bad_words.py",
    "FastTextQualityFilter": "tests/text/test_fasttext.py",
    "PerplexityFilter": "tests/text/test_perplexity.py",
    "LabelScoreFilter": "tests/learn/test_learn.py",
    "HistogramFilter": "tests/text/test_code_filters.py",
    "PiiFilter": "tests/text/test_pii.py",
}


@cache
def classes() -> list[type[Any]]:
    """The concrete classes of the kinds that a pipeline is made of, wherever in dcurate they are defined."""
    kinds = (DocumentFilter, DocumentModifier, HTMLExtractorAlgorithm, Stage)
    names = [module.name for module in pkgutil.walk_packages(dcurate.__path__, "dcurate.")]
    modules = [
        importlib.import_module(name)
        for name in names
        if not name.startswith("dcurate.compat") and not name.endswith("__main__")
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and issubclass(value, kinds)
        and not value.__name__.startswith("_")
        and not inspect.isabstract(value)
    ]


def exported(kind: type[Any]) -> bool:
    return kind.__name__ in homes() and find_public(kind.__name__) is kind


def test_each_public_name_is_in_one_module_and_few_are_at_the_top() -> None:
    names = [name for module in public_modules() for name in dir(importlib.import_module(module))]
    assert sorted(names) == sorted(homes()), "a name belongs to one __init__.pyi"
    assert len(dir(dcurate)) <= 70, "give the name to the __init__.pyi of its subject"
    taken = {path.stem for path in (ROOT / "dcurate").iterdir()} & set(names)
    assert taken == set(), "a public name hides a module of dcurate"


def test_a_name_that_is_looked_for_at_the_top_is_said_to_be_elsewhere() -> None:
    with pytest.raises(AttributeError, match=r"dcurate has no WordCountFilter; import it from dcurate\.text"):
        _ = dcurate.WordCountFilter  # type: ignore[attr-defined]
    assert not hasattr(dcurate, "NoSuchFilter")


@pytest.mark.parametrize(
    ("module", "name", "end"),
    [
        ("dcurate", "FuzzyDedup", "; did you mean 'FuzzyDuplicates'?"),
        ("dcurate", "JSONLReader", "; did you mean 'JsonlReader'?"),
        ("dcurate", "zzzzzz", ""),
        ("dcurate", "peak", "; did you mean 'peek'?"),
        ("dcurate", "WordcountFilter", "; did you mean 'WordCountFilter' of dcurate.text?"),
        ("dcurate.text", "WordCountFiltr", "; did you mean 'WordCountFilter'?"),
        ("dcurate.text", "JSONLReader", "; did you mean 'JsonlReader' of dcurate?"),
        ("dcurate.text", "JsonlReader", "; import it from dcurate"),
        ("dcurate.text", "Zzzzzzzz", ""),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(module: str, name: str, end: str) -> None:
    place = importlib.import_module(module)
    assert not hasattr(place, name)
    with pytest.raises(AttributeError) as refusal:
        getattr(place, name)
    assert str(refusal.value) == f"{module} has no {name}{end}"
    with pytest.raises(ImportError) as refusal_of_import:
        exec(f"from {module} import {name}")
    assert str(refusal_of_import.value) == f"{module} has no {name}{end}"


def test_every_filter_modifier_and_extractor_is_exported() -> None:
    parts = [kind for kind in classes() if not issubclass(kind, Stage) and not OF_SETS.match(kind.__module__)]
    missing = [kind for kind in parts if not exported(kind) and kind.__module__ != "dcurate.llm.nemotron_pipeline"]
    assert missing == [], "add it to the __init__.pyi of its subject and to its page in docs/reference/"


def test_every_stage_with_an_example_in_its_docstring_is_exported() -> None:
    shown = [kind for kind in classes() if issubclass(kind, Stage) and "Examples:" in (vars(kind).get("__doc__") or "")]
    assert len(shown) > 100
    shown = [kind for kind in shown if not OF_SETS.match(kind.__module__)]
    missing = [kind for kind in shown if not exported(kind) and kind not in (FunctionStage, LanguageSamples)]
    assert missing == [], "add it to the __init__.pyi of its subject and to its page in docs/reference/"


def test_every_filter_over_signals_is_held_against_an_oracle() -> None:
    ruled = {type(rule) for rule, _ in RULES}
    filters = [kind for kind in classes() if issubclass(kind, SignalFilter) and not OF_SETS.match(kind.__module__)]
    missing = [kind.__name__ for kind in filters if kind not in ruled and kind.__name__ not in ELSEWHERE]
    assert missing == [], "add its rule in plain Python to RULES in dcurate_testing/filter_oracle.py"


@pytest.mark.parametrize(("name", "path"), ELSEWHERE.items())
def test_a_filter_without_an_oracle_has_its_scores_tested_elsewhere(name: str, path: str) -> None:
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{path} does not test {name}"


def test_everything_public_that_a_pipeline_is_made_of_has_a_test() -> None:
    text = "".join(
        path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_public_lists.py"
    )
    words = set(re.findall(r"\w+", text))
    missing = [kind.__name__ for kind in classes() if exported(kind) and kind.__name__ not in words]
    assert missing == [], "test it in the module of tests/ that mirrors its own"
