"""``dcurate learn`` and ``dcurate learn-ngrams``: train a student on labels, and an n-gram model on texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

import dcurate
from dcurate.cli.group import cli, console, debug_option, local_executor
from dcurate.cli.runs import write_json
from dcurate.cli.students import UnreadRows, write_page
from dcurate.core.lazy import lazy
from dcurate.core.stage import Stage
from dcurate.runs.text import many

if TYPE_CHECKING:
    from dcurate import learn as learning
    from dcurate.frames import columns
    from dcurate.learn import columns as models
else:
    learning, columns = lazy("dcurate.learn"), lazy("dcurate.frames.columns")
    models = lazy("dcurate.learn.columns")


@cli.command("learn", short_help="Train a small model on labels.")
@click.argument("labels", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The folder to write the model to.")
@click.option("--head", "heads", multiple=True, metavar="COLUMN", help="A column of labels; repeatable.  [label]")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--feature", "feature_fields", multiple=True, metavar="COLUMN", help="Learn from it, not from texts.")
@click.option("--site-field", metavar="COLUMN", help="A column with URLs or sites, which are kept in one split.")
@click.option("--group-field", metavar="COLUMN", help="A column whose values get thresholds of their own.")
@click.option("--by", "figure_fields", multiple=True, metavar="COLUMN", help="Give figures by its values; repeatable.")
@click.option("--positive", multiple=True, metavar="HEAD=CLASS", help="Of two classes the one to score; repeatable.")
@click.option("--precision", type=float, help="Choose thresholds with this precision, guaranteed at 95 % confidence.")
@click.option("--keep-fraction", type=float, help="Choose thresholds that keep this part of the texts.")
@click.option("--f-beta", type=float, help="Choose thresholds with the highest F-beta.")
@click.option("--calibration", type=click.Choice(["isotonic", "platt"]), help="Make scores shares of the class.")
@click.option("--epochs", type=int, default=10, show_default=True, help="Number of passes, at most.")
@click.option("--learning-rate", type=float, default=2.0, show_default=True, help="The learning rate at the start.")
@click.option("--word-ngrams", type=int, default=2, show_default=True, help="Words of the longest n-gram of words.")
@click.option("--max-chars", type=int, default=5, show_default=True, help="Characters of the longest n-gram; 0: none.")
@click.option("--balanced", is_flag=True, help="Weight classes by the inverse of their frequency.")
@click.option("--drop-contradictions", is_flag=True, help="Leave out texts with two labels of one head.")
@click.option("--licence", default="", metavar="TEXT", help="The licence of the labels, for the card.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another one gives another order and split.")
@click.option(
    "--weighting",
    type=click.Choice(["count", "sublinear"]),
    default="count",
    show_default=True,
    help="What a feature counts that is n times in a text: n, or 1 + log(n), with n at most 1,023.",
)
@click.option("--fasttext", "bin_path", metavar="FILE", help="Write the model as a .bin of fastText, too.")
@click.option("--no-examples", is_flag=True, help="Keep no beginnings of texts for the page.")
@click.option("--corpus", multiple=True, metavar="PATH", help="Documents whose scores the page compares; repeatable.")
@click.option("--overwrite", "mode", flag_value="overwrite", default="error", help="Replace a model there.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of worker processes to start on this machine.")
@click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON; - for standard output.")
@debug_option
def learn(*, labels: tuple[str, ...], output: str, workers: int | None, json_path: str | None, **options: Any) -> None:
    """Train a student on the labels in LABELS: files, directories or globs of JSONL or Parquet with a column text.

    Each column of labels makes a head: texts are classes, true and false a flag, numbers a number.
    """
    if options["bin_path"] and options["feature_fields"]:
        raise click.UsageError("--fasttext writes a student of texts, and --feature learns from columns; leave one out")
    if options["bin_path"] and options["weighting"] != "count":
        raise click.UsageError("--fasttext writes a model that fastText reads, which counts; leave out --weighting")
    stage = learning.Learn(
        output,
        head_fields=options["heads"] or ("label",),
        text_field=options["text_field"],
        features=_features(options),
        feature_fields=options["feature_fields"],
        training=learning.Training(
            epochs=options["epochs"],
            learning_rate=options["learning_rate"],
            class_weights="balanced" if options["balanced"] else None,
            seed=options["seed"],
        ),
        held_back=learning.HeldBack(site_field=options["site_field"]),
        contradictions="drop" if options["drop_contradictions"] else "error",
        positive=_positive(options["positive"]),
        thresholds=_thresholds(options),
        group_field=options["group_field"],
        figure_fields=options["figure_fields"],
        max_examples=0 if options["no_examples"] else 10,
        calibration=options["calibration"],
        licence=options["licence"],
        mode=options["mode"],
    )
    stages: list[Stage] = [dcurate.DocumentReader(list(labels)), stage]
    executor = local_executor({"execution_mode": "streaming" if workers else "inline"}, workers)
    figures: list[dict[str, Any]] = []
    for batch in dcurate.Pipeline("learn", stages=stages).stream(executor, observers=[]):
        assert isinstance(batch, dcurate.DocumentBatch)
        figures += columns.python_rows(batch.to_arrow())
    student = models.load_model(output)
    if options["bin_path"]:
        learning.Student.load(output).to_fasttext(options["bin_path"])
    page = write_page(output, options["corpus"], options["text_field"])
    if json_path != "-":
        _show(output, student, figures)
        click.echo(f"page: {page}")
    write_json(json_path, dict(student.card))


def _features(options: dict[str, Any]) -> Any:
    most = options["max_chars"]
    return learning.TextFeatures(
        word_ngrams=options["word_ngrams"],
        min_chars=min(3, most) if most else 0,
        max_chars=most,
        weighting=options["weighting"],
    )


def _positive(pairs: tuple[str, ...]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--positive {pair!r} must be HEAD=CLASS, such as label=good")
    return dict(pair.split("=", 1) for pair in pairs)


def _thresholds(options: dict[str, Any]) -> Any:
    rules = {
        "--precision": (options["precision"], learning.KeepPrecision),
        "--keep-fraction": (options["keep_fraction"], learning.KeepFraction),
        "--f-beta": (options["f_beta"], learning.KeepByFBeta),
    }
    chosen = [(option, value, rule) for option, (value, rule) in rules.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(
            f"{' and '.join(option for option, _, _ in chosen)} are different rules; give one of them"
        )
    return chosen[0][2](chosen[0][1]) if chosen else None


def _show(output: str, student: Any, figures: list[dict[str, Any]]) -> None:
    data = student.card["data"]
    click.echo(
        f"{output}: trained on {data['train']:,} texts; {data['validation']:,} for early stopping; "
        f"figures are of {data['held']:,} held back"
    )
    table = Table("head", "kind", "AUC", "F1", "accuracy", "mean error", box=None)
    for row in figures:
        values = (row[name] for name in ("auc", "f1", "accuracy", "mean_absolute_error"))
        table.add_row(row["head"], row["kind"], *("" if value != value else f"{value:.3f}" for value in values))  # noqa: PLR0124
    console().print(table)
    for head in student.heads:
        for group, threshold in head.thresholds.items():
            click.echo(f"threshold of {head.name}{f' for {group}' if group else ''}: {threshold:.4f}")


@cli.command("learn-ngrams", short_help="Train an n-gram model on texts.")
@click.argument("texts", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write: .arpa or .binary.")
@click.option("--order", type=int, default=5, show_default=True, help="Words of the longest n-grams, 2 to 6.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--min-count", "min_counts", multiple=True, type=int, help="Least count by length; repeatable.  [1]")
@click.option("--by-line", is_flag=True, help="Each line is a sentence; else a text is one.")
@click.option("--tokenizer", metavar="FILE", help="A SentencePiece model whose pieces are the words.")
@click.option("--overwrite", "mode", flag_value="overwrite", default="error", help="Replace a file there.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of worker processes to start on this machine.")
@click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON; - for standard output.")
@debug_option
def learn_ngrams(
    *, texts: tuple[str, ...], output: str, workers: int | None, json_path: str | None, **options: Any
) -> None:
    """Train an n-gram model on TEXTS: files, directories or globs of JSONL or Parquet with a column text.

    The model is one of modified Kneser-Ney smoothing, as lmplz of KenLM makes; PerplexityFilter scores with it.
    """
    options["min_counts"] = options["min_counts"] or (1,)
    reader = dcurate.DocumentReader(list(texts), on_bad_line="quarantine")
    stages: list[Stage] = [reader, learning.TrainNgrams(output, **options)]
    executor = local_executor({"execution_mode": "streaming" if workers else "inline"}, workers)
    figures: list[dict[str, Any]] = []
    unread = UnreadRows()
    try:
        for batch in dcurate.Pipeline("learn-ngrams", stages=stages).stream(executor, observers=[unread]):
            assert isinstance(batch, dcurate.DocumentBatch)
            figures += columns.python_rows(batch.to_arrow())
    finally:  # it may be why there are no words
        if unread.rows:
            click.echo(f"{many(unread.rows, 'row')} cannot be read: left out", err=True)
    if json_path != "-":
        click.echo(f"{output}: an n-gram model of order {len(figures)}")
        table = Table("words", "n-grams", "pruned", "discounts", box=None)
        for row in figures:
            amounts = " ".join(f"{row[f'discount_{times}']:.3f}" for times in (1, 2, 3))
            note = " (too few to estimate)" if row["fallback"] else ""
            table.add_row(str(row["order"]), f"{row['ngrams']:,}", f"{row['pruned']:,}", amounts + note)
        console().print(table)
    write_json(json_path, {"ngrams": figures, "unread": unread.rows})
