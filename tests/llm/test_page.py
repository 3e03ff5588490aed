"""What docs/howto/llm.md shows runs as it stands, with a server in the place of the endpoint that it names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dcurate_testing.llm_server import Endpoint
from tests.conftest import ROOT

pytestmark = pytest.mark.program

PAGE = ROOT / "docs" / "howto" / "llm.md"


def program(url: str) -> str:
    """All blocks of the page but the one that needs a tokenizer."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return "\n".join(block for block in blocks if "tokenizer=" not in block).replace("http://localhost:8000/v1", url)


def test_the_page_runs_against_an_endpoint(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    rows = "".join(json.dumps({"text": f"A text of {number}."}) + "\n" for number in range(8))
    (tmp_path / "input" / "a.jsonl").write_text(rows)
    code = f"if __name__ == '__main__':\n{re.sub('^', '    ', program(endpoint.url), flags=re.MULTILINE)}"
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'requests': 8.0" in done.stdout
    written = [
        json.loads(line)
        for file in (tmp_path / "output/scored").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted(row["score"] in range(1, 6) for row in written) == [True] * 8
