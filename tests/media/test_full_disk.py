"""A full disk under writers of media: one sentence, no part of a file, and the rest once there is room."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from dcurate import BatchKey, DataError, DocumentBatch, WebDatasetWriter
from dcurate.audio import AudioFolderWriter, LhotseSharWriter, NemoTarWriter
from dcurate.media import Ref, ref_array
from dcurate.video import NemoClipWriter, VideoFolderWriter


def recording(number: int) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(number).integers(-(2**15), 2**15, 200_000).astype(np.int16)
    soundfile.write(file, noise, 16_000, format="WAV")
    return file.getvalue()


def outputs(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "writer",
    [AudioFolderWriter, LhotseSharWriter, NemoTarWriter, NemoClipWriter, VideoFolderWriter, WebDatasetWriter],
)
def test_a_full_disk_leaves_whole_files_only_and_the_same_output_once_there_is_room(
    small_disk: Path, writer: Any
) -> None:
    count = 5
    rows = {
        "bytes": [recording(number) for number in range(count)],
        "file_name": [f"{number}.wav" for number in range(count)],
        "source_ref": ref_array([Ref(f"/media/{number}.wav", start_s=1.0, stop_s=13.5) for number in range(count)]),
        "text": ["words"] * count,
        "audio_duration_s": [12.5] * count,
        "audio_sample_rate": [16_000] * count,
        "video_fps": [25.0] * count,
    }
    task = DocumentBatch(data=pa.table(rows), key=BatchKey("rows"))
    stage = writer(str(small_disk / "out"))
    with pytest.raises(DataError, match=r"no space left on device while writing '.*'; free some and run again"):
        stage.process(task)
    left = outputs(small_disk)
    subprocess.run(["mount", "-o", "remount,size=9m", small_disk], check=True)
    made = stage.process(task)
    assert not made.rejections
    whole = outputs(small_disk)
    assert len([name for name, data in whole.items() if "RIFF" in name or b"RIFF" in data]) in (1, count)
    assert left.items() <= whole.items()
