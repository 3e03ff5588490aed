"""Pictures of files for the page of documents: small, of the first page of a PDF, a waveform, or frames of a film."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dcurate.core.lazy import lazy
from dcurate.errors import PipelineError
from dcurate.ui.report.aside import FileDrawing, drawing_of

if TYPE_CHECKING:
    from dcurate.media import set_aside as pictures
else:  # what it imports is heavy
    pictures = lazy("dcurate.media.set_aside")

#: Pictures that are remembered, of some 10 kB each.
_REMEMBERED = 500
#: Columns of references, the first that is there counts. Clips that were cut out have the second.
_REFS = ("media_ref", "source_ref")


class FilePictures:
    """Draws the files that documents refer to, one after the other, in a child process that stays.

    Args:
        about: the manifest of the run, which says what its files are.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._drawing: FileDrawing | None = drawing_of(about)
        self._lock = threading.Lock()
        self._drawer: Any = None
        self._drawn = lru_cache(_REMEMBERED)(self._draw)

    def name(self, values: Mapping[str, Any]) -> str:
        """What file a document refers to, with the times of a segment; empty if none that can be drawn."""
        ref = self._ref(values)
        return "" if ref is None else str(pictures.named(ref))

    def picture(self, values: Mapping[str, Any]) -> str:
        """The picture of the file that a document refers to, as a ``data:`` address; empty if it cannot be drawn.

        Raises:
            PipelineError: it refers to none.
        """
        ref = self._ref(values)
        if ref is None:
            raise PipelineError("the document refers to no file of a kind that can be drawn")
        with self._lock:
            return self._drawn(ref)

    def close(self) -> None:
        """End the child process."""
        with self._lock:
            if self._drawer is not None:
                self._drawer.close()
                self._drawer = None

    def _ref(self, values: Mapping[str, Any]) -> Any:
        if self._drawing is None:
            return None
        return next((ref for name in _REFS if (ref := pictures.ref_of(values.get(name))) is not None), None)

    def _draw(self, ref: Any) -> str:
        assert self._drawing is not None
        kind, draw = self._drawing
        if self._drawer is None:
            self._drawer = pictures.Drawer(draw)
        answer = self._drawer.draw(ref)
        return "" if answer is None else f"data:{kind};base64,{base64.b64encode(answer.blobs[0]).decode()}"
