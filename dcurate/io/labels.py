"""Labels of runs that append: a later run with the label of an earlier one replaces its rows."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory

#: Folder of a file for each labelled run whose rows are in the directory, named after the number of the run.
LABELS = f"{META_DIR}/labels/"


@dataclass(frozen=True)
class RunLabel:
    """The label of a run.

    Args:
        generation: number in the names of the files of the run.
        label: name of its rows.
        complete: whether all of its rows are written.
    """

    generation: int
    label: str
    complete: bool = False


def write_label(directory: Directory, run: RunLabel) -> None:
    """Note the label of a run; one that is complete stays so."""
    known = {label.generation: label for label in run_labels(directory)}.get(run.generation)
    complete = run.complete or (known is not None and known.complete)
    data = orjson.dumps({"label": run.label, "complete": complete})
    directory.write(f"{LABELS}{run.generation}", data)


def run_labels(directory: Directory) -> list[RunLabel]:
    """Return the labels of the runs whose rows are in a directory, by their numbers.

    Raises:
        DataError: one cannot be read.
    """
    labels = []
    for name in directory.files(LABELS.rstrip("/")):
        try:
            values = orjson.loads(directory.read(name) or b"")
            labels.append(RunLabel(int(name.removeprefix(LABELS)), str(values["label"]), bool(values["complete"])))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{directory.path(name)!r} is damaged; name another directory") from error
    return sorted(labels, key=lambda run: run.generation)


def superseded(directory: Directory) -> set[int]:
    """Return the numbers of runs whose rows do not count: the last one of their label that is complete is another."""
    labels = run_labels(directory)
    newest = {run.label: run.generation for run in labels if run.complete}
    return {run.generation for run in labels if newest.get(run.label) != run.generation}
