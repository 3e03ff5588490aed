"""The recipe for films runs from files to files, on the bundled films and on its command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import pytest
from click.testing import CliRunner

from dcurate import InlineExecutor, PipelineError
from dcurate.cli import cli
from dcurate.recipe import SAMPLE_FILMS, load_recipe

pytestmark = pytest.mark.program


def ran(params: dict[str, Any]) -> Any:
    return load_recipe("video-openvid", params).pipeline.run(InlineExecutor(), observers=[])


def lines(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(output.rglob("*.jsonl")) for line in path.read_text().splitlines()]


def film_of(row: dict[str, Any]) -> str:
    """The name of the film of a clip, which is called as its film with its times."""
    return str(row["file_name"]).partition("-")[0]


@pytest.mark.parametrize("cut", ["exact", "remux"])
def test_openvid_writes_clips_of_shots_without_copies(cut: str, tmp_path: Path) -> None:
    result = ran({"input": str(SAMPLE_FILMS), "output": str(tmp_path / "out"), "cut": cut})
    stats = {stage.name: (stage.dropped, stage.faulty) for stage in result.report.stages}
    assert stats["video_info"] == ({}, {"not a film: HTML or XML": 1})
    assert stats["size"] == ({"video_width": 1}, {})
    assert stats["clip_rows"] == ({"no clips": 1}, {})
    assert stats["quality"] == ({"video_frozen": 1}, {})
    assert stats["motion"] == ({}, {})
    assert stats["video_near_duplicates"] == ({"near_duplicate_video": 3}, {})
    rows = lines(tmp_path / "out")
    assert sorted(map(film_of, rows)) == ["coast", "coast", "valley", "valley", "valley"]
    for row in rows:
        file = next((tmp_path / "out").rglob(Path(row["file_name"]).name))
        with av.open(str(file)) as container:
            frames = sum(1 for _ in container.decode(video=0))
        assert row["clip_frames_encoded"] == 0 or cut == "exact"
        assert 2 <= row["clip_stop_s"] - row["clip_start_s"] <= 10
        if cut == "exact":
            assert frames == row["clip_frames"] == row["clip"]["end_frame"] - row["clip"]["start_frame"]
        assert "shots" not in row


def test_openvid_is_set_by_its_params(tmp_path: Path) -> None:
    params = {"input": str(SAMPLE_FILMS), "output": str(tmp_path / "out"), "cut": "remux", "min_duration_s": 1}
    rows = lines(tmp_path / "out") if ran({**params, "min_side": 160, "max_duration_s": 2, "crop_s": 0}) else []
    assert "small" in set(map(film_of, rows))
    assert max(row["clip"]["end_frame"] - row["clip"]["start_frame"] for row in rows) == 24


def test_openvid_refuses_what_it_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="param 'input' has no default"):
        load_recipe("video-openvid")
    with pytest.raises(PipelineError, match="cut='fast' is not one of 'exact', 'remux'"):
        ran({"input": str(SAMPLE_FILMS), "output": str(tmp_path / "out"), "cut": "fast"})
    missing = str(tmp_path / "missing")
    given = ["run", "video-openvid", "--set", f"input={missing}", "--output", str(tmp_path / "out"), "--mode", "inline"]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code != 0
    assert missing in f"{result.output}{result.exception}"
