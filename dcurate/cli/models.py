"""``dcurate models``: prepare models on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal

from dcurate.cli.group import cli, debug_option
from dcurate.cli.runs import write_json
from dcurate.core.lazy import lazy
from dcurate.recipe import parse_setting

if TYPE_CHECKING:
    from dcurate.models import export as exporting
else:  # what it imports is heavy, and other commands need none of it
    exporting = lazy("dcurate.models.export")


@cli.group("models", short_help="Prepare models on this host.")
def model_commands() -> None:
    """Prepare models on this host."""


@model_commands.command(short_help="Export an encoder for a backend on CPUs.")
@click.argument("model", required=False)
@click.option("--backend", required=True, metavar="NAME", help="onnx, onnx-int8 or openvino.")
@click.option(
    "--stage",
    "kind",
    metavar="NAME",
    help="The stage of dcurate.models that runs it, such as QualityClassifier; by default one that fits MODEL.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the stage; repeatable.")
@click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON; - for standard output.")
@debug_option
def export(
    *, model: str | None, backend: str, kind: str | None, settings: tuple[str, ...], json_path: str | None
) -> None:
    """Export MODEL, an encoder by its folder or its id at the hub, so that runs on this host need not.

    A run takes the export if its stage has the same settings, names of columns aside. MODEL may be left out for a stage
    that has a model of its own.
    """
    chosen: dict[str, Any] = {**dict(map(parse_setting, settings)), "backend": backend}
    if model is not None:
        chosen["model"] = model
    exported = exporting.export_model(kind, chosen)
    if json_path != "-":
        for done in exported:
            click.echo(
                f"{done.model} for {done.backend}: {done.folder} ({decimal(done.nbytes)}); agrees with Torch to "
                f"{done.agreement:.4f} on {done.rows} texts"
            )
    write_json(json_path, {"exported": [done._asdict() for done in exported]})
