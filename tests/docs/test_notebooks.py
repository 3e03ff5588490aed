from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT
from tests.forked import FORKS

pytestmark = pytest.mark.program


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
@pytest.mark.filterwarnings("default")
def test_every_notebook_runs_from_top_to_bottom(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = nbformat.read(notebook, as_version=4)
    for name, value in FORKS.items():
        monkeypatch.setenv(name, value)
    NotebookClient(document, timeout=280, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.get("execution_count") for cell in document.cells if cell.cell_type == "code")
