"""On the GPU machine: takes in folders that `stage` wrote, and installs each list whose wheels are all there.

    python -m benchmarks.device.receive FOLDER ... [--store DIR] [--site DIR]
    export PYTHONPATH=SITE

Standard library only. Ends with 0 when every list is installed, with 3 when more folders must come.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STORE, SITE = (Path(tempfile.gettempdir(), name) for name in ("dcurate-wheels", "dcurate-site"))


def joined(wheel: dict[str, Any], parts: Path, folder: Path) -> Path:
    """Make a wheel of its pieces, and check its hash."""
    out = folder / str(wheel["wheel"])
    out.write_bytes(b"".join((parts / name).read_bytes() for name in wheel["parts"]))
    if hashlib.sha256(out.read_bytes()).hexdigest() != wheel["sha256"]:
        raise SystemExit(f"{out.name} is not what was sent: its hash differs; carry its folders again")
    return out


def install(wheels: list[Path], site: Path) -> None:
    """Install wheels into a folder, without what they need."""
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site)]
    subprocess.run([*command, *map(str, wheels)], check=True)


def receive(folders: list[Path], store: Path, site: Path) -> list[str]:
    """Take in folders and install what is whole; the lists that wait for more."""
    parts, done = store / "parts", store / "done"
    for place in (parts, done):
        place.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        shutil.copytree(folder, parts, dirs_exist_ok=True)
    plan = json.loads((parts / "plan.json").read_text())
    waiting = []
    for group in dict.fromkeys(wheel["group"] for wheel in plan):
        wheels = [wheel for wheel in plan if wheel["group"] == group]
        missing = sum(not (parts / name).exists() for wheel in wheels for name in wheel["parts"])
        if missing:
            waiting.append(f"{group} ({missing} pieces)")
        elif not (done / group).exists():
            install([joined(wheel, parts, store) for wheel in wheels], site)
            (done / group).touch()
            print(f"installed {group}: {len(wheels)} wheels")
    return waiting


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--site", type=Path, default=SITE)
    options = parser.parse_args()
    waiting = receive(options.folders, options.store, options.site)
    print(f"waiting for {', '.join(waiting)}" if waiting else f"all there: export PYTHONPATH={options.site}")
    return 3 if waiting else 0


if __name__ == "__main__":
    sys.exit(main())
