"""What the removal of repeated lines, paragraphs, sentences and substrings costs beyond reading and writing.

``python -m benchmarks.spans --input DIR [--only NAME ...] [--sizes 1,4] [--exact-mb 4] [--peer] [--json FILE]``. See
README.md here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.exact_substrings import repeated
from benchmarks.filters import Data, compare_sizes, plain_copies, sample, show_sizes
from benchmarks.measure import (
    ROOT,
    called,
    job,
    machine,
    measure,
    save,
    scratch_folder,
    table,
    versions,
    whole_sizes_given,
)
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, SpanDuplicates, SubstringDuplicates
from dcurate.dedup.span_shuffle import SpanShuffle
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels.stretches import stretches_of

#: Stages between reader and writer, by what they do.
STAGES: dict[str, Callable[[], list[Any]]] = {
    "copy": lambda: [],
    "lines": lambda: [SpanDuplicates(unit="line")],
    "lines_ccnet": lambda: [SpanDuplicates(unit="line", normalize=["case", "digits", "punctuation"])],
    "paragraphs": lambda: [SpanDuplicates(unit="paragraph")],
    "sentences_c4": lambda: [SpanDuplicates(unit="sentence", span=3)],
    "substrings": lambda: [SubstringDuplicates()],
}
#: How substrings are looked for, beside the exact answer.
VARIANTS: dict[str, Callable[[], SubstringDuplicates]] = {
    "default": lambda: SubstringDuplicates(whole="characters"),
    "whole words": SubstringDuplicates,
    "window 25": lambda: SubstringDuplicates(window=25, whole="characters"),
    "window 12": lambda: SubstringDuplicates(window=12, whole="characters"),
}
PEER = ".venv-datatrove"


def work(name: str, source: str, output: str) -> dict[str, Any]:
    """Do it in this process; how many documents came out, and what was found."""
    stages = [JsonlReader(source), *STAGES[name](), JsonlWriter(output)]
    report = Pipeline(name, stages=stages).run(InlineExecutor()).report
    return {"documents": report.stages[-1].rows_out, "found": report.stages[1].found}


def first_files(files: Sequence[Path], count: int, folder: Path) -> Data:
    """So many of the files, each once, so that more data are other data."""
    folder.mkdir()
    for path in files[:count]:
        os.link(path, folder / path.name)
    return Data(folder, 1)


def compare_exact(files: Sequence[Path], mb: float, scratch: Path) -> dict[str, Any]:
    """How much of what a suffix array finds is cut, and how much of what is cut it finds, by bytes."""
    chosen = sample(files, scratch / "sample", mb, 1)
    lines = chosen[0].read_bytes().splitlines()
    column = column_of(orjson.loads(line)["text"].encode() for line in lines)
    stages = {name: make() for name, make in VARIANTS.items()}
    least = SubstringDuplicates().min_bytes
    pieces = {name: least - 2 * _window(stage) + 2 for name, stage in stages.items()}
    lengths = sorted({least, *pieces.values()})
    masks = dict(zip(lengths, repeated(column, lengths), strict=True))
    figures = {}
    for name, stage in stages.items():
        cut = _cut(stage, column)
        figures[name] = {
            "found": _share(masks[least], cut),
            "stood_before": _share(cut, masks[pieces[name]]),
            "in_repeats_of_min_bytes": _share(cut, masks[least]),
            "cut_share": float(cut.mean()),
        }
    return {"mb": len(column.data) / 1e6, "repeated_share": float(masks[least].mean()), "variants": figures}


def _window(stage: SubstringDuplicates) -> int:
    return stage.min_bytes // 4 if stage.window is None else stage.window


def _cut(stage: SpanShuffle, column: TextColumn) -> npt.NDArray[np.bool_]:
    """The bytes that go where all texts are one batch."""
    finder = stage.finder()
    spans = finder.spans(column)
    _, firsts, which = np.unique(spans.keys, return_index=True, return_inverse=True)
    gone = firsts[which] != np.arange(len(spans.keys))
    cut = stretches_of(*column, spans, gone, finder.fit)
    edges = np.zeros(len(column.data) + 1, np.int64)
    edges[cut.starts] += 1
    edges[cut.stops] -= 1
    return np.asarray(np.cumsum(edges[:-1]) > 0)


def _share(of: npt.NDArray[np.bool_], within: npt.NDArray[np.bool_]) -> float | None:
    return float((of & within).sum() / of.sum()) if of.any() else None


def run_peer(files: Sequence[Path], mb: float, scratch: Path) -> dict[str, Any] | None:
    """datatrove's sentence deduplication on a sample, and ours of the same span on the same; None without it."""
    python = ROOT / PEER / "bin" / "python"
    if not python.exists():
        return None
    source = sample(files, scratch / "peer", mb, 1)[0].parent
    size = sum(path.stat().st_size for path in source.iterdir()) / 1e6
    script = ROOT / "benchmarks" / "peers" / "run_sentences.py"
    theirs = measure([python, script, source, scratch / "peer-output"])
    own = job("benchmarks.spans:work", name="sentences_c4", source=str(source), output=str(scratch / "own-output"))
    measure(own)
    ours = measure([*own[:-1], own[-1].replace("own-output", "own-output-2")])
    return {
        "mb": size,
        "datatrove_cpu_s": theirs.cpu_s,
        "dcurate_cpu_s": ours.cpu_s,
        "datatrove_mb_per_cpu_s": size / theirs.cpu_s,
        "dcurate_mb_per_cpu_s": size / ours.cpu_s,
    }


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Measure each of the names on each of the sizes."""
    files = plain_copies(options.input, scratch / "plain")
    counts = [min(int(number), len(files)) for number in options.sizes.split(",")]
    sizes = [first_files(files, count, scratch / f"{place}-{count}") for place, count in enumerate(counts)]
    about = {"machine": machine(), "versions": versions("dcurate", "pyarrow", "numpy", "numba")}
    figures = {}
    for name in options.only or STAGES:

        def command(folder: Path, output: Path, name: str = name) -> Sequence[str]:
            return job("benchmarks.spans:work", name=name, source=str(folder), output=str(output))

        measure(command(sizes[0].folder, scratch / f"warm-{name}"))
        figures[name] = compare_sizes(command, sizes, options.repeat, scratch)
    exact = compare_exact(files, options.exact_mb, scratch) if options.exact_mb else None
    peer = run_peer(files, options.peer_mb, scratch) if options.peer else None
    return {
        "figures": figures,
        "mb": [size.mb for size in sizes],
        "repeat": options.repeat,
        "exact": exact,
        "peer": peer,
        **about,
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    show_sizes(figures, "")
    if figures["exact"] is not None:
        exact = figures["exact"]
        share = 100 * exact["repeated_share"]
        print(f"\nsubstrings beside a suffix array: {exact['mb']:.1f} MB of text, {share:.1f} % of it repeated\n")
        names = ("found", "stood_before", "in_repeats_of_min_bytes", "cut_share")
        lines = [
            [name, *(None if each[what] is None else 100 * each[what] for what in names)]
            for name, each in exact["variants"].items()
        ]
        print(
            table(
                ["variant", "% found", "% of cut stood before", "% of cut in repeats of 200+", "% of text cut"], lines
            )
        )
    if figures["peer"] is not None:
        peer = figures["peer"]
        print(f"\nspans of three sentences, {peer['mb']:.1f} MB, start-up included\n")
        columns = [[who, peer[f"{who}_cpu_s"], peer[f"{who}_mb_per_cpu_s"]] for who in ("dcurate", "datatrove")]
        print(table(["tool", "CPU-s", "MB per CPU-s"], columns))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spans", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", required=True, metavar="DIR", help="JSONL files with a column text")
    parser.add_argument("--only", nargs="*", choices=list(STAGES), help="only these")
    parser.add_argument(
        "--sizes",
        type=whole_sizes_given,
        default="1,4",
        metavar="N,M",
        help="how many of the files are read, small and large",
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each size, of which the median counts")
    parser.add_argument("--exact-mb", type=float, default=4.0, help="MB to compare with a suffix array; 0 for none")
    parser.add_argument("--peer", action="store_true", help=f"run datatrove too, in {PEER}")
    parser.add_argument("--peer-mb", type=float, default=8.0, help="MB that datatrove reads")
    parser.add_argument("--scratch", metavar="DIR", help="where copies and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("spans", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
