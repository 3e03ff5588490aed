"""Every public name says what it is, what its arguments are, and shows itself in an example that runs."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from dcurate import DcurateError
from dcurate.core.public import find_public, homes

PUBLIC = {name: value for name in homes() if callable(value := find_public(name))}
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


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_is(name: str) -> None:
    value = PUBLIC[name]
    assert ((vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or "").strip()


def test_public_names_show_themselves_in_an_example() -> None:
    without = {name for name, value in SHOWN.items() if "Examples:" not in (value.__doc__ or "")}
    assert without - WITHOUT_EXAMPLE == set()


def test_public_names_say_what_their_arguments_are() -> None:
    assert {
        name: unsaid(value) for name, value in SHOWN.items() if unsaid(value) and name not in WITHOUT_ARGUMENTS
    } == {}
