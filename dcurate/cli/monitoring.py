"""``dcurate monitor``: Prometheus and Grafana for the runs on a Dask scheduler."""

from __future__ import annotations

from pathlib import Path

import click

from dcurate.cli.group import cli
from dcurate.ui.monitor.config import Watched, write_config
from dcurate.ui.monitor.processes import down, up


@cli.group(short_help="Watch runs with Prometheus and Grafana.")
def monitor() -> None:
    """Watch runs on a Dask scheduler with Prometheus and Grafana."""


_FOLDER = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("dcurate-monitor"),
    show_default=True,
    metavar="DIR",
    help="Where configuration, data and logs are.",
)
_DASHBOARD = click.option(
    "--scheduler", default=Watched.scheduler, show_default=True, metavar="URL", help="Address of Dask's dashboard."
)
_PORT = click.option(
    "--port", type=click.IntRange(1, 65535), default=Watched.port, show_default=True, help="Port of Prometheus."
)
_GRAFANA_PORT = click.option(
    "--grafana-port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of Grafana."
)


@monitor.command("up", short_help="Start Prometheus, and Grafana where installed.")
@_DASHBOARD
@_FOLDER
@_PORT
@_GRAFANA_PORT
def monitor_up(*, scheduler: str, folder: Path, port: int, grafana_port: int) -> None:
    """Start Prometheus, and Grafana where it is installed, and print their addresses."""
    click.echo("\n".join(up(Watched(scheduler, port), folder, grafana_port)))


@monitor.command("down")
@_FOLDER
def monitor_down(*, folder: Path) -> None:
    """Stop what `monitor up` started."""
    click.echo("\n".join(down(folder)))


@monitor.command("config")
@_DASHBOARD
@_FOLDER
@_PORT
def monitor_config(*, scheduler: str, folder: Path, port: int) -> None:
    """Only write the configuration, alert rules and dashboard."""
    for path in write_config(Watched(scheduler, port), folder):
        click.echo(f"{path} was changed by hand and is left as it is")
    click.echo(f"wrote the configuration of Prometheus and Grafana to {folder}")
