"""The page of a student, for ``dcurate learn`` and ``dcurate report``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import orjson

import dcurate
from dcurate.cli.group import local_executor
from dcurate.core.lazy import lazy
from dcurate.events import Event, TaskDone
from dcurate.fs.stores import Directory
from dcurate.runs.text import many

if TYPE_CHECKING:
    from dcurate.learn import columns as learning
    from dcurate.ui import student_page as pages
else:  # what these import is heavy, and other commands need none of it
    learning, pages = map(lazy, ("dcurate.learn.columns", "dcurate.ui.student_page"))


def write_page(model: str, corpus: Sequence[str], text_field: str, path: str | None = None) -> str:
    """Write the page of a model, beside it without a path, and return where it is.

    Args:
        corpus: documents whose scores are compared with those of held examples.
        text_field: their column with the text, for a student of texts.
    """
    scores = _scores(model, corpus, text_field) if corpus else {}
    return pages.write_student_page(model, path, corpus=scores)


class UnreadRows:
    """Counts rows that a reader set aside."""

    def __init__(self) -> None:
        self.rows = 0

    def on_event(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            self.rows += sum(sum(stage.faulty.values()) for stage in event.stats)


def _scores(model: str, corpus: Sequence[str], text_field: str) -> dict[str, list[int]]:
    """The number of documents in each bin of scores of the figures of a model, by head."""
    student = learning.load_model(model)
    columns = [text_field]
    if isinstance(student, learning.ColumnStudent):
        columns = list(student.fields)
    figures = orjson.loads(Directory(model).read(pages.FIGURES) or b"{}")
    edges = {head["name"]: head["scores"]["edges"] for head in figures.get("heads", ()) if "scores" in head}
    counts: dict[str, Any] = {}
    reader = dcurate.DocumentReader(list(corpus), fields=columns, on_bad_line="quarantine")
    executor, unread = local_executor({"execution_mode": "inline"}, None), UnreadRows()
    for batch in dcurate.Pipeline("scores", stages=[reader]).stream(executor, observers=[unread]):
        assert isinstance(batch, dcurate.DocumentBatch)
        for name, counted in student.count_scores(student.answers_of(batch.to_arrow(), columns), edges).items():
            counts[name] = counted + counts.get(name, 0)
    if unread.rows:
        click.echo(f"{many(unread.rows, 'row')} of the corpus cannot be read: not compared", err=True)
    return {name: counted.tolist() for name, counted in counts.items()}
