"""Interleaved documents through each format and back: the part ``interleaved`` of ``benchmarks.images``.

``documents``: how many there are; ``equal``: how many are equal after the round trip through every format: texts,
images byte for byte, their order, and metadata.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from dcurate import InlineExecutor, ParquetReader, ParquetWriter, Pipeline
from dcurate.core.pipeline import AnyStage
from dcurate.images import (
    FromInterleaved,
    InterleavedParquetReader,
    InterleavedParquetWriter,
    InterleavedWebDatasetReader,
    InterleavedWebDatasetWriter,
    ToInterleaved,
)
from dcurate.media.interleaved.materialise import bytes_of
from dcurate.media.interleaved.schema import RESERVED


def run(input_dir: str | Path) -> dict[str, Any]:
    """Read the documents, write them in each format, and compare what is read back.

    Args:
        input_dir: a folder with ``interleaved.tar``.
    """
    source = str(Path(input_dir) / "interleaved.tar")
    wanted = by_hand(source)
    with tempfile.TemporaryDirectory() as folder:
        found = {"read": documents(InterleavedWebDatasetReader(source))}
        for name, (writers, readers) in formats(Path(folder)).items():
            _run(InterleavedWebDatasetReader(source), *writers)
            found[name] = documents(*readers)
    equal = [name for name, digest in wanted.items() if all(one.get(name) == digest for one in found.values())]
    each = {name: sum(one.get(key) == digest for key, digest in wanted.items()) for name, one in found.items()}
    return {"documents": len(wanted), "equal": len(equal), "formats": each}


def formats(folder: Path) -> dict[str, tuple[list[AnyStage], list[AnyStage]]]:
    """Stages that write each format, and stages that read it."""
    webdataset, parquet, obelics = (str(folder / name) for name in ("webdataset", "parquet", "obelics"))
    return {
        "webdataset": ([InterleavedWebDatasetWriter(webdataset)], [InterleavedWebDatasetReader(webdataset)]),
        "parquet": ([InterleavedParquetWriter(parquet)], [InterleavedParquetReader(parquet)]),
        "obelics": (
            [FromInterleaved(images="bytes"), ParquetWriter(obelics)],
            [ParquetReader(obelics), ToInterleaved(sample_id_field="sample_id")],
        ),
    }


def documents(*readers: AnyStage) -> dict[str, str]:
    """A digest of each document, by its id."""
    found: dict[str, list[Any]] = {}
    for batch in _run(*readers):
        table = batch.to_arrow()
        images = np.flatnonzero(np.array(table["modality"].to_pylist()) == "image")
        files = dict(bytes_of(table, images))
        for number, row in enumerate(table.to_pylist()):
            found.setdefault(row["sample_id"], []).append(_element(row, files.get(number)))
    return {name: _digest(elements) for name, elements in found.items()}


def _element(row: Mapping[str, Any], file: Any) -> Any:
    about = orjson.loads(row["metadata"]) if row.get("metadata") else None
    if row["modality"] == "text":
        return ["text", row["text_content"], about]
    if row["modality"] == "image":
        return ["image", hashlib.sha256(file).hexdigest() if isinstance(file, bytes) else repr(file), about]
    rest = orjson.loads(row["text_content"] or "{}")
    own = {name: value for name, value in row.items() if name not in RESERVED and value is not None}
    return ["metadata", {name: value for name, value in (rest | own).items() if name != "sample_id"}]


def by_hand(source: str) -> dict[str, str]:
    """A digest of each document, read with the standard library alone."""
    found = {}
    with tarfile.open(source) as archive:
        files = {each.name: archive.extractfile(each) for each in archive if each.isfile()}
        held = {name: file.read() for name, file in files.items() if file is not None}
    for name, data in held.items():
        if not name.endswith(".json"):
            continue
        key, record = name.removesuffix(".json"), json.loads(data)
        texts, images = record.pop("texts"), record.pop("images")
        about = record.pop("metadata", None) or [None] * len(texts)
        elements: list[Any] = [["metadata", record]]
        for text, image, own in zip(texts, images, about, strict=True):
            if text is not None:
                elements.append(["text", text, own])
            if image is not None:
                file = held.get(f"{key}.{image}", held.get(image, b""))
                elements.append(["image", hashlib.sha256(file).hexdigest(), own])
        found[key] = _digest(elements)
    return found


def _digest(elements: Any) -> str:
    return hashlib.sha256(orjson.dumps(elements, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _run(*stages: AnyStage) -> list[Any]:
    return list(Pipeline("interleaved", stages=stages).run(InlineExecutor(), observers=[]))


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
