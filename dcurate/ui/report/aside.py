"""Files that a run set aside, with a picture: of the first page of a PDF, or small."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dcurate.core.lazy import lazy
from dcurate.core.report import RunReport
from dcurate.ui.report.blocks import PictureCard

if TYPE_CHECKING:
    from dcurate.media import set_aside as pictures
else:  # what it imports is heavy, and few runs read files
    pictures = lazy("dcurate.media.set_aside")

#: Stages whose rows refer to PDFs, and to pictures.
_PDFS = frozenset(("PdfExtract", "PdfReader", "NeedsOcr"))
_PICTURES = frozenset(("ImageInfo", "ImageSignals"))
#: How the first page of a PDF is drawn, and a picture itself: a function for a sandbox, and the libraries it needs.
_PAGE = ("dcurate.documents.pictures:page_picture", ("pypdfium2", "PIL"))
_PICTURE = ("dcurate.images.thumbnails:thumbnail", ("simplejpeg", "PIL"))


def files_set_aside(
    report: RunReport, about: Mapping[str, Any], storage_options: Mapping[str, Any] | None = None
) -> Sequence[PictureCard]:
    """Return some of the PDFs or pictures that a run set aside; none where it read neither.

    Args:
        about: the manifest of the run.
        storage_options: for fsspec, for the folders of rejected rows.
    """
    kinds = {stage.get("kind") for stage in about.get("stages") or ()}
    if not kinds & (_PDFS | _PICTURES):
        return ()
    folders, draw = [report.quarantine_path, report.rejected_path], _PAGE
    if not kinds & _PDFS:
        folders.reverse()  # what is in quarantine can seldom be drawn
        draw = _PICTURE
    files = pictures.set_aside(folders, storage_options, pictures.Draw(*draw))
    return [
        PictureCard(
            file.name,
            f"{file.stage}: {file.reason}",
            file.detail.partition("\n")[0],
            f"data:image/jpeg;base64,{base64.b64encode(file.picture).decode()}" if file.picture else "",
            file.width,
            file.height,
        )
        for file in files
    ]
