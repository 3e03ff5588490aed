"""Wheels for a GPU machine without a package index: downloaded, and cut into folders of a size that can be carried.

    python -m benchmarks.device.stage [--slim] [--limit MB] [LIST ...]      here; the lists are base.txt and cudf.txt
    python -m benchmarks.device.receive .stage1 [.stage2 ...]               there, for each folder as it comes

Writes ``.stage1``, ``.stage2``, ... in the root of the repository; wheels are kept in ``.whl``. Git ignores both. A
wheel that does not fit into what is left of a folder is cut; `receive` joins the pieces and checks their hashes.
``nvvm.txt`` is a third list, for an image in which numba-cuda finds no NVVM: of the CUDA of its driver, as newer PTX is
refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.device.slim import slim

ROOT = Path(__file__).resolve().parents[2]
LISTS = [Path(__file__).with_name(name) for name in ("base.txt", "cudf.txt")]
#: Wheels that hold little but machine code for many architectures.
_LARGE = ("libcudf", "libkvikio", "librmm", "nvidia_libnvcomp")
#: Tags that a glibc of 2.39 takes; pip wants them one by one.
_PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1)),
    *(f"manylinux{year}_x86_64" for year in (2014, 2010, 1)),
]
_PIECE = 2**20
#: What can be carried at a time, with the checkout; the least that is worth the way; and the plan in each folder.
_CARRIED, _LEAST, _PLAN = 62 * 2**20, 10**7, 2**16


def pins(lists: Iterable[Path]) -> dict[str, str]:
    """Requirements, and the list that each stands in."""
    lines = [(line.strip(), path.stem) for path in lists for line in path.read_text().splitlines()]
    return {line: name for line, name in lines if line and not line.startswith("#")}


def download(wanted: Iterable[str], folder: Path, python: str) -> None:
    """Fetch wheels for the Python of the GPU machine, without what they need: the lists name it."""
    options = ["--no-deps", "--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, *platforms, "--dest", str(folder)]
    subprocess.run([*command, *wanted], check=True)


def found(wanted: dict[str, str], folder: Path) -> list[tuple[str, Path]]:
    """The list and the wheel of each requirement, the smaller ones of a list first."""
    keys = {tuple(pin.lower().replace("-", "_").split("==")): name for pin, name in wanted.items()}
    named = [(keys.pop(key), path) for path in folder.glob("*.whl") if (key := _key(path)) in keys]
    if keys:
        raise SystemExit(f"no wheel in {folder} for {', '.join('=='.join(key) for key in keys)}")
    order = list(dict.fromkeys(wanted.values()))
    return sorted(named, key=lambda pair: (order.index(pair[0]), pair[1].stat().st_size))


def what_fits(root: Path) -> int:
    """Bytes of a folder that is carried together with the files of a checkout which Git does not ignore.

    Raises:
        SystemExit: they leave too little.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode().split("\0")
    size = sum(path.stat().st_size for name in set(names) if name and (path := root / name).is_file())
    if _CARRIED - size < _LEAST:
        raise SystemExit(
            f"the checkout has {size / 1e6:.1f} MB, and {_CARRIED / 1e6:.1f} can be carried: make it smaller"
        )
    return _CARRIED - size - _PLAN


def _key(wheel: Path) -> tuple[str, ...]:
    return tuple(wheel.name.lower().split("-")[:2])


def cut(wheels: Iterable[tuple[str, Path]], limit: int) -> Iterator[tuple[int, str, bytes, dict[str, Any]]]:
    """Pieces of wheels: the number of the folder, the name and the bytes of each, and what is known of its wheel."""
    folder, left = 1, limit
    for group, path in wheels:
        data = path.read_bytes()
        wheel: dict[str, Any] = {"wheel": path.name, "group": group, "sha256": hashlib.sha256(data).hexdigest()}
        wheel["parts"] = []
        at = 0
        while at < len(data):
            if left < _PIECE and left < len(data) - at:
                folder, left = folder + 1, limit
            piece = data[at : at + left]
            name = f"{path.name}.{len(wheel['parts']):02d}"
            wheel["parts"].append(name)
            yield folder, name, piece, wheel
            at, left = at + len(piece), left - len(piece)


def write(wheels: Iterable[tuple[str, Path]], limit: int, root: Path) -> list[Path]:
    """Write the pieces, and into each folder the plan of all; the folders."""
    for old in root.glob(".stage[0-9]*"):
        shutil.rmtree(old)
    plan: dict[str, dict[str, Any]] = {}
    folders: list[Path] = []
    for number, name, piece, wheel in cut(wheels, limit):
        plan[wheel["wheel"]] = wheel
        folder = root / f".stage{number}"
        if folder not in folders:
            folder.mkdir()
            folders.append(folder)
        (folder / name).write_bytes(piece)
    for folder in folders:
        (folder / "plan.json").write_text(json.dumps(list(plan.values()), indent=1))
    return folders


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="*", type=Path, default=LISTS)
    parser.add_argument("--limit", type=float, help="MB of a folder; what the checkout leaves of 62 MiB if not given")
    parser.add_argument("--slim", action="store_true", help="leave out machine code of other architectures")
    parser.add_argument("--arch", type=int, default=90, help="compute capability times ten, for --slim")
    parser.add_argument("--python", default="3.12", help="Python of the GPU machine")
    options = parser.parse_args()
    limit = int(options.limit * 1e6) if options.limit else what_fits(ROOT)
    wanted, store = pins(options.lists), ROOT / ".whl"
    download(wanted, store, options.python)
    wheels = found(wanted, store)
    if options.slim:
        wheels = [
            (name, slim(path, store / "slim", options.arch) if path.name.startswith(_LARGE) else path)
            for name, path in wheels
        ]
    folders = write(wheels, limit, ROOT)
    size = sum(path.stat().st_size for _, path in wheels) / 1e6
    print(f"{len(wheels)} wheels, {size:.1f} MB in {len(folders)} folders; carry each in turn, and run there:")
    for folder in folders:
        print(f"  python -m benchmarks.device.receive {folder.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
