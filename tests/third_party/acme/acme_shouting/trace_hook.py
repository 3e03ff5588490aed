"""Where documents are in a choir, a file with a line for each shout: number, id of the document, source and row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from dcurate import PipelineError
from dcurate.runs import TracedPiece, TraceHook


class ChoirHook(TraceHook):
    """Find documents in ``choir.txt``."""

    def wrote(self, url: str, storage_options: Mapping[str, Any]) -> bool:
        return Path(url, "choir.txt").is_file()

    def document_at(self, url: str, place: str, storage_options: Mapping[str, Any]) -> str:
        for piece in _pieces(url):
            if piece.place == place:
                return piece.doc
        raise PipelineError(f"{url!r} has no shout {place!r}; give choir:NUMBER")

    def pieces(
        self, url: str, ids: Collection[str], storage_options: Mapping[str, Any]
    ) -> tuple[list[TracedPiece], str]:
        if not self.wrote(url, storage_options):
            return [], ""
        return [piece for piece in _pieces(url) if piece.doc in ids], "choir.txt"


def _pieces(url: str) -> Iterator[TracedPiece]:
    for line in Path(url, "choir.txt").read_text("utf-8").splitlines():
        number, document, source, row = line.split()
        yield TracedPiece(document, f"choir:{number}", source, int(row))


HOOK = ChoirHook()
