"""Read files of tokens by what their formats say, without the code that writes them; and make small tokenizers."""

from __future__ import annotations

import csv
import gzip
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_MEGATRON = {8: np.uint16, 4: np.int32, 5: np.int64}
_LITDATA = {2: np.int32, 5: np.uint16, 6: np.uint32}


def train_bpe(path: Path, texts: list[str], size: int = 400, eos: str | None = "<|endoftext|>") -> str:
    """Train a small BPE of bytes, and save it; returns the path."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[eos] if eos else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return str(path)


def read_megatron(path: Path) -> list[list[int]]:
    """The sequences of a ``.bin`` by its ``.idx``, with the index checked against itself."""
    index = path.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    at = 9 + 8 + 1 + 8 + 8
    lengths = np.frombuffer(index, "<i4", sequences, at)
    pointers = np.frombuffer(index, "<i8", sequences, at + 4 * sequences)
    ends = np.frombuffer(index, "<i8", documents, at + 12 * sequences)
    assert len(index) == at + 12 * sequences + 8 * documents
    assert ends.tolist() == list(range(sequences + 1))
    data = path.read_bytes()
    kind = np.dtype(_MEGATRON[code])
    found = [np.frombuffer(data, kind, n, at).tolist() for n, at in zip(lengths, pointers, strict=True)]
    assert sum(map(len, found)) * kind.itemsize == len(data)
    return found


def read_datatrove(path: Path) -> list[list[int]]:
    """The documents of a ``.ds``."""
    name, count, _ = path.with_name(f"{path.name}.metadata").read_text().split("\n")
    width = int(name.rpartition("|")[2])
    tokens = np.fromfile(path, f"<u{width}")
    assert len(tokens) == int(count)
    ends = np.fromfile(path.with_name(f"{path.name}.index"), "<u8").astype(np.int64)
    return _cut(tokens, ends)


def read_memmap(path: Path, kind: str) -> list[list[int]]:
    """The documents of raw ids, by the table of dolma beside them."""
    tokens = np.fromfile(path, kind)
    with gzip.open(path.with_suffix(".csv.gz"), "rt") as file:
        rows = [(int(row[0]), int(row[1])) for row in csv.reader(file)]
    return [tokens[start:end].tolist() for start, end in rows]


def read_npy(path: Path) -> list[list[int]]:
    """The documents of a ``.npy`` by the boundaries beside it, or its windows."""
    array = np.load(path)
    if array.ndim == 2:
        return array.tolist()
    boundaries = np.load(path.parent / "spans" / f"{path.stem}.cu_seqlens.npy")
    assert boundaries[0] == 0
    return _cut(array, boundaries[1:])


def read_mds(folder: Path) -> list[dict[str, list[int]]]:
    """The samples of MDS, all columns."""
    samples = []
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        (count,) = struct.unpack_from("<I", data)
        assert count == shard["samples"]
        offsets = np.frombuffer(data, "<u4", count + 1, 4)
        assert offsets[-1] == len(data)
        config = data[4 * (count + 2) : offsets[0]]
        assert json.loads(config).items() <= shard.items()
        samples += [_mds_sample(data[a:b], shard) for a, b in pairwise(offsets)]
    return samples


def _mds_sample(data: bytes, shard: dict[str, Any]) -> dict[str, list[int]]:
    variable = [size for size in shard["column_sizes"] if size is None]
    sizes = iter(struct.unpack_from(f"<{len(variable)}I", data))
    at, sample = 4 * len(variable), {}
    for name, encoding, fixed in zip(
        shard["column_names"], shard["column_encodings"], shard["column_sizes"], strict=True
    ):
        size = fixed or next(sizes)
        value = data[at : at + size]
        kind = encoding.split(":")[1]
        if fixed is None:
            assert value[0] >> 2 == 1
            width = 2 ** (value[0] & 3)
            length = int.from_bytes(value[1 : 1 + width], "little")
            value = value[1 + width :]
            assert len(value) == length * np.dtype(kind).itemsize
        sample[name] = np.frombuffer(value, kind).tolist()
        at += size
    assert at == len(data)
    return sample


def read_litdata(folder: Path) -> list[list[int]]:
    """The items of litdata."""
    index = json.loads((folder / "index.json").read_text())
    kind = np.dtype(_LITDATA[int(index["config"]["data_format"][0].partition(":")[2])])
    items = []
    for chunk in index["chunks"]:
        data = (folder / chunk["filename"]).read_bytes()
        (count,) = struct.unpack_from("<I", data)
        assert (count, len(data)) == (chunk["chunk_size"], chunk["chunk_bytes"])
        offsets = np.frombuffer(data, "<u4", count + 1, 4)
        items += [np.frombuffer(data[a:b], kind).tolist() for a, b in pairwise(offsets)]
        assert sum(map(len, items[-count:])) == chunk["dim"]
    return items


def read_parquet(path: Path) -> list[list[int]]:
    """The lists of ids in a Parquet file."""
    table = pq.read_table(path)
    assert table["length"].to_pylist() == [len(ids) for ids in table["input_ids"].to_pylist()]
    return list(table["input_ids"].to_pylist())


def read_tokens(folder: Path, form: str) -> list[list[int]]:
    """All sequences of a folder of tokens in a format, in order."""
    if form == "mds":
        return [sample["tokens"] for sample in read_mds(folder)]
    if form == "litdata":
        return read_litdata(folder)
    if form == "memmap":
        kind = json.loads((folder / "tokens.json").read_text())["dtype"]
        return [one for path in sorted(folder.glob("*.npy")) for one in read_memmap(path, kind)]
    read = {"megatron": read_megatron, "ds": read_datatrove, "npy": read_npy, "parquet": read_parquet}[form]
    ending = {"megatron": "bin", "ds": "ds", "npy": "npy", "parquet": "parquet"}[form]
    return [one for path in sorted(folder.glob(f"*.{ending}")) for one in read(path)]


def _cut(tokens: Any, ends: Any) -> list[list[int]]:
    assert len(ends) == 0 or ends[-1] == len(tokens)
    starts = [0, *ends[:-1].tolist()]
    return [tokens[a:b].tolist() for a, b in zip(starts, ends.tolist(), strict=True)]
