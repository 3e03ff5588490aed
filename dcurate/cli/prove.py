"""``dcurate prove``: check an output against the proof of its run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import dcurate
import dcurate.runs
from dcurate.cli.group import cli, console, debug_option, trust_option
from dcurate.cli.recipes import overrides
from dcurate.cli.runs import write_json
from dcurate.recipe import Recipe, bundled_recipes, load_recipe
from dcurate.recipe.values import parse


@cli.command("prove", short_help="Check every row of an output against the proof of its run.")
@click.argument("output")
@click.option("--root", metavar="HEX", help="The root that the run must have, as it said when it ended.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Derive N random rows from the sources again.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--recipe", metavar="RECIPE", help="The recipe of the run, if it is not a bundled one or in this folder.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a param of the recipe; repeatable.")
@click.option("--row", metavar="ID|FILE:ROW", help="Show the path of one row to the root: by its id, or its place.")
@click.option("--id-field", metavar="COLUMN", help="The column with ids, if it is not called id, doc_id, url or so.")
@click.option("--json", "json_path", metavar="FILE", help="Write the result as JSON; - for standard output.")
@trust_option
@debug_option
def prove(
    *,
    output: str,
    root: str | None,
    sample: int | None,
    seed: int,
    recipe: str | None,
    settings: tuple[str, ...],
    row: str | None,
    id_field: str | None,
    json_path: str | None,
    trust: bool,
) -> None:
    """Check every row of an output against the proof of its run.

    OUTPUT is the output directory of a run with --proof. Its files are read and compared with the proof; each row that
    was changed, is missing or was added is named, and exit code is 1. With --sample rows are derived from the
    sources again; with --row the path of one row is shown.
    """
    if row is not None and (sample is not None or root is not None):
        raise click.UsageError("--row shows one row; leave out --sample and --root")
    if sample is None and (recipe is not None or settings):
        raise click.UsageError("--recipe and --set are for --sample N; leave them out, or give it")
    if row is not None:
        results: dict[str, Any] = {"row": dcurate.runs.prove_row(output, row, id_field=id_field)}
    else:
        results = {"output": dcurate.runs.prove(output, root=root)}
    if sample is not None:
        pipeline = _recipe_of(output, recipe, settings, trust).pipeline
        results["sample"] = dcurate.runs.prove_sample(output, pipeline, rows=sample, seed=seed)
    if json_path != "-":
        for name, result in results.items():
            if len(results) > 1:
                console().print({"output": "rows of the output", "sample": "sample, derived again"}[name], style="bold")
            console().print(result)
    write_json(json_path, {name: result.to_dict() for name, result in results.items()})
    if not all(result.holds for result in results.values()):
        click.get_current_context().exit(1)


def _recipe_of(output: str, recipe: str | None, settings: tuple[str, ...], trust: bool) -> Recipe:
    """The recipe of a run: the one that is named, or that of its records, with the params that the run had."""
    about = dcurate.read_run(output).about
    named = {info.name: info.path for info in bundled_recipes()}
    name = recipe or str(about.get("recipe", ""))
    path = Path(name) if Path(name).is_file() else named.get(Path(name).stem)
    if path is None:
        raise click.UsageError(
            "--sample needs the recipe of the run, which is not in this folder; name it with --recipe FILE, or call "
            "dcurate.runs.prove_sample with the pipeline of a program"
            if recipe is None
            else f"recipe {recipe!r} is neither a file nor bundled; name one that is"
        )
    declared = parse(path.read_text("utf-8"), path.name).get("params") or {}
    params = {key: value for key, value in _recorded(about.get("params", {})).items() if key in declared}
    return load_recipe(path, {**params, **overrides(settings, None, None)}, trust=trust)


def _recorded(params: Mapping[str, str]) -> dict[str, Any]:
    """The params of a run by their text in its records; secrets, and what is too long for these, are left out."""
    values: dict[str, Any] = {}
    for name, text in params.items():
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            continue
        if value is not ...:
            values[name] = value
    return values
