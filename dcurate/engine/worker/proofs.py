"""Compute the roots of the rows that a stage took out or wrote, for the proof of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from dcurate.core.batch import Batch, FileGroup, Rejection
from dcurate.core.merkle import merkle_root
from dcurate.core.stage import ProcessingStage, SinkStage
from dcurate.events import StageStats
from dcurate.frames.convert import to_arrow
from dcurate.frames.row_contents import row_hashes, visible_values


def prove_rows(
    stage: ProcessingStage[Any, Any],
    key: str,
    results: Sequence[Batch],
    rejections: Sequence[Rejection],
    figures: Sequence[StageStats],
) -> None:
    """Put the roots into the counts of a stage, for each of the stages that it was merged of.

    Args:
        stage: it, or stages merged to one.
        key: key of the batch that the operator was given.
        results: what the stage made.
        rejections: what it took out.
        figures: counts of each of its parts.
    """
    for part, stats in zip(stage.parts, figures, strict=True):
        mine = [rejection for rejection in rejections if rejection.stage == part.name or len(stage.parts) == 1]
        roots = [rejection_root(rejection) for rejection in mine if rejection.rows]
        if roots:
            stats.proof[key] = merkle_root(roots, b"rows taken out").hex()
    if isinstance(stage, SinkStage):
        folder = stage.output_path.rstrip("/") + "/"
        files = (part for result in results if isinstance(result, FileGroup) for part in result.parts)
        figures[-1].proof.update({part.path.removeprefix(folder): part.proof for part in files if part.proof})


def rejection_root(rejection: Rejection) -> bytes:
    """The root of rows that a stage took out: of their values, its name and its reason."""
    about: list[Any] = [rejection.stage, rejection.reason, rejection.fault, rejection.rows]
    hashes = b""
    source = rejection.source
    if source is None and rejection.data is not None:
        table = to_arrow(rejection.data)
        source = table, np.arange(table.num_rows)
    if source is not None:
        table = visible_values(source[0])
        about.append(table.column_names)
        hashes = row_hashes(table, source[1])
    return sha256(json.dumps(about).encode() + b"\n" + hashes).digest()
