"""``dcurate label``: a sample of a corpus, labelled by language models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import click
import orjson
from rich.table import Table

import dcurate
import dcurate.datasets
import dcurate.learn
import dcurate.llm
from dcurate.cli.group import LINE_INTERVAL, MODES, cli, console, debug_option, local_executor
from dcurate.cli.runs import write_json
from dcurate.core.stage import Stage
from dcurate.fs.stores import META_DIR, Directory
from dcurate.redaction import without_secrets
from dcurate.runs.load import AGREEMENT
from dcurate.ui.progress import Progress
from dcurate.ui.report.agreement import shown_figure
from dcurate.ui.report.page import write_run_page

#: Rows of a batch, so that a run that ends has written most of what was paid for.
_BATCH = 200
#: Bytes of input of a batch, where all of it is labelled.
_BLOCK = "1MiB"


@cli.command(short_help="Label a sample of documents with language models.")
@click.argument("paths", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The folder to write.")
@click.option("--schema", required=True, metavar="NAME|FILE", help="A preset, or a YAML file with the labels.")
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="MODEL",
    help="A judge; repeatable. The labels are those of the first, the others are compared with it.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Times each judge is asked.")
@click.option("--endpoint", metavar="URL", help="The endpoint, up to /v1; that of OPENAI_BASE_URL by default.")
@click.option(
    "--key-variable", default="OPENAI_API_KEY", show_default=True, metavar="NAME", help="Variable with the API key."
)
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Size of the sample; all rows by default.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Spread the sample over the values of it; repeatable.")
@click.option(
    "--band",
    "bands",
    multiple=True,
    metavar="COLUMN=EDGE,...",
    help="Spread it over bands of a number, or of the length of a text; repeatable.",
)
@click.option(
    "--allocation",
    type=click.Choice(["equal", "proportional"]),
    default="equal",
    show_default=True,
    help="Rows of each stratum of the sample.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample and of the answers.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="A column to keep, such as id or url; repeatable.")
@click.option("--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True)
@click.option("--max-chars", type=click.IntRange(min=1), default=20_000, show_default=True, help="Cut longer texts.")
@click.option("--price", metavar="IN,OUT", help="Price of a million tokens of prompts, and of answers.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="End before the labels cost more.")
@click.option("--max-total-tokens", type=click.IntRange(min=1), help="End before they take more tokens.")
@click.option("--cache", metavar="FOLDER", help="The folder for answers; FOLDER.answers beside the output by default.")
@click.option("--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Requests at a time.")
@click.option("--filetype", type=click.Choice(["jsonl", "parquet"]), default="jsonl", show_default=True)
@click.option("--dry-run", is_flag=True, help="Only say what the labels would take; nothing is sent.")
@click.option("--resume", is_flag=True, help="Resume an earlier run into the same output.")
@click.option("--overwrite", "write_mode", flag_value="overwrite", default="error", help="Replace an earlier output.")
@click.option("--mode", type=click.Choice(MODES), default="streaming", show_default=True, help="Execution mode.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of worker processes to start on this machine.")
@click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON; - for standard output.")
@click.option("--quiet", is_flag=True, help="Show no progress and no table.")
@debug_option
def label(*, paths: tuple[str, ...], output: str, schema: str, json_path: str | None, quiet: bool, **how: Any) -> None:
    """Label a sample of the documents under PATHS by a schema, with models behind an OpenAI-compatible endpoint.

    PATHS are files, directories or globs of JSONL, Parquet or CSV. The labels are columns of FOLDER beside the text.
    Answers are cached: a run that ended, or is repeated, pays for none of them again.
    """
    labels = dcurate.learn.LabelSchema.load(schema)
    judges = _judges(labels, output, how)
    sample = _sample(paths, how)
    executor = local_executor({"execution_mode": how["mode"]}, how["workers"])
    if how["dry_run"]:
        figures = _estimated(sample, judges, executor)
    else:
        stages = [*sample, *judges, _writer(sample, judges, output, how)]
        with ExitStack() as stack:
            shown = [] if quiet else [stack.enter_context(Progress(interval_s=LINE_INTERVAL))]
            result = dcurate.Pipeline("label", stages=stages).run(executor, resume=how["resume"], observers=shown)
        figures = _figures(labels, judges, output, result.report.stages)
    if json_path != "-" and not quiet:
        _show(figures)
    write_json(json_path, figures)


def _writer(
    sample: Sequence[Stage], judges: Sequence[dcurate.learn.Judge], output: str, how: dict[str, Any]
) -> dcurate.DocumentWriter:
    """The writer of the text, of what is to be kept, of the strata and of the labels."""
    made = [name for stage in (*sample[1:], *judges) for name in stage.outputs()[1]]
    fields = list(dict.fromkeys([how["text_field"], *how["keep"], *how["by"], *made]))
    return dcurate.DocumentWriter(output, fields=fields, mode=how["write_mode"], filetype=how["filetype"])


def _numbers(text: str) -> tuple[str, list[float]]:
    """Numbers with commas between them, and the column before ``=``, empty if there is none."""
    column, _, content = text.rpartition("=")
    try:
        return column, [float(number) for number in content.split(",")]
    except ValueError:
        raise click.UsageError(f"{text!r} has something else than numbers with commas between them") from None


def _judges(labels: dcurate.learn.LabelSchema, output: str, how: dict[str, Any]) -> list[dcurate.learn.Judge]:
    """A stage for each judge and repeat: the first labels the rows, the others may leave a row out."""
    price = None if how["price"] is None else _numbers(how["price"])
    if price is not None and (price[0] or len(price[1]) != 2):
        raise click.UsageError("--price takes two numbers, such as 0.6,0.8: of prompts, and of answers")
    if how["cache"] is None and "://" in output:
        raise click.UsageError("--output is not on this machine; give --cache a folder on its disk, for the answers")
    client = dcurate.llm.AsyncOpenAIClient(
        how["concurrency"],
        base_url=how["endpoint"],
        api_key_variable=how["key_variable"],
        prices=dict.fromkeys(how["models"], (price[1][0], price[1][1])) if price else None,
        cache=how["cache"] or f"{output.rstrip('/')}.answers",
        max_cost=how["max_cost"],
        max_total_tokens=how["max_total_tokens"],
    )
    asked = [(model, repeat) for model in dict.fromkeys(how["models"]) for repeat in range(how["repeats"])]
    return [
        dcurate.learn.Judge(
            labels,
            client=client,
            model=model,
            text_field=how["text_field"],
            suffix=f"_{number}" if number > 1 else "",
            max_chars=how["max_chars"],
            seed=how["seed"] + repeat,
            temperature=how["temperature"],
            on_error="null" if number > 1 else "quarantine",
            name=f"judge_{number}" if number > 1 else "judge",
        )
        for number, (model, repeat) in enumerate(asked, 1)
    ]


def _sample(paths: tuple[str, ...], how: dict[str, Any]) -> list[Stage]:
    """The stages that read the sample."""
    rows, by, bands = how["rows"], list(how["by"]), dict(map(_numbers, how["bands"]))
    if "" in bands:
        raise click.UsageError("--band needs a column, such as --band text=200,1000")
    if rows is None:
        if by or bands:
            raise click.UsageError("--by and --band spread a sample; give its size with --rows")
        return [dcurate.DocumentReader(list(paths), blocksize=_BLOCK)]
    parts = max(1, rows // _BATCH)
    stage = (
        dcurate.datasets.SampleStrata(
            rows, by, bands, allocation=how["allocation"], seed=how["seed"], npartitions=parts
        )
        if by or bands
        else dcurate.datasets.SampleRows(rows, seed=how["seed"], npartitions=parts)
    )
    return [dcurate.DocumentReader(list(paths)), stage]


def _estimated(sample: list[Stage], judges: Sequence[dcurate.learn.Judge], executor: Any) -> dict[str, Any]:
    """What the judges would take, counted over the sample."""
    figures: Counter[str] = Counter()
    for batch in dcurate.Pipeline("estimate", stages=sample).stream(executor, observers=[]):
        assert isinstance(batch, dcurate.DocumentBatch)
        figures["rows"] += batch.num_items
        for judge in judges:
            figures.update(judge.estimate(batch))
    return {"estimate": True, **figures}


def _figures(
    labels: dcurate.learn.LabelSchema, judges: Sequence[dcurate.learn.Judge], output: str, stages: Sequence[Any]
) -> dict[str, Any]:
    """What the run did: rows, costs, how often each value was given, and the agreement of judges."""
    stats = {stage.name: stage for stage in stages}
    costs: Counter[str] = Counter()
    for judge in judges:
        costs.update(stats[judge.name].metrics)
    first = stats[judges[0].name]
    figures: dict[str, Any] = {"rows": first.rows_out, "not_labelled": {**first.dropped, **first.faulty}, **costs}
    if first.rows_out:
        suffixes = [judge.suffix for judge in judges]
        agreement = dcurate.learn.measure_agreement(output, labels, suffixes=suffixes)
        models = [without_secrets(str(judge.model)) for judge in judges]
        figures["labels"] = {
            name: {**label, "judges": dict(zip(label["given"], models, strict=True))}
            for name, label in agreement.items()
        }
        Directory(output).write(f"{META_DIR}/{AGREEMENT}", orjson.dumps(figures["labels"]))
        run = dcurate.read_run(output)  # with the agreement
        write_run_page(run.report, run.history, run.about, Directory(output).records)
    return figures


def _show(figures: dict[str, Any]) -> None:
    """Print what the labels took, or would take, and a table of them."""
    counts = ", ".join(
        f"{name.replace('_', ' ')} {figures[name]:,.6g}"
        for name in ("requests", "cached", "prompt_tokens", "completion_tokens", "cost", "asked_again", "failed")
        if figures.get(name)
    )
    begins = "would label" if "estimate" in figures else "labelled"
    click.echo(f"{begins} {figures['rows']:,} rows; {counts or 'nothing is sent'}")
    for reason, rows in figures.get("not_labelled", {}).items():
        click.echo(f"not labelled: {rows:,} ({reason})")
    for name, label in figures.get("labels", {}).items():
        table = Table(*("value", *label["given"]), title=name)
        for place, value in enumerate(label["values"]):
            counted = [given[place] for given in label["given"].values()]
            if any(counted):
                table.add_row(str(value), *map(str, counted))
        console().print(table)
        for pair in label["pairs"]:
            click.echo(
                f"{pair['first']} and {pair['second']}: {pair['rows']:,} rows, "
                f"{shown_figure(pair['equal'], '.1%')} equal, "
                f"{'weighted ' if label['weighted'] else ''}kappa {shown_figure(pair['kappa'], '.3f')}"
            )
        if len(label["pairs"]) > 1:
            click.echo(f"alpha of all: {shown_figure(label['alpha'], '.3f')}")
