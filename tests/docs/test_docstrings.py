"""Every public name says what it is, what its arguments are, and shows itself in an example that runs."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import dcurate.events
import dcurate.policies
import dcurate.testing
from dcurate import DcurateError
from dcurate.core.public import find_public, homes


def plain_names() -> dict[str, Any]:
    """Return what is public in the modules that hold their names themselves, by dotted name."""
    return {
        f"{module.__name__}.{name}": value
        for module in (dcurate.events, dcurate.policies, dcurate.testing)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "").startswith((module.__name__, "dcurate.engine.policies"))
        and (inspect.isclass(value) or inspect.isfunction(value))
    }


PUBLIC = {name: value for name in homes() if callable(value := find_public(name))}
ALL = {**PUBLIC, **plain_names()}
#: All but kinds of errors, of which there is nothing to show.
SHOWN = {
    name: value for name, value in PUBLIC.items() if not (isinstance(value, type) and issubclass(value, DcurateError))
}


#: Names that have no example yet; the list may only become shorter.
WITHOUT_EXAMPLE = {
    *("Batch", "BloomState", "ConversationFormatter", "DedupReport", "DedupReportTable", "ModelStage", "Observer"),
    *("SentenceTransformerModel", "Signals", "SinkStage", "TextSemanticDeduplicationWorkflow"),
    *("Tokenize", "WetReader", "adapt_kinds"),
}
#: Names with arguments that no docstring names yet; the same.
WITHOUT_ARGUMENTS = {
    *("LLMCleanup", "OpenAIClient", "TranslateSegments"),
    *("TextSemanticDeduplicationWorkflow", "WarcReader", "WetReader"),
}


def docs(value: Any) -> str:
    """What a name says of itself; of a class, also what those say of which it is made."""
    if not inspect.isclass(value):
        return inspect.getdoc(value) or ""
    ours = [one for one in inspect.getmro(value) if one.__module__.startswith("dcurate")]
    return "\n".join(inspect.cleandoc(one.__doc__ or "") for one in ours)


def unsaid(value: Any) -> list[str]:
    """Arguments that no docstring names."""
    names = [name for name in inspect.signature(value).parameters if name not in ("args", "kwargs", "settings")]
    said = docs(value)
    return [name for name in names if not name.startswith("_") and not re.search(rf"\b{re.escape(name)}\b", said)]


@pytest.mark.parametrize("name", ALL)
def test_a_public_name_says_what_it_is(name: str) -> None:
    value = ALL[name]
    assert ((vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or "").strip()


def test_public_names_show_themselves_in_an_example() -> None:
    without = {name for name, value in SHOWN.items() if "Examples:" not in (value.__doc__ or "")}
    assert without - WITHOUT_EXAMPLE == set(), "add `Examples:` with one that runs to the docstring"


def test_public_names_say_what_their_arguments_are() -> None:
    silent = {
        name: unsaid(value)
        for name, value in {**SHOWN, **plain_names()}.items()
        if unsaid(value) and name not in WITHOUT_ARGUMENTS
    }
    assert silent == {}, "name these arguments under `Args:` of the docstring"
