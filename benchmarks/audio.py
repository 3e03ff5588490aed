"""Figures of `dcurate.audio`, by part: ``python -m benchmarks.audio --input DIR --json FILE [--only wer]``.

DIR holds ``speech.nemo.jsonl`` and the other files of the set of recordings. A part is a module
``benchmarks.audio_PART`` with ``run(folder)``.
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, save, versions

#: Parts are the modules beside this one.
PARTS = sorted(path.stem.removeprefix("audio_") for path in Path(__file__).parent.glob("audio_*.py"))
#: Libraries whose versions are noted.
LIBRARIES = (
    *("datasets", "jiwer", "lhotse", "librosa", "numba", "numpy", "onnxruntime", "pocketsphinx", "pyarrow"),
    *("pyloudnorm", "rapidfuzz", "resemblyzer"),
    *("scipy", "silero-vad", "soundfile", "soxr", "speechmos", "torch", "webdataset"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="the folder with the data")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    given = parser.parse_args()
    wanted = given.only.split(",")
    unknown = set(wanted) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("dcurate", *LIBRARIES),
        "seconds": {},
    }
    for part in wanted:
        begin = time.perf_counter()
        figures[part] = importlib.import_module(f"benchmarks.audio_{part}").run(given.input)
        figures["seconds"][part] = round(time.perf_counter() - begin, 1)
        save(given.json, figures)
    for part in wanted:
        print(f"{part}: " + ", ".join(f"{name} {value}" for name, value in figures[part].items()))


if __name__ == "__main__":
    main()
