"""Each pipeline of the gallery runs on its sample, drops what is wrong there, and accounts for each row."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.forked import FORKS, finished

pytestmark = pytest.mark.program

FILES = {path.stem: path for path in sorted((ROOT / "docs" / "gallery").glob("*.py"))}
#: Rows that come out, if they do not depend on the source of dcurate, and reasons for which rows must have been lost.
EXPECTED = {
    "books": (294, {"is_book", "word_count", "punctuation"}),
    "chat": (38, {"turns_alternate", "has_answers", "exact_duplicate"}),
    "films": (5, {"not a film: HTML or XML", "video_width", "no clips", "video_frozen", "near_duplicate_video"}),
    "mathematics": (8, {"formulas", "exact_duplicate"}),
    "multilingual": (229, {"language_score", "long_enough", "exact_duplicate"}),
    "pdfs": (3, {"empty", "not a PDF: HTML", "truncated", "exact_duplicate"}),
    "pictures": (3, {"not a picture: HTML or XML", "exact_duplicate"}),
    "source_code": (None, {"has_free_license", "is_written_by_hand", "alpha_filter", "python_comment_ratio"}),
    "speech": (10, {"not a recording: HTML or XML", "near_duplicate_audio"}),
    "web_crawl": (247, {"damaged record", "gopher_top_2gram", "exact_duplicate", "fuzzy_duplicate"}),
}


def usage(file: Path) -> list[list[str]]:
    """The commands in the docstring of a file, without those that install."""
    about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    commands = [
        shlex.split(line) for line in re.findall(r"^(?:    )?((?:pip|dcurate|python) .+)$", about, re.MULTILINE)
    ]
    return [command for command in commands if command[0] != "pip"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FILES)
def test_a_pipeline_of_the_gallery_runs_on_its_sample(name: str, tmp_path: Path) -> None:
    sample, run = usage(FILES[name])
    assert sample[:2] == ["dcurate", "sample"]
    assert run[:2] == ["python", f"{name}.py"]
    shutil.copy(FILES[name], tmp_path)
    for command in (["dcurate.cli", *sample[1:]], [name, *run[2:]]):
        environment = {**os.environ, **FORKS}
        done = finished([sys.executable, "-m", *command], cwd=tmp_path, env=environment, timeout_s=580)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    stages = json.loads((tmp_path / f"{run[3]}.dcurate" / "report.json").read_text())["stages"]
    lost = [reasons for stage in stages for reasons in (stage["dropped"], stage["faulty"])]
    rows, reasons = EXPECTED[name]
    written = stages[-1]["rows_out"]
    assert written == rows or (rows is None and written > 100), stages
    assert reasons <= {reason for counts in lost for reason in counts}
    if not {"segment_rows", "clip_rows"} & {stage["name"] for stage in stages}:  # these make several rows of one
        assert stages[0]["rows_in"] == written + sum(sum(counts.values()) for counts in lost)


def test_the_page_and_the_expectations_name_every_pipeline() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    linked = re.findall(r"\[(\w+)\.py\]\(gallery/\1\.py\)", page)
    shown = re.findall(r'^--8<-- "docs/gallery/(\w+)\.py"$', page, re.MULTILINE)
    assert sorted(linked) == sorted(shown) == sorted(EXPECTED) == sorted(FILES)
    assert "docs/gallery.md" in (ROOT / "README.md").read_text(encoding="utf-8")
