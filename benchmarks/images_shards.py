"""WebDataset shards read and written: what of names, captions and bytes is kept. Part of `benchmarks.images`.

    python -m benchmarks.images_shards DIR

DIR holds ``shard-*.tar*`` and ``shards-truth.jsonl.zst``. What went in is listed by Python's `tarfile`, what came out
by `tarfile`, too, so that neither side is judged by dcurate's own reader.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import zstandard

from dcurate import InlineExecutor, Pipeline, WebDatasetReader, WebDatasetWriter

#: A member: its name and the digest of its content.
Member = tuple[str, str]


def run(input_dir: str | Path) -> dict[str, Any]:
    """Read the shards of a folder, write them, and compare."""
    folder = Path(input_dir)
    shards = sorted(folder.glob("shard-*.tar*"))
    with zstandard.open(folder / "shards-truth.jsonl.zst", "rt", encoding="utf-8") as file:
        truth = [row for row in map(json.loads, file) if row["key"]]
    begin = time.process_time()
    found = {path.name: _one(path) for path in shards}
    seconds = time.process_time() - begin
    whole = [row for row in truth if row["complete"] and row["shard"] in found]
    names = sum(_has_name(row, found[row["shard"]]["out"]) for row in whole)
    texts = sum(_counted(one["kept"], True).total() for one in found.values())
    equal_texts = sum((_counted(one["kept"], True) & _counted(one["out"], True)).total() for one in found.values())
    members = sum(_counted(one["kept"]).total() for one in found.values())
    equal = sum((_counted(one["kept"]) & _counted(one["out"])).total() for one in found.values())
    pictures = sum(_has_picture(row, found[row["shard"]]["out"]) for row in whole)
    faults = sum((one["faults"] for one in found.values()), Counter[str]())
    return {
        "samples": sum(one["samples"] for one in found.values()),
        "names_kept": names / max(len(whole), 1),
        "captions_kept": equal_texts / max(texts, 1),
        "members_byte_equal": equal / max(members, 1),
        "lost": sum(one["lost"] for one in found.values()),
        "pictures_kept": pictures / max(len(whole), 1),
        "complete_samples": len(whole),
        "members": sum(len(one["in"]) for one in found.values()),
        "not_kept": dict(sorted(faults.items())),
        "cpu_s": round(seconds, 3),
        "by_shard": {
            name: {
                "members": len(one["in"]),
                "samples": one["samples"],
                "members_byte_equal": (_counted(one["kept"]) & _counted(one["out"])).total()
                / max(_counted(one["kept"]).total(), 1),
                "not_kept": dict(sorted(one["faults"].items())),
                "lost": one["lost"],
            }
            for name, one in found.items()
        },
    }


def _one(path: Path) -> dict[str, Any]:
    """What is in a shard, what comes out of a round trip, and what does not."""
    inside = _members(path)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        reader = WebDatasetReader(str(path))
        Pipeline("shards", stages=[reader, WebDatasetWriter(str(out))]).run(InlineExecutor(), observers=[])
        outside = [member for shard in sorted(out.rglob("*.tar")) for member in _members(shard)]
    places: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    quarantined: list[str] = []
    samples = 0
    for split in reader.splits():
        made = reader.process(split)
        for batch in made if isinstance(made, list) else [made] if made is not None else []:
            rows = batch.to_arrow().to_pylist()
            samples += len(rows)
            places.update(ref["member"] for row in rows for ref in row["members"])
            for one in batch.rejections:
                for row in one.data.to_pylist():
                    names = [ref["member"] for ref in row.get("members") or [row["media_ref"]]]
                    faults[one.reason] += len(names)
                    quarantined += names
    accounted = places + Counter(quarantined)
    lost = (Counter(name for name, _ in inside) - accounted).total()
    not_kept = Counter(quarantined)
    kept = []
    for name, digest in inside:
        if not_kept[name]:
            not_kept[name] -= 1
        else:
            kept.append((name, digest))
    return {
        "in": inside,
        "out": outside,
        "kept": kept,
        "samples": samples,
        "lost": lost,
        "faults": faults,
    }


def _members(path: Path) -> list[Member]:
    """The members of an archive that `tarfile` can read whole, also links as names without content."""
    found = []
    with tarfile.open(path) as archive:
        while True:
            try:
                member = archive.next()
                if member is None:
                    return found
                if member.isdir():
                    continue
                file = archive.extractfile(member) if member.isfile() else None
                data = b"" if file is None else file.read()
            except (tarfile.ReadError, EOFError, OSError):  # it is cut
                return found
            if len(data) == member.size:
                found.append((member.name, hashlib.sha256(data).hexdigest()))


def _counted(members: list[Member], texts: bool = False) -> Counter[Member]:
    """The members, or the texts among them; one that is there twice with equal content counts once."""
    return Counter({each for each in members if not texts or each[0].lower().endswith((".txt", ".json"))})


def _has_name(row: dict[str, Any], members: list[Member]) -> bool:
    return any(name.lower() == f"{row['key']}.{row['ext']}".lower() for name, _ in members)


def _has_picture(row: dict[str, Any], members: list[Member]) -> bool:
    return any(name.startswith(row["key"]) and digest == row["sha256"] for name, digest in members)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1]), indent=1, ensure_ascii=False))
