"""Near-duplicate images: what is found of labelled pairs, against hashes alone, and whether the search is exhaustive.

Part ``near`` of ``benchmarks.images``. For each tool and threshold:

* ``same_recall``: share of the pairs labelled ``same`` that are found; ``taste_recall``: of those labelled ``taste``.
* ``precision``: of the labelled pairs that are found, those that are ``same`` or ``taste``;
  ``precision_same``: the same without the pairs of taste. ``precision_all``: share of pairs of one cluster among all
  pairs that are found. Plain pictures of one colour are in several clusters there, and count as errors.
* for dcurate ``exhaustive_recall``: share of all pairs of hashes within the distance, by brute force, that the search
  found; ``forms_found``: pairs of the same form with other words that were taken for one picture.

dcurate's pairs are those of its groups: two images are a pair if they are in one group. Those of a hash are all pairs
of images with hashes within the threshold. ``phash``, ``dhash`` and ``pdq`` are dcurate's own hashes; those of the
library imagehash are added if it is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import zstandard
from PIL import Image

from dcurate import InlineExecutor, MediaReader, Pipeline
from dcurate.groups.parts import Parts
from dcurate.images import ImageNearDuplicates
from dcurate.images.duplicates.fingerprint import Fingerprints, read_fingerprint
from dcurate.images.hashes import hashes_of, thumbnail64
from dcurate.kernels.structure import BITS
from dcurate.media.image.pixels import MAX_PIXELS, decode

#: Settings of dcurate, the default first, and thresholds of hashes.
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "threshold=0.9": {"threshold": 0.9},
    "clustering=star": {"clustering": "star"},
    "max_distance=6": {"max_distance": 6},
    "verify=none": {"verify": "none", "clustering": "connected"},
    "flips=True": {"flips": True},
}
HASHES: dict[str, tuple[int, ...]] = {"phash": (4, 8, 10, 12), "dhash": (4, 8, 10, 12), "pdq": (16, 31, 48)}

Bools = npt.NDArray[np.bool_]


class Truth:
    """The labelled pairs and clusters of a set, as matrices over its files."""

    def __init__(self, folder: Path, files: list[str]) -> None:
        at = {name: place for place, name in enumerate(files)}
        rows = {row["file"]: row for row in _rows(folder / "near-truth.jsonl.zst")}
        clusters = np.array([rows[name]["cluster"] for name in files])
        self.one_cluster = clusters[:, None] == clusters[None, :]
        self.labels = {label: np.zeros((len(files), len(files)), np.bool_) for label in ("same", "taste", "other")}
        self.forms = np.zeros((len(files), len(files)), np.bool_)
        for pair in _rows(folder / "near-pairs.jsonl.zst"):
            one, other = sorted((at[pair["a"]], at[pair["b"]]))
            self.labels[pair["label"] if pair["label"] in self.labels else "other"][one, other] = True
            self.forms[one, other] = pair["why"] == "same form, other words"

    def scores(self, found: Bools) -> dict[str, float]:
        """Score pairs, as a matrix of which the upper half counts."""
        found = np.triu(found, 1)
        counts = {label: int((found & pairs).sum()) for label, pairs in self.labels.items()}
        right = counts["same"] + counts["taste"]
        return {
            "same_recall": _share(counts["same"], int(self.labels["same"].sum())),
            "taste_recall": _share(counts["taste"], int(self.labels["taste"].sum())),
            "precision": _share(right, right + counts["other"]),
            "precision_same": _share(counts["same"], counts["same"] + counts["other"]),
            "precision_all": _share(int((found & self.one_cluster).sum()), int(found.sum())),
            "forms_found": int((found & self.forms).sum()),
        }


def run(input_dir: Path) -> dict[str, Any]:
    """Return the figures of all tools."""
    folder = Path(input_dir)
    pictures = _members(folder / "near.tar")
    truth = Truth(folder, list(pictures))
    figures: dict[str, Any] = {"images": len(pictures), "dcurate": {}}
    exhaustive = _exhaustive(list(pictures.values()))
    for name, settings in OURS.items():
        begin = time.process_time()
        groups = _groups(folder / "near.tar", settings)
        seconds = time.process_time() - begin
        own = np.array([groups[file] for file in pictures])
        figures["dcurate"][name] = (
            truth.scores(own[:, None] == own[None, :]) | exhaustive | {"cpu_s": round(seconds, 2)}
        )
    for tool, bits in _hashes(list(pictures.values())):
        distances = _distances(bits)
        thresholds = HASHES[tool.rpartition(".")[2]]
        figures[tool] = {f"distance<={most}": truth.scores(distances <= most) for most in thresholds}
    return figures


def _groups(archive: Path, settings: dict[str, Any]) -> dict[str, int]:
    """The group of each file, as the stage gives it."""
    stages = [MediaReader(str(archive), kinds=["image"]), ImageNearDuplicates(action="flag", **settings)]
    batches: Any = Pipeline("near", stages=stages).run(InlineExecutor(), observers=[])
    rows = [row for batch in batches for row in batch.to_arrow().select(["file_name", "duplicate_group"]).to_pylist()]
    return {row["file_name"]: row["duplicate_group"] for row in rows}


def _exhaustive(files: list[bytes]) -> dict[str, float]:
    """Compare the search with all pairs."""
    packed = b"".join(read_fingerprint(data, {"max_pixels": MAX_PIXELS})[1][0] for data in files)
    prints, stage = Fingerprints.of(packed), ImageNearDuplicates()
    bits = np.unpackbits(prints.hashes.view(np.uint8).reshape(len(files), BITS // 8), axis=1)
    all_pairs = np.triu(_distances(bits) <= stage.max_distance, 1)
    found = np.zeros_like(all_pairs)
    pairs = Parts(BITS, stage.max_distance, stage.together).pairs(prints.hashes)
    found[pairs.left, pairs.right] = True
    return {"exhaustive_recall": _share(int((found & all_pairs).sum()), int(all_pairs.sum())),
            "exhaustive_precision": _share(int((found & all_pairs).sum()), int(found.sum()))}  # fmt: skip


def _hashes(files: list[bytes]) -> Iterator[tuple[str, npt.NDArray[np.uint8]]]:
    """The bits of each hash of all files."""
    found = [hashes_of(thumbnail64(decode(data).pixels)) for data in files]
    for name in HASHES:
        yield (
            name,
            np.unpackbits(np.frombuffer(b"".join(getattr(one, name) for one in found), np.uint8)).reshape(
                len(files), -1
            ),
        )
    if importlib.util.find_spec("imagehash") is not None:
        library = importlib.import_module("imagehash")
        opened = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
        for name in ("phash", "dhash"):
            bits = [getattr(library, name)(image).hash.ravel() for image in opened]
            yield f"imagehash.{name}", np.array(bits, np.uint8)


def _distances(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    ones = bits.astype(np.float32)
    apart = ones @ (1 - ones).T
    return np.asarray(apart + apart.T)


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member)) is not None}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8"):
            yield orjson.loads(line)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 1.0
