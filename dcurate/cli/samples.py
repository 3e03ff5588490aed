"""A sample of what a recipe reads, to run it once."""

from __future__ import annotations

import io
import random
import struct
import tarfile
import zlib
from collections.abc import Mapping
from typing import Any

import dcurate
from dcurate.recipe import SAMPLE, SAMPLE_FILES, load_recipe

#: Pixels of a side of the pictures: curation drops those below 200.
_SIDE = 256


def run_on_sample(recipe: str, given: Mapping[str, Any], folder: str, trust: bool) -> None:
    """Run a recipe in this process on a sample of the kind that its reader takes; it writes into ``folder``.

    Args:
        recipe: its path, or the name of a bundled one.
        given: params; with an input among them, that is read and not a sample.
    """
    places = {"input": str(SAMPLE), "output": f"{folder}/out"}
    reader = load_recipe(recipe, {**places, **given}, trust=trust).pipeline.stages[0]
    if isinstance(reader, dcurate.PdfReader):
        places["input"] = str(SAMPLE_FILES)
    elif isinstance(reader, dcurate.WebDatasetReader):
        places["input"] = _shard_of_pictures(folder)
    loaded = load_recipe(recipe, {**places, **given}, trust=trust)
    loaded.pipeline.run(dcurate.InlineExecutor(), observers=[], examples=False)


def _shard_of_pictures(folder: str) -> str:
    """A shard of WebDataset with a few pictures and their captions."""
    path = f"{folder}/pictures.tar"
    with tarfile.open(path, "w") as shard:
        for number in range(3):
            members = {"png": _picture(number), "txt": b"A red wall behind a garden with many small trees"}
            for suffix, data in members.items():
                member = tarfile.TarInfo(f"{number:03}.{suffix}")
                member.size = len(data)
                shard.addfile(member, io.BytesIO(data))
    return path


def _picture(number: int) -> bytes:
    """A PNG of coarse tiles with some noise, another for each number."""
    chance = random.Random(number)
    tiles = [[chance.randrange(200) for _ in range(8)] for _ in range(8)]
    rows = bytearray()
    for y in range(_SIDE):
        rows.append(0)
        for x in range(_SIDE):
            rows += bytes(tiles[y // 32][x // 32] + chance.randrange(40) for _ in range(3))
    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    coded = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)
