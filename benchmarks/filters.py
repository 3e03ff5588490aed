"""Read JSONL, a dozen quality filters, write JSONL: CPU-seconds and wall time per MB, beside other tools.

``python -m benchmarks.filters --input DIR [--recipe NAME] [--peer datatrove|nemo|dolma ...] [--json FILE]``. See
README.md here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.measure import (
    MB,
    ROOT,
    Usage,
    called,
    job,
    machine,
    measure,
    plain,
    save,
    scratch_folder,
    table,
    versions,
    whole_sizes_given,
)
from dcurate import DaskExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline, ScoreFilter
from dcurate.fs.compression import ending_of, unpack
from dcurate.io.files import JSONL, list_files
from dcurate.recipe import load_recipe
from dcurate.text import (
    BulletsFilter,
    DocumentFilter,
    EllipsisFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    NonAlphaNumericFilter,
    NumbersFilter,
    PunctuationFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
    SymbolsToWordsFilter,
    WhiteSpaceFilter,
    WordCountFilter,
)

PEERS = ("datatrove", "nemo", "dolma")

#: Thresholds of n-grams: Gopher, table A1.
TOP = {2: 0.2, 3: 0.18, 4: 0.16}
REPEATED = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


def rules() -> list[DocumentFilter]:
    """The filters that dcurate runs, in order."""
    return [
        WordCountFilter(),
        MeanWordLengthFilter(),
        LongWordFilter(),
        NonAlphaNumericFilter(),
        SymbolsToWordsFilter(),
        NumbersFilter(),
        WhiteSpaceFilter(),
        PunctuationFilter(),
        BulletsFilter(),
        EllipsisFilter(),
        RepeatedLinesFilter(),
        RepeatedParagraphsFilter(),
        *(RepeatingTopNGramsFilter(n=n, max_repeating_ngram_ratio=most) for n, most in TOP.items()),
        *(
            RepeatingDuplicateNGramsFilter(n=n, max_repeating_duplicate_ngram_ratio=most)
            for n, most in REPEATED.items()
        ),
    ]


def pipeline_of(source: str, output: str, recipe: str | None) -> Pipeline:
    """The pipeline that is measured: of a recipe, or of the filters of this file."""
    if recipe is not None:
        return cast(Pipeline, load_recipe(recipe, {"input": source, "output": output}).pipeline)
    pipeline = Pipeline("filters").add_stage(JsonlReader(source))
    for rule in rules():
        pipeline.add_stage(ScoreFilter(rule))
    return pipeline.add_stage(JsonlWriter(output))


def curate(source: str, output: str, workers: int, recipe: str | None) -> dict[str, Any]:
    """Run the pipeline; how many documents came in and out, and the seconds of the run itself."""
    pipeline = pipeline_of(source, output, recipe)
    cluster = LocalCluster(n_workers=workers, gpus=False)
    report = pipeline.run(DaskExecutor(cluster=cluster)).report
    first, last = report.stages[0], report.stages[-1]
    return {"documents_in": first.rows_out, "documents_out": last.rows_out, "run_s": report.seconds}


# The data


@dataclass(frozen=True)
class Data:
    """A folder of plain JSONL files that both tools read.

    Args:
        folder: holds nothing else.
        times: how often the folder holds the data, under different file names.
    """

    folder: Path
    times: int

    @property
    def mb(self) -> float:
        return sum(path.stat().st_size for path in self.folder.iterdir()) / MB


def plain_copies(source: str, folder: Path) -> list[Path]:
    """The input files, uncompressed, in a folder."""
    folder.mkdir()
    copies = []
    for number, file in enumerate(list_files(source, JSONL, {})):
        content = unpack(Path(file.path).read_bytes(), ending_of(file.path), file.name)
        copies.append(folder / f"{number:04}.jsonl")
        copies[-1].write_bytes(content.rstrip(b"\n") + b"\n")
    return copies


def sample(files: Sequence[Path], folder: Path, mb: float, parts: int) -> list[Path]:
    """Every k-th document of the files, about ``mb`` in all, dealt to ``parts`` files of like size."""
    folder.mkdir()
    step = max(1, round(sum(path.stat().st_size for path in files) / MB / mb))
    chosen = [line for number, line in enumerate(_lines(files)) if number % step == 0]
    piles: list[list[bytes]] = [[] for _ in range(parts)]
    sizes = [0] * parts
    for line in sorted(chosen, key=len, reverse=True):  # the largest first, always to the smallest pile
        least = sizes.index(min(sizes))
        piles[least].append(line)
        sizes[least] += len(line)
    paths = [folder / f"{number:04}.jsonl" for number in range(parts)]
    for path, pile in zip(paths, piles, strict=True):
        path.write_bytes(b"".join(pile))
    return paths


def _lines(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb") as lines:
            yield from lines


def multiplied(files: Sequence[Path], times: int, folder: Path) -> Data:
    """The files several times over: hard links under different names, so that they take no space."""
    folder.mkdir()
    for copy in range(times):
        for path in files:
            os.link(path, folder / f"{copy:02}-{path.name}")
    return Data(folder, times)


# The runs

Command = Callable[[Path, Path], Sequence[str | Path]]


def compare_sizes(command: Command, sizes: Sequence[Data], repeat: int, scratch: Path) -> dict[str, Any]:
    """Run a tool on each size, in turn and again, and give its rates from the medians."""
    runs: list[list[Usage]] = [[] for _ in sizes]
    for _ in range(repeat):
        for size, usages in zip(sizes, runs, strict=True):
            output = scratch / "output"
            usages.append(measure(command(size.folder, output)))
            shutil.rmtree(output, ignore_errors=True)
    figures = [_figures(size, usages) for size, usages in zip(sizes, runs, strict=True)]
    small, large = figures[0], figures[-1]
    more_mb = large["mb"] - small["mb"]
    return {
        "mb_per_cpu_s": large["mb"] / large["cpu_s"],
        "marginal_mb_per_cpu_s": _rate(more_mb, large["cpu_s"] - small["cpu_s"]),
        "cpu_s_per_mb": large["cpu_s"] / large["mb"],
        "wall_s_per_mb": large["wall_s"] / large["mb"],
        "marginal_wall_s_per_mb": (large["wall_s"] - small["wall_s"]) / more_mb if more_mb else None,
        "peak_rss_mb": large["peak_rss_mb"],
        "peak_pss_mb": large["peak_pss_mb"],
        "sizes": figures,
    }


def show_sizes(figures: dict[str, Any], note: str) -> None:
    """Print the cost of stages beyond that of copying, from `compare_sizes` of each."""
    print(f"\nread plain JSONL -> stage -> write plain JSONL, in one process; medians of {figures['repeat']} runs\n")
    copy = figures["figures"].get("copy")
    rows = []
    for name, each in figures["figures"].items():
        small, large = each["sizes"][0], each["sizes"][-1]
        more_mb = large["mb"] - small["mb"]
        extra = None
        if copy is not None and name != "copy" and more_mb:
            whole = copy["sizes"][-1]["cpu_s"] - copy["sizes"][0]["cpu_s"]
            extra = 1000 * (large["cpu_s"] - small["cpu_s"] - whole) / more_mb
        peaks = [size["peak_rss_mb"] for size in (small, large)]
        rows.append([name, large["documents"], each["marginal_mb_per_cpu_s"], extra, *peaks])
    header = ["what", "documents out", "MB per CPU-s", "CPU-ms a MB beyond copy"]
    print(table([*header, *(f"peak RSS MB, {mb:,.0f} MB" for mb in (figures["mb"][0], figures["mb"][-1]))], rows))
    print(f"\nMB per CPU-s: between the two sizes, so without start-up{note}")


def _rate(mb: float, seconds: float) -> float | None:
    """MB per second, or None where noise has eaten the difference."""
    return mb / seconds if mb and seconds > 0 else None


def _figures(size: Data, usages: Sequence[Usage]) -> dict[str, Any]:
    return {
        "mb": size.mb,
        "times": size.times,
        **usages[-1].result,
        "cpu_s": statistics.median(usage.cpu_s for usage in usages),
        "wall_s": statistics.median(usage.wall_s for usage in usages),
        "peak_rss_mb": statistics.median(usage.tree.rss_mb for usage in usages),
        "peak_pss_mb": statistics.median(usage.tree.pss_mb for usage in usages),
        "runs": [plain(usage) for usage in usages],
    }


# The peers


def peer_python(name: str, given: Sequence[str]) -> Path:
    """The Python of a peer's environment: as given, or that of ``.venv-NAME``."""
    places = {one.partition("=")[0]: one.partition("=")[2] for one in given if "=" in one}
    bare = [one for one in given if "=" not in one]
    place = Path(places.get(name) or (bare[0] if bare else f"{ROOT}/.venv-{name}")).expanduser().absolute()
    return place / "bin" / "python" if place.is_dir() else place


