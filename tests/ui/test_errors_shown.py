"""What a notebook shows of errors and interrupts, and a script of a run that takes long."""

import io
import time
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient

from dcurate import DcurateError, Filter, InlineExecutor, Pipeline, PipelineError, RunError
from dcurate.errors import RunInterrupted
from dcurate.events import RunEnded, RunStarted, SourceListed
from dcurate.ui.progress import IntervalLines


def rendered(error: Any) -> list[str]:
    """What IPython shows of an error."""
    lines: list[str] = error._render_traceback_()
    return lines


def test_an_error_is_its_message_and_the_code_of_a_person_without_the_frames_of_the_engine() -> None:
    def broken(text: str) -> bool:
        return text.missing  # type: ignore[attr-defined]

    rows = pd.DataFrame({"text": ["a"]})
    with pytest.raises(DcurateError) as failed:
        Pipeline("x", stages=[Filter(broken, "text")]).run(InlineExecutor(), rows, observers=[])
    lines = rendered(failed.value)
    assert len(lines) == 2
    assert "return text.missing" in lines[0]
    assert "/dcurate/" not in lines[0]
    assert lines[1].startswith("StageError: stage 'filter_fn' failed")
    assert rendered(PipelineError("wrong; do this")) == ["PipelineError: wrong; do this"]


def test_secrets_are_not_shown_in_frames() -> None:
    try:
        raise ValueError("s3://key:sesame@bucket/a")
    except ValueError as cause:
        error = RunError("at s3://key:sesame@bucket/a")
        error.__cause__ = cause
    assert "sesame@" not in "".join(rendered(error)).replace('raise ValueError("s3://key:sesame@bucket/a")', "")


@pytest.mark.program
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_interrupted_cell_says_how_to_go_on(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook()
    cell = (
        "import os, signal, time\nimport pandas as pd\nfrom dcurate import *\n"
        "def stop(text):\n    if text == 'a':\n        os.kill(os.getpid(), signal.SIGINT)\n        time.sleep(30)\n"
        f"stages = [Filter(stop, 'text'), JsonlWriter({str(tmp_path / 'out')!r})]\n"
        "Pipeline('x', stages=stages).run(InlineExecutor(), pd.DataFrame({'text': ['a']}))"
    )
    book.cells = [nbformat.v4.new_code_cell(cell)]
    NotebookClient(book, timeout=100, allow_errors=True).execute()
    (shown,) = [output for output in book.cells[0].outputs if output.output_type == "error"]
    assert shown.traceback == [
        f"KeyboardInterrupt: interrupted; what is finished is kept in '{tmp_path / 'out'}': "
        "go on with run(..., resume=True)"
    ]


def test_an_interrupt_stays_one() -> None:
    assert issubclass(RunInterrupted, KeyboardInterrupt)


def test_a_script_gets_a_line_at_each_interval_and_nothing_of_a_short_run() -> None:
    for age, expected in ((0.0, False), (20.0, True)):
        file = io.StringIO()
        lines = IntervalLines(file)
        now = time.time() - age
        lines.on_event(RunStarted(now, "7f3a", "demo", "inline", (("read",),)))
        lines.on_event(SourceListed(now, 2, 0))
        lines.on_event(RunEnded(time.time(), ""))
        assert ("demo: read done | " in file.getvalue()) is expected


def test_a_run_without_observers_is_followed_outside_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.DataFrame({"text": ["a"] * 4})
    slow = Filter(lambda text: time.sleep(0.3) is None, "text")
    Pipeline("slow", stages=[slow]).run(InlineExecutor({"logging_interval": 0.5}), rows)
    Pipeline("quiet", stages=[slow]).run(InlineExecutor({"logging_interval": 0.5}), rows, observers=[])
    shown = capsys.readouterr().err
    assert "slow: " in shown
    assert "text done" in shown
    assert "quiet" not in shown
