"""``dcurate marks``: marks of ``dcurate explore`` as labels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

import dcurate
import dcurate.learn
import dcurate.runs
from dcurate.cli.group import cli, debug_option
from dcurate.core.lazy import lazy
from dcurate.errors import DataError, PipelineError, listed
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder

if TYPE_CHECKING:
    from dcurate.ui.explore import corpus as corpora
else:  # what it imports is heavy, and other commands need none of it
    corpora = lazy("dcurate.ui.explore.corpus")

#: Values of a document that are kept beside its label.
_KEPT = ("id", "url")


@cli.command(short_help="Write the marks of dcurate explore as labels.")
@click.argument("output")
@click.option("-o", "--labels", "path", required=True, metavar="FILE", help="The file of JSON Lines to write.")
@click.option("--label", "name", required=True, metavar="NAME", help="The label that the marks are values of.")
@click.option("--schema", required=True, metavar="NAME|FILE", help="A preset, or a YAML file with the label.")
@click.option("--value", "values", multiple=True, metavar="MARK=VALUE", help="Value of a mark; repeatable.")
@click.option(
    "--skip", multiple=True, metavar="MARK", help="A mark that is not a label, such as look again; repeatable."
)
@click.option("--rejected", metavar="PATH", help="Where the run kept dropped documents; from its report by default.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--most", type=click.IntRange(min=2), default=1_000_000, show_default=True, help="Most documents read.")
@debug_option
def marks(*, output: str, path: str, name: str, schema: str, **how: Any) -> None:
    """Write the documents of a finished run that people marked, each with its mark as a label.

    OUTPUT is the output directory of the run. A mark is the value itself, such as 4 or true; --value good=true gives
    it another.
    """
    labels = dcurate.learn.LabelSchema.load(schema)
    if name not in labels.by_name:
        raise PipelineError(f"schema {labels.name!r} has no label {name!r}; it has {listed(labels.columns)}")
    values = dict(value.rpartition("=")[::2] for value in how["values"])
    places = dcurate.runs.RunPlaces(output, how["rejected"])
    with scratch_folder() as folder:
        corpus = corpora.load_corpus(places, Path(folder), text_field=how["text_field"], most=how["most"])
        rows = [
            _row(document, labels.by_name[name], values.get(mark, mark), mark)
            for document, mark in corpus.marked()
            if mark not in how["skip"]
        ]
        missing = len(corpus.marks.found) - sum(1 for _ in corpus.marked())
        corpus.pictures.close()
    if not rows:
        raise DataError(f"nobody has marked a document of {output!r}; mark some with dcurate explore")
    place, _, file = path.rpartition("/")
    Directory(place or ".").write(file, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    counts = ", ".join(f"{value} {count:,}" for value, count in sorted(Counter(str(row[name]) for row in rows).items()))
    click.echo(f"{path}: {len(rows):,} labels ({counts})")
    if missing:
        click.echo(f"{missing:,} marked documents are not there any more, or beyond --most", err=True)


def _row(document: dict[str, Any], label: dcurate.learn.Label, value: str, mark: str) -> dict[str, Any]:
    """A document with its label.

    Raises:
        DataError: the mark is not a value of the label.
    """
    label_value = label.of_text(value)
    if problem := label.problem(label_value):
        raise DataError(
            f"the mark {mark!r} is not a value of label {label.name!r}: it {problem}; give --value {mark!r}=VALUE, or "
            f"--skip {mark!r}"
        )
    kept = {column: document["values"][column] for column in _KEPT if document["values"].get(column) is not None}
    return {"id": document["id"], **kept, "text": document["text"], label.name: label_value}