def peer_script(name: str) -> Path:
    return Path(__file__).parent / "peers" / f"run_{name}.py"


def peer_command(script: Sequence[Path], workers: int) -> Command:
    """How a peer's script is called."""
    return lambda source, output: [*script, source, output, str(workers)]


def probe(name: str, python: Path) -> tuple[dict[str, Any], str]:
    """The versions and rules of a peer; or nothing, and why it cannot run."""
    if not python.exists():
        return {}, f"there is no {python}"
    asked = subprocess.run([python, peer_script(name), "--about"], capture_output=True, text=True, check=False)
    if asked.returncode:
        return {}, (asked.stderr.strip() or "no reason given").rpartition("\n")[2]
    return json.loads(asked.stdout.strip().rpartition("\n")[2]), ""


# The whole

PACKAGES = ("dcurate", "dask", "distributed", "numba", "numpy", "orjson", "pandas", "pyarrow")


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures."""
    about = {"machine": machine(), "versions": {"dcurate": versions(*PACKAGES)}}
    times = sorted({int(number) for number in options.sizes.split(",")})
    pipeline = pipeline_of(options.input, str(scratch / "unused"), options.recipe)
    files = plain_copies(options.input, scratch / "plain")
    sizes = [multiplied(files, number, scratch / f"whole-{number}") for number in times]
    warm = multiplied(sample(files, scratch / "few", 1.0, 1), 1, scratch / "warm")

    def ours(source: Path, output: Path) -> list[str]:
        where = {"source": str(source), "output": str(output), "workers": options.workers, "recipe": options.recipe}
        return job("benchmarks.filters:curate", **where)

    if options.repeat > 1:
        measure(ours(warm.folder, scratch / "warm-output"))  # compiles the kernels, or finds them compiled
    figures = compare_sizes(ours, sizes, options.repeat, scratch)
    figures["rules"] = [stage.name for stage in pipeline.stages[1:-1]]
    peers: dict[str, Any] = {}
    for name in dict.fromkeys(options.peer):
        python = peer_python(name, options.peer_python)
        known, why_not = probe(name, python)
        if why_not:
            print(f"{name}: not installed here ({why_not}); left out")
            continue
        command = peer_command([python, peer_script(name)], options.workers)
        parts = peer_sizes(files, options, times, scratch / f"for-{name}")
        peers[name] = compare_sizes(command, parts, options.repeat, scratch) | {"rules": known["rules"]}
        about["versions"][name] = known["versions"]
    return {
        "dcurate": figures,
        "peers": peers,
        "ratio": {name: ratio(figures, peer) for name, peer in peers.items()},
        "input": {
            "folder": Path(options.input).name,
            "mb": sizes[0].mb / times[0],
            "files": len(files),
            "read_as": "plain JSONL",
        },
        "workers": options.workers,
        "repeat": options.repeat,
        **about,
    }


def peer_sizes(files: Sequence[Path], options: argparse.Namespace, times: Sequence[int], folder: Path) -> list[Data]:
    """The sizes that a peer, which is slower, is run on: of a sample of the documents."""
    folder.mkdir()
    part = sample(files, folder / "sample", options.peer_mb, 2 * options.workers)
    return [multiplied(part, number, folder / f"{number}") for number in times]


def ratio(ours: dict[str, Any], peer: dict[str, Any]) -> dict[str, float | None]:
    """How many times a peer's rate ours is."""
    names = {"marginal": "marginal_mb_per_cpu_s", "start_up_included": "mb_per_cpu_s"}
    return {
        name: ours[key] / peer[key] if ours[key] is not None and peer[key] is not None else None
        for name, key in names.items()
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    tools = {"dcurate": figures["dcurate"], **figures["peers"]}
    print(f"\nread plain JSONL -> filters -> write plain JSONL, {figures['workers']} workers;", end=" ")
    print(f"medians of {figures['repeat']} runs; MB are 10^6 bytes of JSONL, CPU-s of the whole process tree\n")
    header = ["run", "MB", "documents", "kept", "CPU-s", "wall s", "peak RSS MB", "peak PSS MB"]
    rows = []
    for name, tool in tools.items():
        for size in tool["sizes"]:
            kept = f"{size['documents_out'] / max(1, size['documents_in']):.1%}"
            used = [size[key] for key in ("cpu_s", "wall_s", "peak_rss_mb", "peak_pss_mb")]
            rows.append([f"{name}, {size['times']}x", size["mb"], size["documents_in"], kept, *used])
    print(table(header, rows))
    header = ["tool", "MB per CPU-s, marginal", "start-up included", "dcurate is, marginal", "start-up included"]
    rows = []
    for name, tool in tools.items():
        times = figures["ratio"].get(name, {"marginal": None, "start_up_included": None})
        shown = [None if value is None else f"{value:,.0f}x" for value in times.values()]
        rows.append([name, tool["marginal_mb_per_cpu_s"], tool["mb_per_cpu_s"], *shown])
    print(f"\n{table(header, rows)}\n")
    print("marginal: what more input costs, between the two sizes, so without start-up")
    for name, tool in tools.items():
        print(f"{name} ran: {', '.join(tool['rules'])}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.filters", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", required=True, metavar="DIR", help="JSONL, plain or compressed, with a column text")
    parser.add_argument("--recipe", metavar="NAME", help="run this recipe, not the 21 filters; it has input and output")
    parser.add_argument("--peer", action="append", choices=PEERS, default=[], help="compare with it; repeatable")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="[PEER=]PATH",
        help="the peer's environment or its Python; default .venv-PEER",
    )
    parser.add_argument("--peer-mb", type=float, default=4.0, help="MB of documents that peers are run on, once over")
    parser.add_argument(
        "--sizes",
        type=whole_sizes_given,
        default="1,4",
        metavar="N,M",
        help="how often the data are read, small and large",
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each size, of which the median counts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", metavar="DIR", help="where copies and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("filters", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
