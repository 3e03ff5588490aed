"""Check folders of tokens: the arithmetic of their indexes, their spans, and a sample of documents."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError
from dcurate.frames.excerpts import id_column
from dcurate.fs.stores import Directory
from dcurate.io.rows import is_readable, rows_with
from dcurate.tokens.folder import TokenFolder, mds_settings
from dcurate.tokens.formats import MEGATRON_CODES, MEGATRON_MAGIC, npy_header
from dcurate.tokens.spans import Span, spans_of
from dcurate.tokens.tokenizer import TextEncoder, TokenizerSource

_Ints = npt.NDArray[np.int64]


@dataclass
class Verified:
    """The result of a check.

    Attributes:
        shards: how many were checked.
        documents: documents in them.
        sampled: documents that were read back.
        decoded: of these, documents whose text gives the same tokens again.
        tokenised: documents that were tokenised from the input, and ``found`` how many of the sample were in it.
        wrong: what is wrong, a sentence each.
    """

    shards: int = 0
    documents: int = 0
    sampled: int = 0
    decoded: int = 0
    found: int = 0
    tokenised: int = 0
    wrong: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)


def verify(
    folder: TokenFolder, tokenizer: TokenizerSource, inputs: Collection[str] = (), *, sample: int = 100, seed: int = 0
) -> Verified:
    """Check a folder of tokens.

    Args:
        folder: folder of tokens.
        tokenizer: by which it was made.
        inputs: folders that the documents were read from: those of the sample are looked for there by their ids, and
            tokenised again.
        sample: number of documents.
        seed: another one draws others.

    Raises:
        DataError: it is no folder of tokens, or of another tokenizer.
    """
    about = folder.about
    if about["tokenizer"]["digest"] != tokenizer.digest():
        raise DataError(
            f"{folder.url!r} was made with another tokenizer than {tokenizer.identifier!r}; name the one that it was "
            f"made with, {about['tokenizer']['name']!r}"
        )
    result = Verified()
    result.wrong += folder.damage()
    drawn = _Drawn(sample, random.Random(seed))
    for shard in folder.shards:
        result.shards += 1
        result.documents += shard["documents"]
        if not result.wrong:
            result.wrong += [f"{shard['shard']}: {problem}" for problem in _wrong_in(folder, shard, drawn)]
    if not result.wrong:
        result.wrong += folder.changed()
    if not result.wrong:
        spans = sorted(drawn.spans, key=lambda span: (span.shard, span.start))
        ends = tuple(about[kind] for kind in ("bos", "eos") if about[kind] is not None)
        same = replace(tokenizer, special_in_text=about["special_in_text"] or "token", ends=ends)
        _check_sample(folder, same.load(), spans, inputs, result)
    return result


@dataclass
class _Drawn:
    """A sample of documents, drawn from a stream."""

    size: int
    draw: random.Random
    spans: list[Span] = field(default_factory=list)
    seen: int = 0

    def look(self, span: Span) -> None:
        """Look at the first span of a document."""
        self.seen += 1
        if len(self.spans) < self.size:
            self.spans.append(span)
        elif (place := self.draw.randrange(self.seen)) < self.size:
            self.spans[place] = span


def _wrong_in(folder: TokenFolder, shard: dict[str, Any], drawn: _Drawn) -> Iterator[str]:
    """What is wrong in a shard."""
    end, documents, tokens = 0, 0, 0
    pieces = folder.about["unit"] == "window"  # of documents, which are not read back
    lengths: list[int] = []
    for span in spans_of(folder.directory, shard["shard"]):
        if span.start < end or span.end <= span.start:
            yield f"spans overlap at token {span.start:,}"
        end = span.end
        tokens += span.end - span.start
        lengths.append(span.end - span.start)
        if span.first == 0 or pieces:
            documents += 1
        if not pieces and span.first == 0:
            drawn.look(span)
    if documents != shard["documents"]:
        yield f"spans are of {documents:,} documents, not {shard['documents']:,}"
    if tokens + shard["padding"] != shard["tokens"] or end > shard["tokens"]:
        yield f"spans hold {tokens:,} tokens and {shard['padding']:,} are padding, of {shard['tokens']:,}"
    window = folder.about["sequence_length"]
    sequences = np.array(lengths, np.int64) if window is None else np.full(shard["tokens"] // window, window, np.int64)
    if len(sequences) != shard["sequences"]:
        yield f"{len(sequences):,} sequences, not {shard['sequences']:,}"
    yield from _INDEXES[folder.about["format"]](folder, shard["shard"], sequences)


def _differ(label: str, actual: Any, wanted: Any) -> Iterator[str]:
    if not np.array_equal(actual, wanted):
        yield f"{label} of the index are not those of the tokens"


def _megatron(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    data = folder.directory.read(f"{shard}.idx") or b""
    count = len(sequences)
    head = MEGATRON_MAGIC + struct.pack("<QBQQ", 1, MEGATRON_CODES[folder.about["dtype"]], count, count + 1)
    if not data.startswith(head) or len(data) != len(head) + 12 * count + 8 * (count + 1):
        yield "the index has another header or length"
        return
    width = np.dtype(folder.about["dtype"]).itemsize
    yield from _differ("lengths", np.frombuffer(data, "<i4", count, len(head)), sequences)
    pointers = np.frombuffer(data, "<i8", count, len(head) + 4 * count)
    yield from _differ("pointers", pointers, (np.cumsum(sequences) - sequences) * width)
    yield from _differ("documents", np.frombuffer(data, "<i8", count + 1, len(head) + 12 * count), np.arange(count + 1))
    yield from _size_is(folder, f"{shard}.bin", int(sequences.sum()) * width)


def _size_is(folder: TokenFolder, name: str, size: int) -> Iterator[str]:
    actual = folder.sizes.get(name)
    if actual != size:
        yield f"{name} has {actual} bytes, not {size:,}"


def _datatrove(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    tokens = int(sequences.sum())
    width = np.dtype(folder.about["dtype"]).itemsize
    ends = np.frombuffer(folder.directory.read(f"{shard}.ds.index") or b"", "<u8").astype(np.int64)
    if folder.about["sequence_length"] is None:
        yield from _differ("ends", ends, np.cumsum(sequences))
    elif (np.diff(ends) <= 0).any() or (len(ends) and ends[-1] != tokens):
        yield "ends of the index are not those of the tokens"
    metadata = (folder.directory.read(f"{shard}.ds.metadata") or b"").decode(errors="replace").split("\n")
    if metadata[0].rpartition("|")[2] != str(width) or metadata[1:2] != [str(tokens)]:
        yield "the metadata name another width or number of tokens"
    yield from _size_is(folder, f"{shard}.ds", tokens * width)


def _memmap(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    yield from _size_is(folder, f"{shard}.npy", int(sequences.sum()) * np.dtype(folder.about["dtype"]).itemsize)


def _npy(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    window = folder.about["sequence_length"]
    shape = (int(sequences.sum()),) if window is None else (len(sequences), window)
    wanted = npy_header(folder.about["dtype"], shape)
    if folder.read(f"{shard}.npy", 0, len(wanted)) != wanted:
        yield "the header names another type or shape"
    width = np.dtype(folder.about["dtype"]).itemsize
    yield from _size_is(folder, f"{shard}.npy", len(wanted) + int(sequences.sum()) * width)


def _offsets(folder: TokenFolder, name: str, sequences: _Ints, about: bytes) -> Iterator[str]:
    count = len(sequences)
    before = 4 * (count + 2)
    data = folder.read(name, 0, before + len(about))
    offsets = np.frombuffer(data, "<u4", count + 1, 4).astype(np.int64)
    width = np.dtype(folder.about["dtype"]).itemsize
    if struct.unpack_from("<I", data) != (count,) or data[before:] != about:
        yield "the header names another number of samples, or other columns"
    if offsets[0] != len(data) or (np.diff(offsets) < sequences * width).any():
        yield "samples are shorter than their tokens"
    yield from _size_is(folder, name, int(offsets[-1]))


def _mds(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    config = json.dumps(mds_settings(folder.about), sort_keys=True).encode()
    yield from _offsets(folder, f"{shard}.mds", sequences, config)
    yield from _in_index(
        folder, f"{shard}.mds", lambda index: [entry["raw_data"]["basename"] for entry in index["shards"]]
    )


def _litdata(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    yield from _offsets(folder, f"{shard}.bin", sequences, b"")
    yield from _in_index(folder, f"{shard}.bin", lambda index: [chunk["filename"] for chunk in index["chunks"]])


def _in_index(folder: TokenFolder, name: str, names: Callable[[Any], list[str]]) -> Iterator[str]:
    try:
        known = names(json.loads(folder.directory.read("index.json") or b'{"shards": [], "chunks": []}'))
    except (ValueError, TypeError, KeyError):
        yield "index.json is damaged"
        return
    if name not in known:
        yield "index.json does not have it"


def _parquet(folder: TokenFolder, shard: str, sequences: _Ints) -> Iterator[str]:
    return iter(())


_INDEXES: dict[str, Callable[[TokenFolder, str, _Ints], Iterator[str]]] = {
    "megatron": _megatron,
    "ds": _datatrove,
    "memmap": _memmap,
    "npy": _npy,
    "mds": _mds,
    "litdata": _litdata,
    "parquet": _parquet,
}


def document_tokens(folder: TokenFolder, span: Span) -> list[int]:
    """Return the tokens of the document of a span, without BOS and EOS.

    Raises:
        DataError: the special tokens are not where they should be.
    """
    ids: list[int] = np.concatenate([folder.tokens(piece) for piece in folder.document(span)]).tolist()
    bos, eos = folder.about["bos"], folder.about["eos"]
    if (bos is not None and ids[:1] != [bos]) or (eos is not None and ids[-1:] != [eos]):
        raise DataError(f"{span.shard}: document {span.doc!r} has no BOS or EOS where it should have")
    return ids[int(bos is not None) : len(ids) - int(eos is not None)]


def _check_sample(
    folder: TokenFolder, encoder: TextEncoder, spans: list[Span], inputs: Collection[str], result: Verified
) -> None:
    """Decode documents, and tokenise those that are found in the inputs."""
    ids_by_doc: dict[str, list[list[int]]] = {}
    for span in spans:
        result.sampled += 1
        try:
            ids = document_tokens(folder, span)
        except DataError as error:
            result.wrong.append(str(error))
            continue
        if folder.about["special_in_text"] in ("text", "refuse"):
            inside = {"BOS": folder.about["bos"], "EOS": folder.about["eos"]}
            result.wrong += [
                f"{span.shard}: document {span.doc!r} has the {kind} token inside"
                for kind, number in inside.items()
                if number in ids
            ]
        ids_by_doc.setdefault(span.doc, []).append(ids)
        result.decoded += encoder.encode([encoder.decode(ids)])[0].tolist() == ids
    for doc, texts in _texts(folder, inputs, ids_by_doc).items():
        result.found += 1
        again = [encoded.tolist() for encoded in encoder.encode(texts)]
        if all(ids in again for ids in ids_by_doc[doc]):
            result.tokenised += 1
        else:
            result.wrong.append(f"document {doc!r} has other tokens than its text in the input")


def _texts(folder: TokenFolder, inputs: Collection[str], wanted: Collection[str]) -> dict[str, list[str]]:
    """The texts of documents in the inputs, by id: ids may not be unique."""
    texts: dict[str, list[str]] = {}
    for url in inputs:
        directory = Directory(url, folder.options)
        for name in sorted(filter(is_readable, directory.files())):
            for row in rows_with(directory, name, folder.about["id_field"], dict.fromkeys(wanted)):
                doc = str(row.values[folder.about["id_field"] or _id_of(row.values)])
                texts.setdefault(doc, []).append(str(row.values.get(folder.about["text_field"]) or ""))
    return texts


def _id_of(values: dict[str, Any]) -> str:
    column = id_column(list(values))
    return column or ""
