"""What a subject gives so that `dcurate.trace` finds documents in outputs that do not hold rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple


class TracedPiece(NamedTuple):
    """A part of an output that was made of a document.

    Args:
        doc: id of the document.
        place: place in the output, such as ``"tokens-00000:17-40"``.
        source: file, or part of a file, that the document was read from.
        row: number of the row there, from 0.

    Examples:
        >>> TracedPiece("d1", "tokens-00000:0-9", "00.jsonl", 3).doc
        'd1'
    """

    doc: str
    place: str
    source: str
    row: int


class TraceHook(ABC):
    """Tell `dcurate.trace` which documents are where in the output of a sink that does not write rows.

    A subject has one as ``HOOK`` in the module ``trace_hook`` of its public package.

    Examples:
        >>> class Silence(TraceHook):
        ...     def wrote(self, url, storage_options):
        ...         return False
        ...     def document_at(self, url, place, storage_options):
        ...         return ""
        ...     def pieces(self, url, ids, storage_options):
        ...         return [], ""
        >>> Silence().wrote("out", {})
        False
    """

    @abstractmethod
    def wrote(self, url: str, storage_options: Mapping[str, Any]) -> bool:
        """Whether a folder holds an output of the sink.

        Raises:
            DataError: it cannot be read.
        """

    @abstractmethod
    def document_at(self, url: str, place: str, storage_options: Mapping[str, Any]) -> str:
        """Return the id of the document at a place of an output.

        Raises:
            PipelineError: there is no such place, or it is of no document.
            DataError: the output cannot be read.
        """

    @abstractmethod
    def pieces(
        self, url: str, ids: Collection[str], storage_options: Mapping[str, Any]
    ) -> tuple[Sequence[TracedPiece], str]:
        """Return the pieces of documents in a folder, and where they were looked for; both empty if nothing is there.

        Raises:
            DataError: the output cannot be read.
        """
