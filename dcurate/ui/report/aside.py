"""Files that a run set aside, with a picture: small, or of the first page of a PDF, a waveform, or frames of a film."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dcurate.core.lazy import lazy
from dcurate.core.report import RunReport
from dcurate.ui.report.blocks import PictureCard

if TYPE_CHECKING:
    from dcurate.media import set_aside as pictures
else:  # what it imports is heavy, and few runs read files
    pictures = lazy("dcurate.media.set_aside")

#: Stages whose rows refer to PDFs, to pictures, to recordings, and to films.
_PDFS = frozenset(("PdfExtract", "PdfReader", "NeedsOcr"))
_PICTURES = frozenset(("ImageInfo", "ImageSignals"))
_SOUNDS = frozenset(("AudioInfo", "AudioSignals", "Dnsmos", "FindSpeech", "SegmentRows"))
_FILMS = frozenset(
    ("CutVideo", "FindShots", "VideoExactDuplicates", "VideoInfo", "VideoNearDuplicates", "VideoSignals")
)
#: How the first page of a PDF, a picture, a recording and a film are drawn: a function for a sandbox, the libraries it
#: needs, and whether it is told which segment; and the types of what it gives.
_PAGE = ("dcurate.documents.pictures:page_picture", ("pypdfium2", "PIL"))
_PICTURE = ("dcurate.images.thumbnails:thumbnail", ("simplejpeg", "PIL"))
_SOUND = ("dcurate.audio.excerpts:excerpt", ("soundfile", "soxr"), True)
_FRAMES = ("dcurate.video.sheet:sheet", ("av", "PIL"), True)
_JPEG, _SVG, _FLAC = "image/jpeg", "image/svg+xml", "audio/flac"


class FileDrawing(NamedTuple):
    """How the files of a run are drawn.

    Args:
        kind: the type of the pictures.
        draw: function and libraries, a `dcurate.media.set_aside.Draw`.
    """

    kind: str
    draw: Any


def drawing_of(about: Mapping[str, Any]) -> FileDrawing | None:
    """Return how the files of a run are drawn; None where it read none that can be.

    Args:
        about: the manifest of the run.
    """
    kinds = {stage.get("kind") for stage in about.get("stages") or ()}
    if kinds & _PDFS:
        return FileDrawing(_JPEG, pictures.Draw(*_PAGE))
    if kinds & _FILMS:
        return FileDrawing(_JPEG, pictures.Draw(*_FRAMES))
    if kinds & _PICTURES:
        return FileDrawing(_JPEG, pictures.Draw(*_PICTURE))
    return FileDrawing(_SVG, pictures.Draw(*_SOUND)) if kinds & _SOUNDS else None


def files_set_aside(
    report: RunReport, about: Mapping[str, Any], storage_options: Mapping[str, Any] | None = None
) -> Sequence[PictureCard]:
    """Return some of the PDFs, films, pictures or recordings that a run set aside; none where it read none.

    Args:
        about: the manifest of the run.
        storage_options: for fsspec, for the folders of rejected rows.
    """
    drawing = drawing_of(about)
    if drawing is None:
        return ()
    folders: list[str | None] = [report.rejected_path, report.quarantine_path]
    if drawing.draw.function == _PAGE[0]:
        folders.reverse()  # other files that are in quarantine can seldom be drawn
    files = pictures.set_aside(folders, storage_options, drawing.draw)
    return [
        PictureCard(
            file.name,
            f"{file.stage}: {file.reason}",
            file.detail.partition("\n")[0],
            _address(drawing.kind, file.picture),
            file.width,
            file.height,
            _address(_FLAC, file.sound),
        )
        for file in files
    ]


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}" if data else ""
