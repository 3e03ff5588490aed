"""Duplicates in a Dask DataFrame, lazily."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dask
import numpy as np
from dask.base import tokenize
from dask.core import get_dependencies, istask

from dcurate.core.part import Part
from dcurate.core.pipeline import check_columns
from dcurate.dataframe import check_dask
from dcurate.dedup.fuzzy import FuzzyDuplicates
from dcurate.dedup.partitions import (
    HIGH,
    KEY,
    LABEL,
    LEFT,
    PARTITION,
    RIGHT,
    ROW,
    banded,
    connected,
    equal_ones,
    gathered,
    hashed,
    labelled,
    named,
    paired,
    similar_ones,
    still_there,
)
from dcurate.errors import DataError, PipelineError, listed, nearest
from dcurate.frames.columns import numbers
from dcurate.frames.convert import to_arrow
from dcurate.frames.partition import check_frame
from dcurate.frames.shuffled import from_shuffle, to_shuffle
from dcurate.groups.exact import ExactDuplicates
from dcurate.groups.keep import Keep

_Stage = ExactDuplicates | FuzzyDuplicates
#: What is looked for: by name, or as a stage with its settings.
Method = str | _Stage

_METHODS = ("exact", "fuzzy")
#: How many partitions of the forest of candidates one task merges.
_FAN_IN = 8


def deduplicate(
    ddf: Any,
    on: str | Sequence[str] = "text",
    method: Method = "exact",
    *,
    keep: str | Keep | Sequence[str | Keep] = "first",
) -> Any:
    """The Dask DataFrame without its duplicates; nothing runs yet.

    Rows that stay keep their order, partitions, index and types, and are the same ones for any number of workers.
    Each partition is computed twice (three times for ``"fuzzy"``): once to hash its rows and once to drop duplicates.
    Persist the frame if that is expensive or not deterministic. In between, Dask shuffles 32 bytes a row, or for
    ``"fuzzy"`` about 20 bytes for each band of each row; and one task connects the candidates, with some 50 bytes for
    each of them. Where that is too much, a `Pipeline` with `FuzzyDuplicates` takes any number.

    Args:
        ddf: a Dask DataFrame.
        on: the column of texts, or for ``"exact"`` the columns that make rows equal; rows that are null in all of
            these are not duplicates.
        method: ``"exact"`` or ``"fuzzy"``; or an `ExactDuplicates` or `FuzzyDuplicates` with all of its settings but
            for what only a pipeline has.
        keep: rule that says which of several duplicates stays; see `ExactDuplicates`. First means first in the order of
            the frame.

    Raises:
        PipelineError: no such method, a column that is not there, settings that have no meaning here, or no Dask
            DataFrame.
        DataError: when it runs: a partition came out otherwise the second time.

    Examples:
        >>> import dask.dataframe as dd
        >>> import pandas as pd
        >>> ddf = dd.from_pandas(pd.DataFrame({"text": ["a", "b", "a"], "n": [1, 2, 3]}), npartitions=2)
        >>> deduplicate(ddf).compute().n.tolist()
        [1, 2]
        >>> from dcurate.groups.keep import Highest
        >>> deduplicate(ddf, keep=Highest("n")).compute().n.tolist()
        [2, 3]
    """
    check_dask(ddf, "deduplicate()")
    if isinstance(on, Part):
        raise PipelineError("deduplicate: on= names columns; give the stage as method=")
    check_frame(ddf.columns)
    stage = _stage(on, method, keep)
    check_columns([stage], [str(column) for column in ddf.columns])
    source = _made_anew(ddf)
    dropped = _equal_rows(source, stage) if isinstance(stage, ExactDuplicates) else _similar_rows(source, stage)
    dropped = _at_home(dropped, source.npartitions)
    return source.map_partitions(_without, dropped, stage, meta=ddf._meta, align_dataframes=False)


def _stage(on: str | Sequence[str], method: Method, keep: str | Keep | Sequence[str | Keep]) -> _Stage:
    """Return the stage with all of its settings.

    Raises:
        PipelineError: they do not go together.
    """
    if isinstance(method, ExactDuplicates | FuzzyDuplicates):
        if (on, keep) != ("text", "first"):
            raise PipelineError(
                f"deduplicate: {type(method).__name__}(...) says what is compared and kept, not on= or keep="
            )
        plain = replace(method, action="drop", id_field=None, report_path=None)
        if isinstance(plain, FuzzyDuplicates):
            plain = replace(plain, index_path=None)
        if plain != method:
            raise PipelineError(
                "deduplicate gives rows: action, id_field, report_path and index_path have a meaning in a Pipeline only"
            )
        return method
    if method not in _METHODS:
        raise PipelineError(f"deduplicate: no method {method!r}{nearest(str(method), _METHODS)}")
    if method == "exact":
        columns = [on] if isinstance(on, str) else list(on)
        return ExactDuplicates(text_field=on if isinstance(on, str) else "text", fields=columns, keep=keep)
    if isinstance(on, str):
        return FuzzyDuplicates(text_field=on, keep=keep)
    raise PipelineError(f"deduplicate: near-duplicates are looked for in one column of texts, not in {listed(on)}")


def _equal_rows(source: Any, stage: ExactDuplicates) -> Any:
    hashes = _each(source, stage, hashed)
    return _shuffled(equal_ones, hashes.shuffle(HIGH, ignore_index=True))


def _similar_rows(source: Any, stage: FuzzyDuplicates) -> Any:
    parts = source.npartitions
    bands = _each(source, stage, banded)
    pairs = _shuffled(paired, bands.shuffle(KEY, ignore_index=True))
    merge = partial(_with_tables, connected)
    labels = pairs[[LEFT, RIGHT]].reduction(
        merge,
        combine=merge,
        aggregate=partial(_with_tables, labelled),
        split_every=_FAN_IN,
        meta=_with_tables(labelled, pairs._meta),
    )
    labels = _at_home(labels, parts)
    named_pairs = _shuffled(named, _at_home(pairs, parts), labels)
    candidates = source.map_partitions(
        _gathered, labels, stage, meta=_gathered(source._meta, labels._meta, stage), align_dataframes=False
    )
    both = (frame.shuffle(LABEL, npartitions=parts, ignore_index=True) for frame in (candidates, named_pairs))
    return _shuffled(partial(similar_ones, stage), *both)


def _each(ddf: Any, stage: _Stage, step: Callable[[Any, Any, int], Any]) -> Any:
    """Apply a step to each partition and its number."""
    return ddf.map_partitions(_numbered, stage, step, meta=_numbered(ddf._meta, stage, step))


def _numbered(
    frame: Any, stage: _Stage, step: Callable[[Any, Any, int], Any], partition_info: dict[str, Any] | None = None
) -> Any:
    return to_shuffle(step(stage, _read(_frame(frame), stage), partition_info["number"] if partition_info else 0))


def _read(frame: Any, stage: _Stage) -> Any:
    """The columns that a stage reads, as Arrow; any other may be of a type that Arrow does not have."""
    wanted = stage.inputs()[1]
    return to_arrow(frame[[label for label in frame.columns if str(label) in wanted]])


def _shuffled(step: Callable[..., Any], *ddfs: Any) -> Any:
    """Apply a step to shuffled partitions with the same number."""
    first, *remaining = ddfs
    meta = _with_tables(step, *(ddf._meta for ddf in ddfs))
    return first.map_partitions(partial(_with_tables, step), *remaining, meta=meta, align_dataframes=False)


def _with_tables(step: Callable[..., Any], *frames: Any) -> Any:
    return to_shuffle(step(*map(from_shuffle, frames)))


def _at_home(ddf: Any, parts: int) -> Any:
    """Rows in the partitions that their column of that name says."""
    return ddf.set_index(PARTITION, divisions=[*range(parts), parts - 1])


@dataclass(frozen=True)
class _Recipe:
    """Computes a partition in the task that needs it."""

    graph: dict[Any, Any]

    def __call__(self) -> Any:
        (key,) = self.graph
        return dask.get(self.graph, key)


def _made_anew(ddf: Any) -> Any:
    """The frame, with the partitions that it has when it runs; of recipes, if each of them is made by one task.

    A partition that is needed early and late would wait in memory between, as all others would.
    """
    optimized = ddf.optimize()
    graph, keys = dict(optimized.__dask_graph__()), optimized.__dask_keys__()
    if set(graph) != set(keys) or not all(istask(graph[key]) and not get_dependencies(graph, key) for key in keys):
        return optimized
    name = f"recipe-{tokenize(optimized)}"
    recipes = {(name, place): _Recipe({key: graph[key]}) for place, key in enumerate(keys)}
    from_graph = importlib.import_module("dask.dataframe").from_graph
    return from_graph(recipes, ddf._meta, optimized.divisions, list(recipes), "recipe")


def _frame(made: Any) -> Any:
    return made() if isinstance(made, _Recipe) else made


def _gathered(rows: Any, labels: Any, stage: FuzzyDuplicates) -> Any:
    return to_shuffle(gathered(stage, _read(_frame(rows), stage), from_shuffle(labels)))


def _without(rows: Any, dropped: Any, stage: _Stage) -> Any:
    """A partition without the rows that go.

    Raises:
        DataError: it is not the one that was looked at.
    """
    frame, marks = _frame(rows), from_shuffle(dropped)
    places = numbers(marks, ROW)
    if len(places) and (places.max() >= len(frame) or not still_there(stage, _read(frame.iloc[places], stage), marks)):
        raise DataError(
            "a partition has other rows now than when its duplicates were looked for, so none was dropped; "
            "persist() the frame before, so that its rows are made once"
        )
    stays = np.ones(len(frame), np.bool_)
    stays[places] = False
    return frame[stays]
