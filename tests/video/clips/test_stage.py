"""`CutVideo`: rows in, rows out or in quarantine."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from dcurate import BatchKey, DocumentBatch, PipelineError
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage
from dcurate.video.clips import encoders
from dcurate.video.clips.stage import CutVideo
from tests.video.clips.made import Made, av, cut_file, frames, video

FILM = video(Made(options={"g": "20"}, sound="aac"))


def rows(*refs: Ref, data: bytes = FILM) -> DocumentBatch:
    files = pa.array([data] * len(refs), pa.large_binary())
    return DocumentBatch(data=pa.table({"bytes": files, "media_ref": ref_array(refs), "text": ["said"] * len(refs)}))


def cut(batch: DocumentBatch, **settings: Any) -> DocumentBatch:
    stage = CutVideo(**settings)
    made = stage.process(batch)
    stage.teardown()
    return made


def test_rows_become_clips_and_keep_what_they_had():
    refs = [Ref("a/film.mp4", start_s=0.5, stop_s=1.73), Ref("a/film.mp4", start_s=0.8), Ref("film.mkv")]
    made = cut(rows(*refs)).to_arrow()
    assert made["file_name"].to_pylist() == ["film-0.5-1.73.mp4", "film-0.8-.mp4", "film.mp4"]
    assert made["clip_how"].to_pylist() == ["stitched", "remux", "remux"]
    assert made["clip_frames"].to_pylist() == [31, 40, 60]
    assert made["clip_frames_encoded"].to_pylist() == [7, 0, 0]
    assert made["text"].to_pylist() == ["said"] * 3
    assert [ref["start_s"] for ref in made["source_ref"].to_pylist()] == [0.5, 0.8, None]
    assert "media_ref" not in made.column_names
    for row, ref in zip(made.to_pylist(), refs, strict=True):
        assert row["bytes"] == b"".join(cut_file(FILM, ref.start_s or 0, ref.stop_s).pieces)
        assert len(frames(row["bytes"])) == row["clip_frames"]


def test_clips_that_cannot_be_cut_go_to_quarantine_and_no_other():
    whole = rows(Ref("film.mp4", start_s=7.0, stop_s=8.0), Ref("film.mp4", start_s=1.0, stop_s=1.5))
    page = rows(Ref("page.mp4", start_s=0.0, stop_s=1.0), data=b"<html></html>" * 20)
    cut_off = rows(Ref("cut.mp4", start_s=0.0, stop_s=1.0), data=FILM[: len(FILM) // 2])
    tables = [batch.to_arrow() for batch in (whole, page, cut_off)]
    made = cut(DocumentBatch(data=pa.concat_tables(tables), key=BatchKey("rows")))
    assert made.to_arrow()["file_name"].to_pylist() == ["film-1-1.5.mp4"]
    assert [rejection.reason for rejection in made.rejections] == [
        "bad segment",
        "not a film: HTML or XML",
        "damaged",
    ]


def test_a_clip_that_is_too_large_goes_to_quarantine():
    made = cut(rows(Ref("film.mp4", start_s=0.5, stop_s=2.0)), max_clip_bytes="2KiB")
    assert [rejection.reason for rejection in made.rejections] == ["too large"]


def test_the_order_and_the_company_of_rows_change_no_clip():
    refs = [Ref("film.mp4", start_s=start, stop_s=start + 0.5) for start in (1.1, 0.1, 0.6, 1.1)]
    together = cut(rows(*refs)).to_arrow()["bytes"].to_pylist()
    alone = [cut(rows(ref)).to_arrow()["bytes"][0].as_py() for ref in refs]
    assert together == alone
    assert together[0] == together[3]


def test_settings_are_refused_in_one_sentence(monkeypatch):
    with pytest.raises(PipelineError, match="cut='fast' is not one of"):
        CutVideo(cut="fast")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="fallback_codec='mp3' is not one of"):
        CutVideo(fallback_codec="mp3")  # type: ignore[arg-type]
    have = encoders.encoders_of
    monkeypatch.setattr(encoders, "encoders_of", lambda codec: [] if codec == "h264" else have(codec))
    with pytest.raises(PipelineError, match=r"cut_video: the FFmpeg .* has no encoder of h264"):
        CutVideo(fallback_codec="h264").check_columns(["bytes"])
    CutVideo(fallback_codec="h264", cut="remux").check_columns(["bytes"])


def test_it_is_a_stage():
    check_stage(CutVideo(), rows(Ref("film.mp4", start_s=0.5, stop_s=1.0), Ref("film.mp4", start_s=9.0, stop_s=9.5)))


def test_sound_of_a_clip_is_copied():
    [row] = cut(rows(Ref("film.mp4", start_s=0.5, stop_s=1.5))).to_arrow().to_pylist()
    with av.open(io.BytesIO(row["bytes"])) as clip, av.open(io.BytesIO(FILM)) as film:
        part, whole = ([bytes(packet) for packet in file.demux(audio=0) if packet.size] for file in (clip, film))
    at = whole.index(part[0])
    assert whole[at : at + len(part)] == part
    assert 45 < len(part) < 55
