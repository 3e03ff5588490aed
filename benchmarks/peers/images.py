"""One tool's work on the pictures of a folder; run in an environment that has the tool.

    python images.py TOOL FOLDER

Prints ``{"images": N, "cpu_s": S}`` in its last line. CPU seconds are of all threads of the process, after imports and
a first picture; of Ray of all processes, see `ray_data`. Tools:

``imagededup``: `PHash().encode_image` of each file.
``data_juicer``: `compute_stats_batched` and `process_batched` of its image filters for shape, size, aspect ratio.
``data_juicer_hashes``: the same, and its image deduplicator's pHash.
``data_juicer_calls``: the calls of these filters without the package, where it cannot be installed: the picture is
    loaded with Pillow, as its `load_image` does, and its size, aspect ratio and bytes are looked at. It is less work.
``daft``: files read and decoded by Daft, the signals and hashes of `same_work` in a function of a batch.
``ray``: the same with Ray Data.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def same_work(pixels):
    """The signals and hashes of `dcurate.images.ImageSignals` with NumPy, on a picture in RGB."""
    values = pixels[..., :3]
    gray = (values.astype(np.uint16) @ np.array([77, 150, 29], np.uint16) >> 8).astype(np.int16)
    channels = values.astype(np.float32)
    most, least = channels.max(axis=2), channels.min(axis=2)
    levels = np.bincount(gray.ravel(), minlength=256) / gray.size
    levels = levels[levels > 0]
    laplacian = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:] - 4 * gray[1:-1, 1:-1]
    across = channels[..., 0] - channels[..., 1]
    along = (channels[..., 0] + channels[..., 1]) / 2 - channels[..., 2]
    bins = np.bincount(((values >> 4).astype(np.int32) @ np.array([256, 16, 1], np.int32)).ravel())
    edges = np.abs(gray[1:-1, 2:] - gray[1:-1, :-2]) + np.abs(gray[2:, 1:-1] - gray[:-2, 1:-1]) > 40
    columns, rows = np.abs(np.diff(gray, axis=1)).sum(axis=0), np.abs(np.diff(gray, axis=0)).sum(axis=1)
    found = [
        gray.mean() / 255,
        gray.std() / 255,
        float(-(levels * np.log2(levels)).sum()),
        ((most - least) / np.maximum(most, 1)).mean(),
        np.hypot(across.std(), along.std()) + 0.3 * np.hypot(across.mean(), along.mean()),
        bins.max() / gray.size,
        laplacian.var(),
        edges.mean(),
        columns[7::8].mean() / max(1, columns.mean()) + rows[7::8].mean() / max(1, rows.mean()),
        (np.ptp(gray, axis=1) < 10).mean() + (np.ptp(gray, axis=0) < 10).mean(),
        ((most - least) > 12).mean(),
    ]
    from PIL import Image  # noqa: PLC0415

    small = np.asarray(Image.fromarray(gray.astype(np.uint8)).resize((64, 64), Image.Resampling.BOX), np.float32)
    waves = WAVES @ small @ WAVES.T
    low, high = waves[:8, :8].ravel(), waves[1:, 1:].ravel()
    cells = small.reshape(8, 8, 8, 8).mean(axis=(1, 3))
    hashes = [
        np.packbits(cells > cells.mean()).tobytes(),
        np.packbits(np.diff(small[::8, ::8], axis=1) > 0).tobytes(),
        np.packbits(low > np.median(low)).tobytes(),
        np.packbits(high > np.median(high)).tobytes(),
    ]
    return [float(value) for value in found], b"".join(hashes), hash(values.tobytes())


FREQUENCY, PLACE = np.arange(17)[:, None], np.arange(64)[None, :]
WAVES = (np.cos(np.pi * FREQUENCY * (2 * PLACE + 1) / 128) * np.where(FREQUENCY == 0, 1 / 8, np.sqrt(2) / 8)).astype(
    "f4"
)


def files_of(folder):
    return sorted(str(path) for path in Path(folder).iterdir())


def each(files, work):
    work(files[0])
    begin = time.process_time()
    for path in files:
        work(path)
    return len(files), time.process_time() - begin


def imagededup(folder):
    from imagededup.methods import PHash  # noqa: PLC0415

    method = PHash(verbose=False)
    return each(files_of(folder), lambda path: method.encode_image(image_file=path))


def data_juicer(folder, hashed=False):
    from data_juicer.ops.filter import ImageAspectRatioFilter, ImageShapeFilter, ImageSizeFilter  # noqa: PLC0415
    from data_juicer.utils.constant import Fields  # noqa: PLC0415

    filters = [ImageShapeFilter(), ImageSizeFilter(), ImageAspectRatioFilter()]
    if hashed:
        from data_juicer.ops.deduplicator.image_deduplicator import ImageDeduplicator  # noqa: PLC0415

        hasher = ImageDeduplicator(method="phash")

    def work(path):
        samples = {"images": [[path]], "text": [""], Fields.stats: [{}], Fields.context: [{}]}
        for each_filter in filters:
            samples = each_filter.compute_stats_batched(samples)
            assert list(each_filter.process_batched(samples)) is not None
        if hashed:
            hasher.compute_hash({"images": [[path]]})

    return each(files_of(folder), work)


def data_juicer_hashes(folder):
    return data_juicer(folder, hashed=True)


def data_juicer_calls(folder):
    from PIL import Image  # noqa: PLC0415

    def work(path):
        for _ in ("shape", "aspect ratio"):
            with Image.open(path) as image:
                image.load()
                _ = image.width, image.height, image.width / image.height
        return os.path.getsize(path)

    return each(files_of(folder), work)


def daft(folder):
    import daft as library  # noqa: PLC0415

    @library.func.batch(return_dtype=library.DataType.binary())
    def work(pictures):
        return [same_work(np.asarray(picture))[1] for picture in pictures.to_pylist()]

    def over(files):
        frame = library.from_pydict({"path": files})
        frame = frame.with_column("image", library.col("path").download().decode_image(mode="RGB", on_error="null"))
        frame = frame.where(library.col("image").not_null())
        return len(frame.select(work(library.col("image"))).to_pydict()["image"])

    files = files_of(folder)
    over(files[:1])
    begin = time.process_time()
    return over(files), time.process_time() - begin


def ray_data(folder):
    """Work on all files, and print CPU seconds of nothing but the start: the caller measures the tree of processes."""
    import ray  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    def work(row):
        with Image.open(io.BytesIO(row["bytes"])) as image:
            return {"hash": same_work(np.asarray(image.convert("RGB")))[1]}

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    files = files_of(folder)
    count = int(os.environ.get("IMAGES", len(files)))
    files = (files * -(-count // len(files)))[:count]
    rows = ray.data.read_binary_files(files).map(work).take_all()
    return len(rows), 0.0


TOOLS = {
    "imagededup": imagededup,
    "data_juicer": data_juicer,
    "data_juicer_hashes": data_juicer_hashes,
    "data_juicer_calls": data_juicer_calls,
    "daft": daft,
    "ray": ray_data,
}

if __name__ == "__main__":
    number, seconds = TOOLS[sys.argv[1]](sys.argv[2])
    print(json.dumps({"images": number, "cpu_s": seconds}))
