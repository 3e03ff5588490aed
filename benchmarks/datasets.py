"""What shuffling, sampling, blending, rebatching, splitting and profiling a dataset cost beyond reading and writing it.

``python -m benchmarks.datasets --input DIR [--only NAME ...] [--sizes 1,4] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.filters import compare_sizes, multiplied, plain_copies, show_sizes
from benchmarks.measure import called, job, machine, save, scratch_folder, versions, whole_sizes_given
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, profile
from dcurate.core.pipeline import AnyStage
from dcurate.datasets import Blend, Rebatch, SampleFraction, SampleRows, Shuffle
from dcurate.text import AddId, DocumentJoiner, DocumentSplitter

#: Stages between reader and writer, by what they do.
STAGES: dict[str, Callable[[], list[Any]]] = {
    "copy": lambda: [],
    "shuffle": lambda: [Shuffle()],
    "sample_rows": lambda: [SampleRows(1000)],
    "sample_fraction": lambda: [SampleFraction(0.1)],
    "rebatch": lambda: [Rebatch(rows=10_000)],
    "split_join": lambda: [AddId("_id"), DocumentSplitter("\n"), DocumentJoiner("\n", document_id_field="_id")],
}
NAMES = (*STAGES, "separate", "blend", "profile")
#: Blends have as many rows as this for each MB that is read: about as many as there are.
ROWS_A_MB = 110


def work(name: str, source: str, output: str) -> dict[str, Any]:
    """Do it in this process; how many documents came out."""
    if name == "profile":
        return {"documents": profile(source, executor=InlineExecutor()).kept}
    files = sorted(map(str, Path(source).iterdir()))
    mb = sum(Path(file).stat().st_size for file in files) / 1e6
    if name == "blend":
        halves: Any = [JsonlReader(files[::2]), JsonlReader(files[1::2])]
        stages: list[AnyStage] = [Blend(round(mb * ROWS_A_MB), halves, [0.7, 0.3]), JsonlWriter(output)]
    elif name == "separate":
        stages = [JsonlReader(source), JsonlWriter(output, separate_by="source")]
    else:
        stages = [JsonlReader(source), *STAGES[name](), JsonlWriter(output)]
    return {"documents": Pipeline(name, stages=stages).run(InlineExecutor()).report.stages[-1].rows_out}


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Measure each of the names on each of the sizes."""
    files = plain_copies(options.input, scratch / "plain")
    times = [int(number) for number in options.sizes.split(",")]
    sizes = [multiplied(files, number, scratch / f"{number}x") for number in times]
    about = {"machine": machine(), "versions": versions("dcurate", "pyarrow", "numpy", "orjson")}
    figures = {}
    for name in options.only or NAMES:

        def command(folder: Path, output: Path, name: str = name) -> Sequence[str]:
            return job("benchmarks.datasets:work", name=name, source=str(folder), output=str(output))

        figures[name] = compare_sizes(command, sizes, options.repeat, scratch)
    return {"figures": figures, "mb": [size.mb for size in sizes], "repeat": options.repeat, **about}


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    show_sizes(figures, "; profile writes nothing, and scores 28 filters")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.datasets", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", required=True, metavar="DIR", help="JSONL with columns text and source")
    parser.add_argument("--only", nargs="*", choices=NAMES, help="only these")
    parser.add_argument(
        "--sizes",
        type=whole_sizes_given,
        default="1,4",
        metavar="N,M",
        help="how often the data are read, small and large",
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each size, of which the median counts")
    parser.add_argument("--scratch", metavar="DIR", help="where copies and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("datasets", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
