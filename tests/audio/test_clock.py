"""The sound of a container and its pictures have one clock."""

import io
from fractions import Fraction

import av
import numpy as np
import pytest

from dcurate.audio.containers import open_container

pytestmark = pytest.mark.program


def film_with_sound(container, late_s):
    """Two seconds of pictures, and a second of sound that begins late, in PCM or FLAC."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as sink:
        pictures = sink.add_stream("mpeg4", rate=25)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        sound = sink.add_stream("flac", rate=8000, layout="mono")
        for number in range(50):
            picture = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, 25)
            sink.mux(pictures.encode(picture))
        samples = np.full((1, 8000), 16_000, np.int16)
        piece = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        piece.sample_rate, piece.pts, piece.time_base = 8000, round(late_s * 8000), Fraction(1, 8000)
        sink.mux(sound.encode(piece))
        sink.mux(pictures.encode(None))
        sink.mux(sound.encode(None))
    return io.BytesIO(file.getvalue())


@pytest.mark.parametrize("container", ["matroska", "mp4"])
@pytest.mark.parametrize("late_s", [0.0, 0.5])
def test_sound_that_begins_late_begins_with_silence(container, late_s):
    samples = open_container(film_with_sound(container, late_s)).read(80_000, "float32", always_2d=True)[:, 0]
    late = round(late_s * 8000)
    assert np.flatnonzero(samples)[0] == late
    assert len(samples) == late + 8000
