"""The loops that readers of films are compared with."""

from pathlib import Path

import av
import numpy as np

from benchmarks.film_peers import pyav, pyav_key_frames


def test_all_key_frames_are_counted_where_the_decoder_holds_frames_back(tmp_path: Path) -> None:
    path = str(tmp_path / "film.mp4")
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", 25, options={"bf": "2", "g": "5", "sc_threshold": "0"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(23):
            pixels = np.full((48, 64, 3), 10 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        container.mux(stream.encode(None))
    with av.open(path) as container:
        assert any(frame.pict_type == av.video.frame.PictureType.B for frame in container.decode(video=0))
    with av.open(path) as container:
        key_frames = sum(frame.key_frame for frame in container.decode(video=0))
    assert pyav_key_frames(path) == key_frames == 5
    assert pyav(path) == 23
