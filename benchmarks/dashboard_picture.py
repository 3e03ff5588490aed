"""Pictures of the dashboard for the documentation: a real run on this machine, in a real browser.

    python -m benchmarks.dashboard_picture --output docs/assets

Stages that stand for slow ones sleep, some of them on GPUs that are not there. Needs Chromium, and Pillow to make
the pictures small. It takes about two minutes.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from PIL import Image

from dcurate import DaskExecutor, DcurateError, JsonlReader, JsonlWriter, LocalCluster, Pipeline, Resources, ScoreFilter
from dcurate.text import (
    NonAlphaNumericFilter,
    RepeatedLinesFilter,
    RepeatingTopNGramsFilter,
    WhiteSpaceFilter,
    WordCountFilter,
)
from dcurate_testing.browser import Browser, chromium
from dcurate_testing.stages import Sleep

#: Seconds after which the first picture is taken, and others a few later.
WHEN_S = 60.0
#: The sample is read so many times.
COPIES = 160
#: Colours of the pictures.
COLOURS = 128


def pipeline(source: Path, output: Path, name: str) -> Pipeline:
    """Stages of all sorts: what reads and filters, what waits for others, and what needs a GPU."""
    filters = [WordCountFilter(50), NonAlphaNumericFilter(), WhiteSpaceFilter(), RepeatedLinesFilter()]
    return Pipeline(
        name,
        stages=[
            JsonlReader(str(source), files_per_partition=1, on_bad_line="quarantine"),
            *(ScoreFilter(one) for one in filters),
            ScoreFilter(RepeatingTopNGramsFilter(n=2)),
            Sleep(0.5).with_(name="classify_quality", resources=Resources(cpus=0.1, gpus=0.2)),
            Sleep(0.1).with_(name="embed", resources=Resources(cpus=0.1, gpus=0.2)),
            Sleep(0.05).with_(name="look_up", resources=Resources(cpus=0.1)),
            JsonlWriter(str(output)),
        ],
    )


def until_it_is_cut(run: Pipeline, executor: DaskExecutor) -> None:
    """Go on with a run until the cluster is closed below it."""
    with suppress(DcurateError):
        run.run(executor)


def take(browser: Browser, path: Path, whole: bool = False) -> None:
    """A picture, as small as it can be without being seen to be."""
    browser.picture(path, whole)
    with Image.open(io.BytesIO(path.read_bytes())) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs/assets"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, LocalCluster(3, simulate_gpus=1, dashboard=True) as cluster:
        source = Path(scratch, "input")
        source.mkdir()
        for copy in range(COPIES):
            for part in sorted(Path(str(files("dcurate.bundled") / "sample")).glob("part-*.jsonl")):
                shutil.copy(part, source / f"{copy:03}-{part.name}")
        executor = DaskExecutor(cluster=cluster, config={"autoscale_interval_s": 10.0})
        small = Path(scratch, "small")
        small.mkdir()
        shutil.copy(source / "000-part-00.jsonl", small)
        Pipeline("copy", stages=[JsonlReader(str(small)), JsonlWriter(f"{scratch}/one")]).run(executor)
        link = cluster.client.dashboard_link.removesuffix("/status")
        run = pipeline(source, Path(scratch, "two"), "web-2026-30")
        thread = threading.Thread(target=until_it_is_cut, args=(run, executor), daemon=True)
        with chromium() as browser:
            browser.open(f"{link}/curation", 1440, 900)
            thread.start()
            time.sleep(WHEN_S)
            take(browser, options.output / "dashboard.png")
            take(browser, options.output / "dashboard-whole.png", whole=True)
            browser.open(f"{link}/individual-curation-pipeline", 760, 420)
            time.sleep(3)
            take(browser, options.output / "dashboard-pipeline.png")


if __name__ == "__main__":
    main()
