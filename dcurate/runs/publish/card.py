"""The card of a data set, made from the report of the run."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml

from dcurate.core.report import RunReport
from dcurate.events import StageStats
from dcurate.runs.load import RecordedRun
from dcurate.runs.publish.target import HubFolder

#: Between these is what `card` writes; the rest of a card is its owner's.
BEGIN, END = "<!-- dcurate: begin -->", "<!-- dcurate: end -->"
_OURS = re.compile(rf"{BEGIN}.*?{END}", re.DOTALL)
_HEAD = re.compile(r"---\r?\n(.*?\n)?---\r?\n", re.DOTALL)
#: Endings that `datasets.load_dataset` reads.
_LOADABLE = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.bz2", ".jsonl.xz", ".csv", ".tar")
#: Reasons of each stage in the table.
_REASONS = 5
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")


def card(run: RecordedRun, folder: HubFolder, names: Collection[str], before: str | None) -> str:
    """Return the text of ``README.md``.

    A card that is there keeps what its owner wrote: the section between two marks is replaced, or added at the end.
    The YAML at its top stays as it is.

    Args:
        run: run that wrote the files.
        folder: where the files are.
        names: the files of the output.
        before: the card that is there; None if there is none.
    """
    section = f"{BEGIN}\n{run_section(run)}\n{END}"
    if before is None:
        head = yaml.safe_dump(_about(run.report, folder, names), sort_keys=False, allow_unicode=True)
        return f"---\n{head}---\n\n# {folder.repo.partition('/')[2]}\n\n{section}\n"
    if _OURS.search(before):
        return _OURS.sub(lambda _: section, before, count=1)
    return f"{before.rstrip()}\n\n{section}\n"


def is_valid(text: str) -> bool:
    """Return whether the YAML at the top of a card can be read, if there is any."""
    head = _HEAD.match(text)
    try:
        return head is None or isinstance(yaml.safe_load(head[1] or "{}"), Mapping)
    except yaml.YAMLError:
        return False


def _about(report: RunReport, folder: HubFolder, names: Collection[str]) -> dict[str, Any]:
    """The YAML of a new card."""
    about: dict[str, Any] = {"tags": ["dcurate"]}
    endings = [ending for ending in _LOADABLE if any(name.endswith(ending) for name in names)]
    if len(endings) == 1 and all(name.endswith(endings[0]) for name in names):
        files = {"split": "train", "path": f"{folder.folder}/**/*{endings[0]}"}
        about["size_categories"] = [size_category(report.stages[-1].rows_in)]
        about["configs"] = [{"config_name": "default", "data_files": [files]}]
    return about


def size_category(rows: int) -> str:
    """Return the size as the Hub names it.

    Examples:
        >>> [size_category(rows) for rows in (0, 1_000, 5_000_000, 10**13)]
        ['n<1K', '1K<n<10K', '1M<n<10M', 'n>1T']
    """
    place = next((place for place in range(len(_SIZES)) if rows < 1000 * 10**place), len(_SIZES))
    if place == 0:
        return "n<1K"
    return "n>1T" if place == len(_SIZES) else f"{_SIZES[place - 1]}<n<{_SIZES[place]}"


def run_section(run: RecordedRun) -> str:
    """Return what a card says of a run: files, rows of each stage and why some were taken out, digests."""
    report, version = run.report, run.about.get("versions", {}).get("dcurate", "")
    rows = [[stage.name, f"{stage.rows_in:,}", f"{stage.rows_out:,}", _why(stage)] for stage in report.stages]
    lines = [
        "## How it was made",
        "",
        f"The pipeline `{cell(report.pipeline)}` wrote {report.files:,} files with "
        f"[dcurate](https://dcurate.readthedocs.io) {version}, from an input of {report.splits:,} parts.",
        "",
        "| stage | rows in | rows out | taken out |",
        "|---|---:|---:|---|",
        *(f"| {' | '.join(map(cell, row))} |" for row in rows),
        "",
        f"Input: `{report.inputs_digest}`. Output: `{report.outputs_digest}`.",
    ]
    return "\n".join(lines)


def _why(stage: StageStats) -> str:
    """The rows that a stage took out, by reason, most first."""
    counts = sorted([*stage.dropped.items(), *stage.faulty.items()], key=lambda pair: (-pair[1], pair[0]))
    shown: Sequence[str] = [f"{reason}: {rows:,}" for reason, rows in counts[:_REASONS]]
    remaining = sum(rows for _, rows in counts[_REASONS:])
    return "; ".join([*shown, f"other: {remaining:,}"] if remaining else shown)


def cell(text: str) -> str:
    """Text that ends neither a cell nor a section."""
    plain = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return plain if len(plain) <= 200 else f"{plain[:199]}…"
