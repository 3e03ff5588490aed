"""Build the bundled sample of films: drawn hills under clouds, with cuts, a dissolve, a copy, a still title and faults.

``python -m benchmarks.make_films --output DIR`` writes seven files and a README. Nothing is read: all pictures are
drawn by this script. The same versions of libraries give the same files, byte for byte.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

SEED = 20261129
# x264 gives the same bytes each time only for widths that are multiples of 32.
WIDTH, HEIGHT, FPS = 768, 512, 12
#: Seconds of a shot.
SHOT_S = 4
#: Colours of the sky above and at the horizon, and of the nearest hills, by scene.
SCENES = {
    "morning": ((120, 160, 210), (250, 215, 170), (40, 70, 50)),
    "evening": ((60, 40, 100), (250, 130, 80), (50, 25, 45)),
    "noon": ((50, 120, 210), (190, 220, 240), (30, 90, 30)),
    "desert": ((90, 140, 190), (240, 225, 190), (150, 85, 40)),
    "coast": ((70, 150, 170), (200, 235, 225), (20, 70, 95)),
    "night": ((12, 16, 45), (60, 75, 130), (18, 28, 40)),
}
_LAYERS = 4
#: Encoder and its options, by ending.
CODECS: dict[str, tuple[str, dict[str, str]]] = {
    "mp4": ("libx264", {"crf": "32", "preset": "slow"}),
    "webm": ("libvpx-vp9", {"crf": "46", "b": "0", "deadline": "good", "cpu-used": "2"}),
    "mkv": ("libx264", {"crf": "32", "preset": "slow"}),
}

Picture = npt.NDArray[np.uint8]
Field = npt.NDArray[np.float64]


def noise(rng: np.random.Generator, height: int, width: int, cell: int) -> Field:
    """Soft spots, -1 to 1, whose size in pixels is that of cells."""
    coarse = rng.uniform(-1, 1, (height // cell + 2, width // cell + 2))
    image = Image.fromarray(coarse.astype(np.float32)).resize(
        ((width // cell + 2) * cell, (height // cell + 2) * cell), Image.Resampling.BICUBIC
    )
    return np.asarray(image, np.float64)[:height, :width]


@dataclass(frozen=True)
class Scene:
    """A landscape that moves past the camera, and faster the nearer it is.

    Args:
        name: one of `SCENES`.
        pace: pixels a frame of the nearest hills, to the left or, below zero, to the right.
    """

    name: str
    pace: int = 6

    def frames(self, count: int) -> Iterator[Picture]:
        """Draw the frames of a shot."""
        above, horizon, near = (np.array(colour, np.float64) for colour in SCENES[self.name])
        rng = np.random.default_rng([SEED, *self.name.encode()])
        width = WIDTH + abs(self.pace) * count
        down = np.linspace(0, 1, HEIGHT)[:, None, None]
        spots = {96: 1.0, 32: 0.7, 8: 0.3}
        clouds = sum((size * noise(rng, HEIGHT, width, cell) for cell, size in spots.items()), np.zeros(1))
        sky = above * (1 - down) + horizon * down + 36 * clouds[..., None].clip(-0.2, 1.2)
        layers = [self._layer(rng, width, number / (_LAYERS - 1), horizon, near) for number in range(_LAYERS)]
        for frame in range(count):
            picture = self._seen(sky, 0.5, frame, width).copy()
            for number, (colours, outline) in enumerate(layers):
                share = 0.5 + 0.5 * (number + 1) / _LAYERS
                is_hill = np.arange(HEIGHT)[:, None] >= self._seen(outline[None], share, frame, width)
                picture[is_hill] = self._seen(colours, share, frame, width)[is_hill]
            yield picture.clip(0, 255).astype(np.uint8)

    def _layer(
        self, rng: np.random.Generator, width: int, nearness: float, horizon: Field, near: Field
    ) -> tuple[Field, Field]:
        """Colours and outline of one row of hills."""
        ridge = 60 * noise(rng, 1, width, 180)[0] + 18 * noise(rng, 1, width, 40)[0]
        outline = HEIGHT * (0.42 + 0.14 * nearness) + ridge
        rough = noise(rng, HEIGHT, width, 24) + 0.6 * noise(rng, HEIGHT, width, 8)
        return horizon * (1 - nearness) * 0.75 + near * (0.3 + 0.7 * nearness) + 14 * rough[..., None], outline

    def _seen(self, field: Field, share: float, frame: int, width: int) -> Field:
        """The part of a field that the camera sees in a frame."""
        gone = round(abs(self.pace) * share * frame)
        start = gone if self.pace > 0 else width - WIDTH - gone
        return field[:, start : start + WIDTH]


def shot(name: str, pace: int = 6, frames: int = SHOT_S * FPS) -> list[Picture]:
    """The frames of a shot."""
    return list(Scene(name, pace).frames(frames))


def dissolve(left: list[Picture], right: list[Picture], frames: int) -> list[Picture]:
    """Two shots, of which the last and first frames are mixed."""
    shares = np.arange(1, frames + 1) / (frames + 1)
    mixed = [
        (here * (1 - share) + there * share).astype(np.uint8)
        for here, there, share in zip(left[-frames:], right[:frames], shares, strict=True)
    ]
    return [*left[:-frames], *mixed, *right[frames:]]


def title(text: str, frames: int) -> list[Picture]:
    """White letters on a blue ground that stay."""
    image = Image.new("RGB", (WIDTH, HEIGHT), (60, 90, 150))
    font = ImageFont.load_default(64)
    ImageDraw.Draw(image).text((WIDTH / 2, HEIGHT / 2), text, (235, 235, 230), font, anchor="mm")
    return [np.asarray(image)] * frames


def reduced(pictures: Iterable[Picture], width: int, height: int) -> list[Picture]:
    """Pictures in another size."""
    return [np.asarray(Image.fromarray(one).resize((width, height), Image.Resampling.BICUBIC)) for one in pictures]


def encoded(ending: str, pictures: list[Picture]) -> bytes:
    """The bytes of a film."""
    encoder, options = CODECS[ending]
    file = io.BytesIO()
    kind = {"mkv": "matroska"}.get(ending, ending)
    with av.open(file, "w", format=kind, options={"fflags": "bitexact"}) as container:
        stream = container.add_stream(encoder, rate=FPS, options={**options, "threads": "1"})
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt, stream.gop_size = "yuv420p", 2 * FPS
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def make() -> dict[str, tuple[bytes, str]]:
    """The content of each file by its name, and what it is."""
    valley = dissolve([*shot("morning"), *shot("noon", -6)], shot("desert"), 8)
    coast = [*shot("coast", 8), *shot("night", -5)]
    whole = encoded("mkv", shot("evening"))
    return {
        "valley.mp4": (encoded("mp4", valley), "three shots: a cut after 4 s, a dissolve before 8 s; H.264"),
        "coast.webm": (encoded("webm", coast), "two shots, with a cut after 4 s; VP9"),
        "valley2.webm": (
            encoded("webm", reduced(valley[6:], 576, 512)),
            "`valley.mp4` without its first half second, narrower, in VP9",
        ),
        "title.mp4": (encoded("mp4", title("THE END", SHOT_S * FPS)), "a title that stays for 4 s"),
        "small.mp4": (encoded("mp4", reduced(shot("evening"), 256, 160)), "a shot of 256 x 160 pixels"),
        "cut-off.mkv": (whole[: len(whole) // 2], "the first half of a file"),
        "missing.mp4": (b"<html><title>404 Not Found</title></html>\n", 'a web page that says "not found"'),
    }


def readme(files: Mapping[str, tuple[bytes, str]]) -> str:
    """The README of the sample."""
    rows = "\n".join(f"| `{name}` | {what} |" for name, (_, what) in files.items())
    return f"""# The sample of films

Seven small files for a first run on films. Made by `benchmarks/make_films.py` (seed {SEED}); do not edit by hand.

## Licence

All pictures were drawn by that script. The films are under the licence of dcurate, Apache-2.0.

## Files

Films have {WIDTH} x {HEIGHT} pixels and {FPS} frames a second where nothing else is said, and no sound.

| file | what |
|---|---|
{rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the bundled sample of films.")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    files = make()
    for name, (content, _) in files.items():
        (options.output / name).write_bytes(content)
    (options.output / "README.md").write_text(readme(files), encoding="utf-8")


if __name__ == "__main__":
    main()
