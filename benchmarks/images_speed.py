"""Properties, signals and hashes of pictures per CPU second, beside other tools. Part of ``benchmarks.images``.

The pictures are those of ``near.tar``. ``images_per_cpu_s`` of ours is for `ImageInfo` and `ImageSignals` in turn, on
rows that refer to members of the archive, reading included: 11 signals, `detail`, 4 hashes and the hash of the pixels.
Beside it: ``info`` alone; ``signals`` without hashes; ``decode``: bytes to pixels at the same scale and nothing else;
``decode_pillow``: with Pillow at full size; ``large``: the same
for 12 made JPEGs of 2 megapixels. ``cost_of_signals`` is the time of `ImageSignals` by that of ``decode``:
for all pictures, for JPEGs, and for 12 made JPEGs of 2 megapixels; ``cost_of_ten`` without hashes.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from benchmarks.measure import ROOT, CommandError, measure
from dcurate import DocumentBatch
from dcurate.images import ImageInfo, ImageSignals
from dcurate.images.signals import SHORT_SIDE
from dcurate.media import File
from dcurate.media.image.pixels import decode
from dcurate.media.refs import REF, Ref, fetch, ref_array

#: Rows of a batch, and how often each figure is taken; the best one counts, as other work disturbs.
ROWS, TIMES = 128, 5
#: Files of a turn, where what one thing costs is compared with another.
PIECE = 32
_PEERS = ("imagededup", "data_juicer", "data_juicer_hashes", "data_juicer_calls", "daft")


def run(input_dir: str | Path, peers_python: str | None = None) -> dict[str, Any]:
    """Measure ours, and the tools that the Pythons have.

    Args:
        input_dir: a folder with ``near.tar``.
        peers_python: Pythons with imagededup, data-juicer, daft or ray, with commas.
    """
    archive = Path(input_dir) / "near.tar"
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile()]
    refs = [Ref(str(archive), member.name, member.offset_data, member.size) for member in members]
    figures: dict[str, Any] = {"images": len(refs), "ours": _ours(refs)}
    large: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
        inner = next((path for path in Path(folder).iterdir() if path.is_dir()), Path(folder))
        for python in (peers_python or "").split(",") if peers_python else []:
            print("peers of", python, flush=True)
            for tool in _PEERS:
                _add(figures, tool, partial(_in_process, python, tool, inner))
            _add(figures, "ray", partial(_ray, python, inner, len(refs)))
        for path in list(inner.iterdir()):
            path.unlink()
        for number, data in enumerate(_large(_sample(refs))):
            (inner / f"{number}.jpg").write_bytes(data)
        for python in (peers_python or "").split(",") if peers_python else []:
            for tool in _PEERS:
                _add(large, tool, partial(_in_process, python, tool, inner))
    ours = figures["ours"]
    figures["times_faster"] = _times(ours["images_per_cpu_s"], figures)
    figures["info_times_faster"] = _times(ours["info_images_per_cpu_s"], figures)
    figures["large"] = large | {"times_faster": _times(ours["large_images_per_cpu_s"], large)}
    return figures


def _times(ours: float, figures: dict[str, Any]) -> dict[str, float]:
    return {
        name: round(ours / one["images_per_cpu_s"], 2)
        for name, one in figures.items()
        if isinstance(one, dict) and name != "ours" and "images_per_cpu_s" in one
    }


def _sample(refs: Sequence[Ref]) -> list[bytes]:
    """Twelve JPEGs of the archive."""
    files = [data for data in fetch(pa.table({REF: ref_array(refs)})) if isinstance(data, bytes)]
    jpegs = [data for data in files if data[:2] == b"\xff\xd8"]
    return jpegs[:: max(1, len(jpegs) // 12)][:12]


def _ours(refs: Sequence[Ref]) -> dict[str, Any]:
    batches = [
        DocumentBatch(data=pa.table({REF: ref_array(refs[start : start + ROWS])}))
        for start in range(0, len(refs), ROWS)
    ]
    info, signals, plain = ImageInfo(), ImageSignals(), ImageSignals(hashes=False)
    signals.setup_on_node()
    files = [data for data in fetch(pa.table({REF: ref_array(refs)})) if isinstance(data, bytes)]
    jpegs = [data for data in files if data[:2] == b"\xff\xd8"]
    large = _large(_sample(refs))
    both = _best(lambda: [signals.process(info.process(batch)) for batch in batches])
    found: dict[str, Any] = {
        "images_per_cpu_s": _rate(len(refs), both),
        "info_images_per_cpu_s": _rate(len(refs), _best(lambda: [info.process(batch) for batch in batches])),
        "signals_images_per_cpu_s": _rate(len(refs), _best(lambda: [plain.process(batch) for batch in batches])),
        "decode_images_per_cpu_s": _rate(len(files), _best(partial(_decoded, files))),
        "decode_pillow_images_per_cpu_s": _rate(len(files), _best(lambda: [_pillow(data) for data in files])),
        "cost_of_signals": {},
        "cost_of_ten": {},
        "large_images_per_cpu_s": _rate(len(large), _best(lambda: _looked_at(large, info, signals))),
    }
    for name, some in (("all", files), ("jpeg", jpegs), ("2_megapixels", large)):
        bare, whole, ten = _in_turn(some, _decoded, partial(_each, signals), partial(_each, plain))
        found["cost_of_signals"][name] = round(whole / bare, 3)
        found["cost_of_ten"][name] = round(ten / bare, 3)
    return found


def _decoded(files: Sequence[bytes]) -> None:
    for data in files:
        decode(data, SHORT_SIDE)


def _each(stage: ImageSignals, files: Sequence[bytes]) -> None:
    for data in files:
        stage.look([File(data, len(data))])


def _looked_at(files: Sequence[bytes], info: ImageInfo, signals: ImageSignals) -> None:
    signals.process(info.process(DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.large_binary())}))))


def _large(files: Sequence[bytes]) -> list[bytes]:
    """The pictures as JPEGs of about 2 megapixels, with noise, as cameras make it."""
    made, random = [], np.random.default_rng(1)
    for data in files:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("RGB").resize((1632, 1224), Image.Resampling.BICUBIC), np.float32)
        noisy = np.clip(pixels + random.normal(0, 4, pixels.shape[:2])[..., None], 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(noisy).save(file, "JPEG", quality=88)
        made.append(file.getvalue())
    return made


def _pillow(data: bytes) -> Any:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def _best(work: Callable[[], Any]) -> float:
    return min(_seconds(work) for _ in range(TIMES))


def _in_turn(files: Sequence[bytes], *works: Callable[[Sequence[bytes]], Any]) -> list[float]:
    """The CPU seconds of each, taken in turn on a few files at a time, so that what else runs hits all alike.

    Of each few files the least of several times counts.
    """
    whole = [0.0] * len(works)
    for start in range(0, len(files), PIECE):
        piece = files[start : start + PIECE]
        taken = [[_seconds(partial(work, piece)) for work in works] for _ in range(TIMES)]
        whole = [total + min(times) for total, times in zip(whole, zip(*taken, strict=True), strict=True)]
    return whole


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _rate(number: int, seconds: float) -> float:
    return round(number / seconds, 1)


def _add(figures: dict[str, Any], tool: str, work: Callable[[], dict[str, Any]]) -> None:
    """Add the figures of a tool; one that cannot run is left as it is, or said to be missing."""
    try:
        figures[tool] = work()
    except CommandError as error:
        figures.setdefault(tool, {"missing": str(error).strip().splitlines()[-1][:200]})


def _in_process(python: str, tool: str, folder: Path) -> dict[str, Any]:
    results = []
    for _ in range(2):
        done = subprocess.run(
            [python, ROOT / "benchmarks/peers/images.py", tool, folder],
            capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode:
            raise CommandError(done.stderr)
        results.append(measured_result(done.stdout))
    best = min(results, key=lambda one: one["cpu_s"])
    return {"images_per_cpu_s": _rate(best["images"], best["cpu_s"]), "images": best["images"]}


def measured_result(output: str) -> dict[str, Any]:
    """The JSON in the last line that a tool wrote."""
    result: dict[str, Any] = json.loads(output.strip().rpartition("\n")[2])
    return result


def _ray(python: str, folder: Path, images: int) -> dict[str, Any]:
    """CPU seconds of all its processes over four times the pictures, less those of a run over a few."""
    few = 16
    command: list[str | Path] = [python, ROOT / "benchmarks/peers/images.py", "ray", folder]
    start, whole = (
        measure(command, env={"IMAGES": str(number), "OMP_NUM_THREADS": "1"}) for number in (few, 4 * images)
    )
    done = measured_result(whole.output)["images"] - measured_result(start.output)["images"]
    if whole.cpu_s < 1.5 * start.cpu_s:
        raise CommandError(
            f"its start took {start.cpu_s:.0f} CPU seconds, too many to measure {done} pictures beside it"
        )
    return {"images_per_cpu_s": _rate(done, whole.cpu_s - start.cpu_s), "images": done}
