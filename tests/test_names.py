"""Public names and arguments follow the grammar of docs/reference/names.md."""

from __future__ import annotations

import inspect
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

import dcurate
from dcurate import DcurateError, SourceStage
from dcurate.compat.nemo.earlier import ARGUMENTS
from dcurate.core.public import find_public, homes
from dcurate.core.stage import Stage
from dcurate.text import DocumentFilter, DocumentModifier
from tests.conftest import ROOT

PAGE = "docs/reference/names.md"
#: Stages of which users make their own.
BASES = {
    "ProcessingStage",
    "CompositeStage",
    "SourceStage",
    "SinkStage",
    "ModelStage",
    "FileStage",
    "SoundStage",
    "VideoStage",
}
#: Arguments of libraries, which get them unchanged.
OF_LIBRARIES = {"partition_cols"}
#: Stages that read otherwise than by `file_paths`, or that begin a pipeline with something else than a file.
READ_OTHERWISE = {"SourceStage", "GenerateUrls"}

CLASSES: dict[str, Any] = {name: find_public(name) for name in homes() if inspect.isclass(find_public(name))}


def rules() -> dict[str, str]:
    """What the page says about names that are not used: what to use, by pattern."""
    section = (ROOT / PAGE).read_text().partition("## Names that are not used")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {pattern: advice for patterns, advice in rows for pattern in re.findall(r"`([\w*]+)`", patterns)}


def named(kind: type[Any]) -> list[str]:
    return [name for name, value in CLASSES.items() if issubclass(value, kind)]


def arguments(name: str) -> list[str]:
    value = find_public(name)
    return list(inspect.signature(value).parameters) if callable(value) else []


def _is(kind: type[Any], name: str) -> bool:
    return issubclass(CLASSES[name], kind)


@pytest.mark.parametrize("name", CLASSES)
def test_the_name_of_a_class_says_what_it_is(name: str) -> None:
    is_stage = _is(Stage, name)
    if name.endswith("Filter"):
        assert _is(DocumentFilter, name) or name in ("Filter", "ScoreFilter"), f"only rules end in Filter: {PAGE}"
    if _is(DocumentFilter, name):
        assert name.endswith("Filter"), f"a rule ends in Filter: {PAGE}"
    if name.startswith("Filter"):
        assert is_stage, f"only stages begin with Filter: {PAGE}"
        assert name == "Filter" or re.fullmatch(r"Filter([A-Z]\w+)?By[A-Z]\w+", name), f"FilterBy...: {PAGE}"
    if _is(DocumentModifier, name):
        assert name.endswith("er"), f"a modifier is who does it, and ends in -er: {PAGE}"
    if name.endswith("Stage"):
        assert name in BASES, f"only stages of which users make their own end in Stage: {PAGE}"
    if _is(SourceStage, name):
        assert name.endswith("Reader") or name in READ_OTHERWISE, f"a reader ends in Reader: {PAGE}"
    if _is(dcurate.SinkStage, name):
        assert name.endswith("Writer") or name in BASES, f"a writer ends in Writer: {PAGE}"
    if name.endswith(("Reader", "Writer", "Duplicates")):
        assert is_stage, f"only stages end in Reader, Writer or Duplicates: {PAGE}"
    assert name.endswith("Error") == _is(BaseException, name), f"errors end in Error: {PAGE}"
    assert not re.search(r"Picture|Webdataset|WebDataSet", name), f"image, WebDataset: {PAGE}"


def test_every_error_is_one_of_dcurate() -> None:
    assert {name for name in named(BaseException) if not _is(DcurateError, name)} == set()


@pytest.mark.parametrize("name", sorted(homes()))
def test_an_argument_has_the_one_name_of_what_it_is(name: str) -> None:
    for argument in set(arguments(name)) - OF_LIBRARIES:
        found = [(pattern, advice) for pattern, advice in rules().items() if fnmatchcase(argument, pattern)]
        assert found == [], f"{name}: {argument} is {found[0][1]} here; see {PAGE}"


def test_the_page_bans_names_and_says_what_to_use() -> None:
    assert len(rules()) > 20
    assert "`" in min(rules().values())


def test_the_alias_maps_names_that_are_not_used_to_arguments_that_exist() -> None:
    public = {argument for name in homes() for argument in arguments(name)}
    assert set(ARGUMENTS.values()) <= public, "an argument of dcurate has another name now: ARGUMENTS"
    assert set(ARGUMENTS) & public == set(), "an argument of NeMo Curator has the same name here: leave it out"
