"""Executes every notebook and keeps what it shows: ``make notebooks``."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Run a notebook from top to bottom in a folder of its own, and write it with its output."""
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}}).execute()
        text = nbformat.writes(book).replace(folder, ".").replace(str(Path(__file__).parents[1]), ".")
    book = nbformat.reads(text, as_version=4)
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(book, path)


if __name__ == "__main__":
    folder = Path(__file__).parent
    for one in [folder / name for name in sys.argv[1:]] or sorted(folder.glob("*.ipynb")):
        print(one.name)
        execute(one)
