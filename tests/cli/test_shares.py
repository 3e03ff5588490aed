"""Options of ``dcurate run`` and ``submit`` that say what a run may use of a cluster beside others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_words import RECIPE, here, refused  # noqa: F401 - a fixture

pytestmark = pytest.mark.program

ADDRESS = "tcp://127.0.0.1:9"  # nothing is there


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--max-cpus", "2"], "mode inline uses no workers; leave out --max-cpus"),
        (
            ["--mode", "batch", "--share", "2"],
            "--share is for a cluster with other runs on it; name the cluster with --scheduler",
        ),
        (
            ["--mode", "batch", "--priority", "2"],
            "--priority is for a cluster with other runs on it; name the cluster with --scheduler",
        ),
        (
            ["--mode", "batch", "--max-gpus", "0"],
            "Invalid value for '--max-gpus': 0 is not in the range x>=1.",
        ),
        (
            ["--mode", "batch", "--scheduler", ADDRESS, "--share", "0"],
            "Invalid value for '--share': 0.0 is not in the range x>0.",
        ),
        (
            ["--mode", "batch", "--scheduler", ADDRESS, "--share", "nan"],
            "r.yaml, executor: executor setting share=nan must be a number above zero",
        ),
    ],
)
def test_run_refuses_a_limit_that_has_no_effect_or_makes_no_sense(
    here: Path,  # noqa: F811 - the fixture
    options: list[str],
    sentence: str,
) -> None:
    assert refused(here, "run", "r.yaml", *options) == sentence


def test_submit_refuses_them_before_it_asks_a_scheduler(here: Path) -> None:  # noqa: F811 - the fixture
    (here / "r.yaml").write_text(RECIPE.replace("execution_mode: inline", "share: 2"))
    said = refused(here, "submit", "r.yaml", "--scheduler", ADDRESS, "--share", "-1")
    assert said == "Invalid value for '--share': -1.0 is not in the range x>0."


def test_submit_refuses_a_webhook_that_is_none_before_it_asks_a_scheduler(here: Path) -> None:  # noqa: F811 - as above
    said = refused(here, "submit", "r.yaml", "--scheduler", ADDRESS, "--webhook", "nonsense")
    assert said == "the webhook is not an HTTP address; give one such as https://host/path"
