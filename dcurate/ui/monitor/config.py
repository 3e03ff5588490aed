"""The files that Prometheus and Grafana need to watch a scheduler; a person's own are not overwritten."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from dcurate.errors import ResourceError

#: What was written: a hash of each file, so that a file that a person changed is known.
WRITTEN = ".dcurate-monitor.json"

PROMETHEUS, ALERTS = "prometheus.yml", "alerts.yml"
PROVISIONING = "grafana/provisioning"
DASHBOARD = "grafana/dashboards/dcurate.json"
#: The id of the dashboard in Grafana, which is part of its address.
DASHBOARD_UID = "dcurate"


@dataclass(frozen=True)
class Watched:
    """The scheduler to monitor, and its address.

    Args:
        scheduler: the page of Dask's dashboard: ``http://127.0.0.1:8787``; its path may be given too.
        port: port of Prometheus on this machine.
        interval_s: seconds between two looks; workers are listed again every second look.

    Raises:
        ResourceError: ``scheduler`` is no such address.

    Examples:
        >>> Watched("http://10.0.0.1:8787/status").url
        'http://10.0.0.1:8787'
        >>> Watched("tcp://10.0.0.1:8786")
        Traceback (most recent call last):
        ...
        dcurate.errors.ResourceError: scheduler 'tcp://10.0.0.1:8786' is not the address of a dashboard; give that ...
    """

    scheduler: str = "http://127.0.0.1:8787"
    port: int = 9090
    interval_s: int = 5

    def __post_init__(self) -> None:
        parts = urlsplit(self.scheduler)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ResourceError(
                f"scheduler {self.scheduler!r} is not the address of a dashboard; give that of Dask's dashboard, "
                "such as http://127.0.0.1:8787 (client.dashboard_link says it)"
            )

    @property
    def prefix(self) -> str:
        """The prefix of the paths of the scheduler's pages."""
        return urlsplit(self.scheduler).path.rstrip("/").removesuffix("/status")

    @property
    def url(self) -> str:
        """The address of the dashboard, without the page."""
        parts = urlsplit(self.scheduler)
        return f"{parts.scheme}://{parts.netloc}{self.prefix}"


def contents(watched: Watched, folder: Path) -> dict[str, str]:
    """The files, by their paths in a folder."""
    parts = urlsplit(watched.url)
    values = {
        "scheme": parts.scheme,
        "target": parts.netloc,
        "metrics_path": f"{watched.prefix}/metrics",
        "url": watched.url,
        "port": watched.port,
        "interval": watched.interval_s,
        "refresh": 2 * watched.interval_s,
        "dashboards": (folder / DASHBOARD).parent.absolute(),
    }
    data = files("dcurate.ui.monitor").joinpath("data")

    def filled(name: str) -> str:
        return Template(data.joinpath(name).read_text("utf-8")).substitute(values)

    return {
        PROMETHEUS: filled("prometheus.yml"),
        ALERTS: data.joinpath("alerts.yml").read_text("utf-8"),
        f"{PROVISIONING}/datasources/dcurate.yml": filled("datasource.yml"),
        f"{PROVISIONING}/dashboards/dcurate.yml": filled("dashboards.yml"),
        DASHBOARD: data.joinpath("dashboard.json").read_text("utf-8"),
    }


def write_config(watched: Watched, folder: Path) -> list[Path]:
    """Write the files into a folder, again if need be.

    Returns:
        Files that were written before and that a person has changed since; they are left as they are.

    Raises:
        ResourceError: a file of that name is there that was never written by this, and nothing was written; or the
            folder cannot be written to.
    """
    wanted, before = contents(watched, folder), _written(folder)
    existing = {name: _hash((folder / name).read_text("utf-8")) for name in wanted if (folder / name).exists()}
    foreign = [name for name in existing if name not in before and existing[name] != _hash(wanted[name])]
    if foreign:
        raise ResourceError(
            f"{folder / foreign[0]} is there already and is not dcurate's; move it away, or give another folder "
            "with --dir"
        )
    kept = [name for name in existing if name in before and existing[name] != before[name]]
    hashes = {name: before[name] if name in kept else _hash(text) for name, text in wanted.items()}
    fresh = {name: text for name, text in wanted.items() if name not in kept}
    try:
        for name, text in (fresh | {WRITTEN: json.dumps(hashes, indent=1) + "\n"}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResourceError(
            f"the configuration cannot be written to {folder} ({error.strerror}); give another folder with --dir"
        ) from error
    return [folder / name for name in sorted(kept)]


def _written(folder: Path) -> Mapping[str, str]:
    path = folder / WRITTEN
    hashes: dict[str, str] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return hashes


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
