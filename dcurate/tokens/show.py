"""Documents of a folder of tokens, decoded for people."""

from __future__ import annotations

import random
from typing import Any

from dcurate.frames.excerpts import excerpt
from dcurate.tokens.check import document_tokens
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.spans import Span, spans_of
from dcurate.tokens.tokenizer import TokenizerSource

#: Characters of a document that are shown.
SHOWN = 400


def shown_documents(folder: TokenFolder, tokenizer: TokenizerSource, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return a few documents of a shard: where each is, and how its text begins.

    Args:
        seed: another one draws another shard, and others of its documents.

    Raises:
        DataError: they cannot be read.
    """
    draw = random.Random(seed)
    if not folder.shards:
        return []
    shard = draw.choice(folder.shards)
    wanted = set(draw.sample(range(shard["documents"]), min(count, shard["documents"])))
    pieces = folder.about["unit"] == "window"  # of documents, which may be in several shards
    begun = (span for span in spans_of(folder.directory, shard["shard"]) if pieces or not span.first)
    spans = [span for number, span in enumerate(begun) if number in wanted]
    encoder = tokenizer.load()
    return [_shown(folder, span, encoder.decode) for span in spans]


def _shown(folder: TokenFolder, span: Span, decode: Any) -> dict[str, Any]:
    by_document = folder.about["unit"] == "document"
    ids = document_tokens(folder, span) if by_document else folder.tokens(span).tolist()
    place = {"shard": span.shard, "start": span.start, "doc": span.doc, "tokens": len(ids)}
    return {**place, "text": excerpt(decode(ids[:SHOWN]), SHOWN)}
