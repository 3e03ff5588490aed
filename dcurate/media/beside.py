"""Texts that lie beside files of media, under the same name with another ending."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dcurate.isolate.errors import MediaFault
from dcurate.media.cues import decoded
from dcurate.media.names import sample_of
from dcurate.media.refs import REF, Ref, fetch, ref_array

#: Bytes of the largest text that is read.
LARGEST_TEXT = 2**26


def beside(ref: Ref, suffix: str) -> Ref:
    """Return the reference to a text beside a file: in an archive, another member of the same sample.

    Examples:
        >>> beside(Ref("films/a.mp4"), "en.srt").path, beside(Ref("a.tar", "b/c.mp4", 512, 9), "srt").member
        ('films/a.en.srt', 'b/c.srt')
    """
    if ref.member is not None:
        return Ref(ref.path, f"{sample_of(ref.member)[0]}.{suffix}")
    return Ref(f"{os.path.splitext(ref.path)[0]}.{suffix}")


def texts_of_refs(refs: Sequence[Ref | None], options: Mapping[str, Any] | None) -> list[str | MediaFault | None]:
    """Return the texts of references, each fetched once; None for none, and the fault ``missing`` without a file.

    Args:
        refs: references to texts.
        options: options of fsspec.

    Raises:
        DataError: a store does not answer.
    """
    wanted = list(dict.fromkeys(ref for ref in refs if ref is not None))
    table = pa.table({REF: ref_array(wanted)})
    answers = fetch(table, limit=LARGEST_TEXT, storage_options=options) if wanted else []
    texts = {
        ref: decoded(answer) if isinstance(answer, bytes) else answer
        for ref, answer in zip(wanted, answers, strict=True)
    }
    return [None if ref is None else texts[ref] for ref in refs]
