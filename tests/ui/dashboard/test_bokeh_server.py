from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

WITHOUT_BOKEH = """
import sys
sys.modules["bokeh"] = None
from dcurate import DaskExecutor, LocalCluster, Pipeline
from dcurate.ui.dashboard import serve
from dcurate.ui.scheduler_store import store_of
from tests.stages import Numbers

if __name__ == "__main__":
    with LocalCluster(n_workers=1, gpus=False, dashboard=True) as cluster:
        done = Pipeline("numbers", stages=[Numbers()]).run(DaskExecutor(cluster=cluster))
        scheduler = cluster.client.cluster.scheduler
        print(done.report.stages[0].rows_out, serve(scheduler, store_of(scheduler)))
"""


def test_without_bokeh_there_is_no_page_and_the_run_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "without_bokeh.py"
    script.write_text(WITHOUT_BOKEH)
    told: Any = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "timeout": 120}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, **told)
    assert done.stdout == "20 False\n", done.stderr


def test_bokeh_is_not_loaded_before_the_dashboard_is_served() -> None:
    code = "import sys, dcurate.ui.dashboard; print('bokeh' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
