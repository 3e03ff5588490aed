"""Find documents in folders of tokens, for `dcurate.trace`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dcurate.errors import PipelineError
from dcurate.fs.stores import Directory
from dcurate.io.rows import is_readable, rows_with
from dcurate.io.tracing import TracedPiece, TraceHook
from dcurate.tokens.folder import ABOUT, TokenFolder
from dcurate.tokens.spans import SPANS


class TokenTraceHook(TraceHook):
    """The documents of tokens, by the tables of spans beside the shards."""

    def wrote(self, url: str, storage_options: Mapping[str, Any]) -> bool:
        return Directory(url, storage_options).read(ABOUT) is not None

    def document_at(self, url: str, place: str, storage_options: Mapping[str, Any]) -> str:
        span = TokenFolder(url, storage_options).span(place)
        if span is None:
            raise PipelineError(f"token {place!r} is padding, which is of no document; give another place")
        return span.doc

    def pieces(
        self, url: str, ids: Collection[str], storage_options: Mapping[str, Any]
    ) -> tuple[Sequence[TracedPiece], str]:
        directory = Directory(url, storage_options)
        names = sorted(name for name in directory.files(SPANS) if is_readable(name))
        rows = (row.values for name in names for row in rows_with(directory, name, "doc", ids))
        pieces = [
            TracedPiece(
                str(row["doc"]), f"{row['shard']}:{row['start']}-{row['end']}", str(row["source"]), int(row["row"])
            )
            for row in rows
        ]
        return pieces, f"{len(names):,} tables of spans" if names else ""


HOOK = TokenTraceHook()
