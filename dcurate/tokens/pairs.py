"""Pairs of ``.bin`` and ``.idx`` that other programs wrote: Megatron's format without tables of spans."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import table_of
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import READERS
from dcurate.tokens.folder import ABOUT, TokenFolder
from dcurate.tokens.formats import MEGATRON_CODES, MEGATRON_MAGIC
from dcurate.tokens.layout import Ints
from dcurate.tokens.tokenizer import TokenizerSource

#: The tokenizer of pairs, which do not name theirs.
UNKNOWN = {"name": "unknown", "digest": ""}
_HEAD = struct.Struct("<QBQQ")
_KINDS = {code: kind for kind, code in MEGATRON_CODES.items()}
_OTHERS = {1: "uint8", 2: "int8", 3: "int16", 6: "float64", 7: "float32"}
#: The documents in this number of tokens of each pair are looked at for BOS, EOS and ids.
_LOOKED = 2**21


class Pair(NamedTuple):
    """The index of a pair.

    Args:
        kind: type of the ids.
        starts, ends: bounds of each document in the tokens.
        numbers: number of each document in the index, as empty ones are left out.
        size: bytes of the index.
    """

    kind: str
    starts: Ints
    ends: Ints
    numbers: Ints
    size: int


def read_pair(directory: Directory, name: str) -> Pair:
    """Read the index of a pair. Several sequences of a document, such as sentences, are one.

    Args:
        name: without ``.idx``.

    Raises:
        DataError: the file is no index, is cut, or describes something other than documents of tokens.
    """
    data, place = directory.read(f"{name}.idx") or b"", directory.path(f"{name}.idx")
    begin = len(MEGATRON_MAGIC) + _HEAD.size
    if len(data) < begin or not data.startswith(MEGATRON_MAGIC):
        raise DataError(f"{place!r} is not an index of Megatron; leave only pairs of .bin and .idx in the folder")
    version, code, count, bounds = _HEAD.unpack_from(data, len(MEGATRON_MAGIC))
    if version != 1 or code not in _KINDS:
        description = _OTHERS.get(code, f"code {code}") if version == 1 else f"of version {version}"
        raise DataError(f"{place!r} is {description}; ids of {listed(MEGATRON_CODES)} in version 1 can be read")
    expected = begin + 12 * count + 8 * bounds
    if len(data) < expected:
        raise DataError(
            f"{place!r} is cut: it has {len(data):,} bytes, and says that it has {expected:,}; copy it again"
        )
    if len(data) > expected:
        raise DataError(f"{place!r} has more than tokens, such as modes of images; only pairs of text can be read")
    lengths = np.frombuffer(data, "<i4", count, begin).astype(np.int64)
    pointers = np.frombuffer(data, "<i8", count, begin + 4 * count)
    documents = np.frombuffer(data, "<i8", bounds, begin + 12 * count)
    before = np.concatenate([[0], np.cumsum(lengths)])
    if (lengths < 0).any() or not np.array_equal(pointers, before[:-1] * np.dtype(_KINDS[code]).itemsize):
        raise DataError(f"{place!r} names tokens that do not follow one another in the .bin; write the pair again")
    if not bounds or documents[0] or documents[-1] != count or (np.diff(documents) < 0).any():
        raise DataError(f"{place!r} does not say of which documents its {count:,} sequences are; write the pair again")
    starts, ends = before[documents[:-1]], before[documents[1:]]
    full = np.flatnonzero(ends > starts)
    return Pair(_KINDS[code], starts[full], ends[full], full, len(data))


def spans_of_pair(directory: Directory, name: str) -> Any:
    """Return the spans of a pair as a table: documents are named by the pair and their number in it."""
    pair = read_pair(directory, name)
    count = len(pair.starts)
    return table_of(
        {
            "shard": [name] * count,
            "start": pair.starts,
            "end": pair.ends,
            "doc": [f"{name}_{number}" for number in pair.numbers.tolist()],
            "document": np.arange(count),
            "first": np.zeros(count, np.int64),
            "source": [f"{name}.bin"] * count,
            "row": pair.numbers,
            "epoch": np.zeros(count, np.int32),
        }
    )


def with_pairs(
    url: str, options: Mapping[str, Any] | None = None, tokenizer: TokenizerSource | None = None
) -> TokenFolder:
    """Return a folder of tokens, or of pairs that other programs wrote.

    Args:
        url: the folder.
        options: fsspec's ``storage_options``.
        tokenizer: the one that made the pairs, which do not name it.

    Raises:
        DataError: the folder holds neither, or a pair is damaged or unlike the others.
    """
    folder = TokenFolder(url, options or {})
    sizes = {name: entry.size for name, entry in folder.directory.files().items() if "/" not in name}
    names = sorted(name.removesuffix(".idx") for name in sizes if name.endswith(".idx"))
    if ABOUT in sizes or not names:
        return folder
    missing = [name for name in names if f"{name}.bin" not in sizes]
    if missing:
        raise DataError(f"{folder.directory.path(missing[0] + '.idx')!r} has no .bin beside it; put both there")
    with ThreadPoolExecutor(READERS) as pool:
        pairs = list(pool.map(lambda name: read_pair(folder.directory, name), names))
    for name, pair in zip(names, pairs, strict=True):
        if pair.kind != pairs[0].kind:
            raise DataError(
                f"the pairs {names[0]!r} and {name!r} have different types of ids, {pairs[0].kind} and {pair.kind}; "
                "merge folders that are alike"
            )
        expected = int(pair.ends[-1] if len(pair.ends) else 0) * np.dtype(pair.kind).itemsize
        if sizes[f"{name}.bin"] != expected:
            raise DataError(
                f"{name}.bin has {sizes[f'{name}.bin']:,} bytes, and its index says {expected:,}; copy it again"
            )
    about = _about(pairs[0].kind, tokenizer)
    about["shards"] = [
        {
            "shard": name,
            "documents": len(pair.starts),
            "sequences": len(pair.starts),
            "tokens": int((pair.ends - pair.starts).sum()),
            "padding": 0,
            "files": {f"{name}.bin": sizes[f"{name}.bin"], f"{name}.idx": pair.size},
        }
        for name, pair in zip(names, pairs, strict=True)
    ]
    _mark_ends(folder.known(about), names, pairs, tokenizer)
    return folder


def _about(kind: str, tokenizer: TokenizerSource | None) -> dict[str, Any]:
    """What the pairs of a folder share."""
    named = UNKNOWN if tokenizer is None else {"name": tokenizer.identifier, "digest": tokenizer.digest()}
    about: dict[str, Any] = {"format": "megatron", "packing": "none", "sequence_length": None, "unit": "document"}
    about |= {"tokenizer": named, "bos": None, "eos": None, "pad": 0, "dtype": kind, "pairs": True}
    return about | {"text_field": "text", "id_field": None, "losses": False, "special_in_text": None}


def _mark_ends(folder: TokenFolder, names: list[str], pairs: list[Pair], tokenizer: TokenizerSource | None) -> None:
    """Find the BOS and EOS, with which all documents begin and end, and check that the tokenizer has the ids."""
    about = folder.about
    encoder = None if tokenizer is None else tokenizer.load()
    firsts, lasts = set[int](), set[int]()
    for name, pair in zip(names, pairs, strict=True):
        stop = int(np.searchsorted(pair.ends, _LOOKED, "right"))
        if not stop:
            continue
        ids, _ = folder.stretch(name, 0, int(pair.ends[stop - 1]))
        largest = int(ids.max())
        if encoder is not None and largest > encoder.largest:
            raise PipelineError(
                f"the pair {name!r} has the id {largest:,}, and those of {about['tokenizer']['name']!r} go up to "
                f"{encoder.largest:,}; name the tokenizer that it was made with"
            )
        firsts |= set(ids[pair.starts[:stop]].tolist())
        lasts |= set(ids[pair.ends[:stop] - 1].tolist())
    several = sum(shard["documents"] for shard in folder.shards) > 1
    for kind, candidates in (("bos", firsts), ("eos", lasts)):
        known = kind == "eos" if encoder is None else candidates == {encoder.special(kind)}
        if several and known and len(candidates) == 1:
            about[kind] = candidates.pop()
    about["pad"] = about["eos"] or 0
