"""Files that a run set aside, with a picture of their first page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from dcurate.core.report import RunReport
from dcurate.documents.set_aside import set_aside
from dcurate.ui.report.blocks import PictureCard

#: Stages whose rows refer to PDFs.
_STAGES = frozenset(("PdfExtract", "PdfReader", "NeedsOcr"))


def files_set_aside(
    report: RunReport, about: Mapping[str, Any], storage_options: Mapping[str, Any] | None = None
) -> Sequence[PictureCard]:
    """Return some of the PDFs that a run set aside; none where it read no PDFs.

    Args:
        about: the manifest of the run.
        storage_options: for fsspec, for the folders of rejected rows.
    """
    if not any(stage.get("kind") in _STAGES for stage in about.get("stages") or ()):
        return ()
    found = set_aside([report.quarantine_path, report.rejected_path], storage_options)
    return [
        PictureCard(
            one.name,
            f"{one.stage}: {one.reason}",
            one.detail.partition("\n")[0],
            f"data:image/jpeg;base64,{base64.b64encode(one.picture).decode()}" if one.picture else "",
            one.width,
            one.height,
        )
        for one in found
    ]
