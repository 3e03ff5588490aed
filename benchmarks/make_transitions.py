"""Make the trees that find gradual transitions: ``python -m benchmarks.make_transitions --output FILE [--json FILE]``.

Writes dcurate/bundled/transitions.npz. Videos are drawn, with known cuts, dissolves, fades through black and white and
wipes, and with what is none: pans, zooms, shaking, passing objects, flashes, lights that go up or down, and noise; then
encoded with a codec of several and decoded, at sizes, rates and qualities at random. Trees are trained on the
measurements of frames (`dcurate.kernels.mixtures`), and the figures are of videos of another seed. The same seed gives
the same videos; codecs of another version may give other pixels, and with them slightly other trees.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from PIL import Image, ImageDraw
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.measure import machine, save, versions
from benchmarks.shot_scores import ShotEvent, counts_of, scores_of
from dcurate.kernels.mixtures import Trees
from dcurate.video.shots.gradual import HEIGHT, WIDTH, GradualDetector, GradualScan, features_of

#: Codecs, containers and options, and where the quality is set.
CODECS: list[tuple[str, str, dict[str, str]]] = [
    ("libx264", "mp4", {"preset": "veryfast"}),
    ("mpeg4", "mp4", {}),
    ("libvpx-vp9", "webm", {"deadline": "realtime", "cpu-used": "8"}),
    ("libx265", "mp4", {"preset": "ultrafast", "x265-params": "log-level=none"}),
    ("libsvtav1", "mp4", {"preset": "12", "svtav1-params": "lp=1"}),
    ("mjpeg", "matroska", {}),
]
SIZES = [(192, 108), (160, 120), (128, 228), (256, 144)]
#: Transitions of a film; a flash is none.
KINDS = [["cut"], ["cut", "dissolve"], ["dissolve", "fade"], ["cut", "wipe", "dissolve"], ["cut", "flash"]]
#: Width and height of what a shot is cut from.
SCENE = (640, 480)
SHOTS = 6


class DrawnFilm(NamedTuple):
    """A video: small decoded frames, its events, and which frames are mixed."""

    frames: np.ndarray
    events: list[ShotEvent]
    is_mixed: np.ndarray


def scene(random: np.random.Generator) -> Image.Image:
    """Draw something to film: clouds of colour, shapes, lines."""
    width, height = SCENE
    layers = np.zeros((height, width, 3))
    for cells in (2, 5, 12, 40, 160):
        noise = random.random((cells, cells, 3 if random.random() < 0.7 else 1)) * np.ones(3)
        small = Image.fromarray((noise * 255).astype(np.uint8))
        layers += np.asarray(small.resize(SCENE, Image.Resampling.BICUBIC), np.float64) * random.random() ** 2
    layers = (layers - layers.min()) / max(float(np.ptp(layers)), 1.0)
    low, high = np.sort(random.random((2, 3)), axis=0) if random.random() < 0.8 else random.random((2, 3))
    picture = Image.fromarray(((low + layers ** random.uniform(0.5, 2.0) * (high - low)) * 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(int(random.integers(0, 25))):
        x, y, w, h = random.random(4) * [width, height, width / 3, height / 3]
        colour = tuple(int(value) for value in random.integers(0, 256, 3))
        shape = random.integers(0, 3)
        if shape == 0:
            draw.ellipse((x, y, x + w, y + h), fill=colour)
        elif shape == 1:
            draw.rectangle((x, y, x + w, y + h), fill=colour)
        else:
            draw.line((x, y, x + w, y - h), fill=colour, width=int(random.integers(1, 9)))
    return picture


def shot(random: np.random.Generator, count: int, size: tuple[int, int]) -> list[np.ndarray]:
    """Film a scene: still, panned, zoomed, shaken or turned, with things that move, grain and changing light."""
    picture, (width, height) = scene(random), size
    scale = random.uniform(0.35, 0.75)
    w, h = SCENE[0] * scale, SCENE[0] * scale * height / width
    if h > SCENE[1] * 0.9:
        w, h = w * SCENE[1] * 0.9 / h, SCENE[1] * 0.9
    start = random.random(2) * [SCENE[0] - w, SCENE[1] - h]
    speed = random.choice([0.0, 0.15, 0.4, 1.0]) * random.uniform(0.3, 1.0)
    way = np.clip(start + random.uniform(-1, 1, 2) * speed * [SCENE[0], SCENE[1]], 0, [SCENE[0] - w, SCENE[1] - h])
    move = random.choice(["still", "pan", "zoom", "shake", "pan zoom"])
    zoom = random.uniform(0.4, 0.95)
    inwards = random.random() < 0.5
    things = [
        (random.random(2) * size, random.normal(0, 1, 2) * size / random.uniform(10, 80), random.random(2) * size / 2,
         tuple(int(value) for value in random.integers(0, 256, 3)))
        for _ in range(int(random.choice([0, 0, 1, 3])))
    ]  # fmt: skip
    grain = random.choice([0, 0, 3, 8])
    light = random.choice([0.0, 0.0, 0.0, 0.15, 0.6])
    phase, wave = random.random() * 6, random.uniform(0.02, 0.3)
    frames = []
    for number in range(count):
        t = number / max(1, count - 1)
        x, y = start + (way - start) * t if "pan" in move else start
        part = (1 - (1 - zoom) * (t if inwards else 1 - t)) if "zoom" in move else 1.0
        if move == "shake":
            x, y = np.clip(np.add([x, y], random.uniform(-4, 4, 2)), 0, [SCENE[0] - w, SCENE[1] - h])
        dx, dy = w * (1 - part) / 2, h * (1 - part) / 2
        image = picture.resize(size, Image.Resampling.BILINEAR, box=(x + dx, y + dy, x + w - dx, y + h - dy))
        draw = ImageDraw.Draw(image)
        for place, step, extent, colour in things:
            at = (place + step * number) % (np.array(size) * 1.5) - np.array(size) * 0.25
            draw.ellipse((*at, *(at + extent)), fill=colour)
        frame: Any = np.asarray(image, np.float32)
        if light:
            frame = frame * (1 - light / 2 + light / 2 * np.sin(phase + wave * number))
        if grain:
            frame = frame + random.normal(0, grain, frame.shape)
        frames.append(np.clip(frame, 0, 255).astype(np.uint8))
    return frames


def joined(before: list[np.ndarray], after: list[np.ndarray], kind: str, random: np.random.Generator) -> ShotEvent:
    """Put a shot behind what there is already, with a transition; return where it is."""
    longest = min(len(before), len(after)) - 6
    count = min(int(random.integers(5, 36)), longest)
    end = len(before)
    if kind == "cut":
        before += after
        return ShotEvent("cut", end, end)
    if kind == "fade":
        colour = 0.0 if random.random() < 0.8 else 255.0
        out, back = (min(int(random.integers(5, 20)), longest) for _ in range(2))
        for place in range(out):
            part = (place + 1) / out
            before[end - out + place] = (before[end - out + place] * (1 - part) + colour * part).astype(np.uint8)
        black = int(random.choice([0, 0, 4]))
        before += [np.full_like(after[0], int(colour))] * black
        for place in range(back):
            part = (place + 1) / back
            after[place] = (after[place] * part + colour * (1 - part)).astype(np.uint8)
        before += after
        return ShotEvent("fade", end - out, end + black + back)
    height, width = after[0].shape[:2]
    ramp = random.choice([-1, 1]) * np.arange(width)[None] if random.random() < 0.6 else np.arange(height)[:, None]
    ramp = np.broadcast_to((ramp - ramp.min()) / max(1, np.ptp(ramp)), (height, width))[..., None]
    for place in range(count):
        part = (place + 1) / (count + 1)
        share = np.clip((part * 1.1 - ramp) * 20, 0, 1) if kind == "wipe" else part
        mixed = before[end - count + place] * (1 - share) + after[place] * share
        before[end - count + place] = mixed.astype(np.uint8)
    before += after[count:]
    return ShotEvent(kind, end - count, end)


def video(seed: int) -> DrawnFilm:
    """Draw, encode and decode a video."""
    random = np.random.default_rng(seed)
    size = SIZES[seed % len(SIZES)]
    rate = Fraction(int(random.choice([15, 24, 25, 30])))
    kinds = [["cut"], ["cut", "dissolve"], ["dissolve", "fade"], ["cut", "wipe", "dissolve"], ["cut", "flash"]][
        seed % 5
    ]
    frames: list[np.ndarray] = shot(random, int(random.integers(40, 90)), size)
    events: list[ShotEvent] = []
    for _ in range(SHOTS - 1):
        kind = str(random.choice(kinds))
        following = shot(random, int(random.integers(18, 90)), size)
        if kind == "flash":
            place = len(following) // 2
            following[place] = following[place + 1] = np.full_like(following[0], 250)
        events.append(joined(frames, following, "cut" if kind == "flash" else kind, random))
    is_mixed = np.zeros(len(frames), bool)
    for event in events:
        is_mixed[event.start : event.stop] = True
    return DrawnFilm(coded(frames, rate, random), events, is_mixed)


def coded(frames: list[np.ndarray], rate: Fraction, random: np.random.Generator) -> np.ndarray:
    """Encode frames, and decode them to the size that the detector looks at."""
    codec, container, options = CODECS[int(random.integers(len(CODECS)))]
    held = io.BytesIO()
    with av.open(held, "w", format=container) as out:
        stream: Any = out.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.bit_rate, stream.gop_size = int(random.choice([60_000, 150_000, 500_000])), int(random.choice([12, 250]))
        for frame in frames:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        out.mux(stream.encode())
    held.seek(0)
    with av.open(held) as source:
        small = [
            frame.reformat(WIDTH, HEIGHT, format="rgb24", interpolation="AREA").to_ndarray()
            for frame in source.decode(video=0)
        ]
    assert len(small) == len(frames), (codec, len(small), len(frames))
    return np.stack(small)


def trained(videos: list[DrawnFilm], seed: int) -> Trees:
    """Train trees."""
    features = np.concatenate([features_of(drawn.frames) for drawn in videos])
    labels = np.concatenate([drawn.is_mixed for drawn in videos])
    model = HistGradientBoostingClassifier(
        max_iter=120, max_leaf_nodes=16, learning_rate=0.1, min_samples_leaf=60, l2_regularization=5.0,
        early_stopping=False, random_state=seed,
    ).fit(features, labels)  # fmt: skip
    return flattened(model)


def flattened(model: Any) -> Trees:
    """The trees of a model of scikit-learn as arrays."""
    nodes, limits, values, roots = [], [], [], []
    base = float(np.ravel(model._baseline_prediction)[0])
    for (predictor,) in model._predictors:
        root = len(nodes)
        roots.append(root)
        for node in predictor.nodes:
            is_leaf = bool(node["is_leaf"])
            nodes.append((-1 if is_leaf else node["feature_idx"], root + node["left"], root + node["right"]))
            limits.append(node["num_threshold"])
            values.append(node["value"] + (base if root == 0 else 0.0) if is_leaf else 0.0)
    return Trees(
        np.array(nodes, np.int32),
        np.array(limits, np.float32),
        np.array(values, np.float32),
        np.array(roots, np.int32),
    )


def measured(videos: list[DrawnFilm], find: Callable[[np.ndarray], list[Any]]) -> dict[str, Any]:
    """F1, precision and recall of the gradual transitions that a function finds."""
    gradual = [[event for event in drawn.events if event.kind != "cut"] for drawn in videos]
    answers = [[ShotEvent("gradual", found.start, found.stop) for found in find(drawn.frames)] for drawn in videos]
    return scores_of([counts_of(truth, answer, slack=2) for truth, answer in zip(gradual, answers, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the trees go")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--videos", type=int, default=420, help="videos to train on")
    parser.add_argument("--tests", type=int, default=60, help="videos for the figures")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    av.logging.set_level(av.logging.PANIC)
    first = given.seed * 1_000_000
    trees = trained([video(first + number) for number in range(given.videos)], given.seed)
    with given.output.open("wb") as file:
        np.savez_compressed(
            file,
            nodes=trees.nodes.astype(np.int16),
            limits=trees.limits,
            values=trees.values,
            roots=trees.roots.astype(np.int16),
        )
    tests = [video(first + 900_000 + number) for number in range(given.tests)]

    def found(frames: np.ndarray) -> list[Any]:
        scan = GradualScan(GradualDetector(), trees)
        scan.add(frames)
        return [transition for transition in scan.shot_changes() if not transition.is_cut]

    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("dcurate", "av", "numpy", "scikit-learn"),
        "seed": given.seed,
        "videos": given.videos,
        "tests": given.tests,
        "frames": sum(len(drawn.frames) for drawn in tests),
        "gradual": measured(tests, found),
        "bytes": given.output.stat().st_size,
    }
    save(given.json, figures)
    print(figures["gradual"])


if __name__ == "__main__":
    main()
