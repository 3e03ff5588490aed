"""Do the presets drop the same documents as the code that they are named after, and how much faster?

    python -m benchmarks.parity --input part-00.jsonl.zst --peer-python datatrove=VENV --peer-python dolma=VENV

Each document is judged by the peer, in an environment of its own, and by the preset; every one on which they differ is
listed. MB are 10**6 bytes of UTF-8 text; seconds are CPU-seconds of the rules alone, reading and writing left out. As
a preset learns words while it reads, its rate is also taken on more of the documents (``--more-every``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from benchmarks.filters import peer_python
from benchmarks.measure import MB, ROOT, called, job, machine, save, scratch_folder, table
from benchmarks.rows import all_rows
from dcurate import BatchKey, DocumentBatch, ProcessingStage, ScoreFilter
from dcurate.core.batch import Rejection
from dcurate.text import C4BadWordsFilter
from dcurate.text.presets import c4, c4_paragraphs, fineweb, fineweb_quality, gopher

Stages = Sequence[ProcessingStage[Any, Any]]

#: Documents that a stage is given at once.
_AT_ONCE = 1000


class Preset(NamedTuple):
    """A preset, the peer that it is held against, and what the peer's script calls the same."""

    peer: str
    theirs: str
    stages: Callable[[], Stages]


PRESETS = {
    "gopher datatrove": Preset("datatrove", "gopher", lambda: [ScoreFilter(list(gopher("datatrove")))]),
    "c4 datatrove": Preset("datatrove", "c4", lambda: c4("datatrove")),
    "c4 paragraphs": Preset("datatrove", "c4-paragraphs", lambda: [ScoreFilter(list(c4_paragraphs()))]),
    "fineweb_quality": Preset("datatrove", "fineweb-quality", lambda: [ScoreFilter(list(fineweb_quality()))]),
    "fineweb": Preset("datatrove", "fineweb", fineweb),
    "gopher + c4 datatrove": Preset(
        "datatrove", "gopher+c4", lambda: [ScoreFilter(list(gopher("datatrove"))), *c4("datatrove")]
    ),
    "gopher dolma_v1": Preset("dolma", "gopher-v1", lambda: [ScoreFilter(list(gopher("dolma_v1")))]),
    "gopher dolma_v2": Preset("dolma", "gopher-v2", lambda: [ScoreFilter(list(gopher("dolma_v2")))]),
    "gopher dclm": Preset("dclm", "gopher", lambda: [ScoreFilter(list(gopher("dclm")))]),
    "gopher redpajama": Preset("redpajama", "gopher", lambda: [ScoreFilter(list(gopher("redpajama")))]),
}


def texts(files: Sequence[Path], fields: Sequence[str], every: int) -> Iterator[str]:
    """Every so many-th text of JSONL files, compressed or not: what the first of the fields holds that is text.

    Raises:
        SystemExit: no row has any of the fields.
    """
    number = -1
    for number, text in enumerate(_each_text(files, fields)):
        if number % every == 0:
            yield text
    if number < 0:
        names, where = " or ".join(map(repr, fields)), ", ".join(map(str, files))
        raise SystemExit(f"{where}: no row has text in {names}; name the column with --field")


def _each_text(files: Sequence[Path], fields: Sequence[str]) -> Iterator[str]:
    for row in (row for file in files for row in all_rows(file)):
        found = next((row[field] for field in fields if isinstance(row.get(field), str)), None)
        if found is not None:
            yield found


#: The rule on bad words, of which the list is given.
_BAD_WORDS = "c4 bad words"


def judge(preset: str, source: str, target: str, words: str = "") -> dict[str, Any]:
    """What the preset says of each document, written as the peers' scripts write it; the CPU-seconds that it took."""
    stages = [ScoreFilter(C4BadWordsFilter(words))] if preset == _BAD_WORDS else PRESETS[preset].stages()
    return judged(stages, source, target)


def judged(stages: Stages, source: str, target: str) -> dict[str, Any]:
    """What stages say of each document, and the CPU-seconds that they took."""
    for stage in stages:
        stage.setup_on_node()
    documents = [orjson.loads(line)["text"] for line in Path(source).read_bytes().splitlines()]
    reasons: list[str | None] = [None] * len(documents)
    left: dict[int, str] = {}
    seconds = 0.0
    for first in range(0, len(documents), _AT_ONCE):
        rows = range(first, min(first + _AT_ONCE, len(documents)))
        data = pa.table({"text": pa.array([documents[row] for row in rows], pa.large_string()), "row": list(rows)})
        batch: Any = DocumentBatch(key=BatchKey("parity"), data=data)
        started = time.process_time()
        gone: list[Rejection] = []
        for stage in stages:
            batch = stage.process(batch)
            gone += batch.rejections
        seconds += time.process_time() - started
        for rejection in gone:
            for row in rejection.data["row"].to_pylist():
                reasons[row] = rejection.reason
        left |= dict(zip(batch.to_arrow()["row"].to_pylist(), batch.to_arrow()["text"].to_pylist(), strict=True))
    with Path(target).open("wb") as out:
        for row, reason in enumerate(reasons):
            out.write(orjson.dumps([reason, left.get(row)]) + b"\n")
    return {"cpu_s": seconds}


def compare(ours: Path, theirs: Path) -> dict[str, Any]:
    """Both verdicts counted, and every document on which they differ."""
    both = [
        (orjson.loads(mine), orjson.loads(other))
        for mine, other in zip(ours.read_bytes().splitlines(), theirs.read_bytes().splitlines(), strict=True)
    ]
    differing = [
        {"row": row, "dcurate": mine[0], "peer": other[0]}
        for row, (mine, other) in enumerate(both)
        if (mine[0] is None) != (other[0] is None)
    ]
    changed = [
        row
        for row, (mine, other) in enumerate(both)
        if mine[0] is None and other[0] is None and other[1] is not None and mine[1] != other[1]
    ]
    return {
        "documents": len(both),
        "dropped_by_dcurate": sum(mine[0] is not None for mine, _ in both),
        "dropped_by_peer": sum(other[0] is not None for _, other in both),
        "verdicts_that_differ": differing,
        "texts_that_differ": changed,
        "reasons": [
            {"dcurate": mine, "peer": other, "documents": count}
            for (mine, other), count in Counter((mine[0], other[0]) for mine, other in both).most_common()
        ],
    }


def answer(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> dict[str, Any]:
    """The last line that a command prints, as JSON."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return dict(json.loads(done.stdout.strip().rpartition("\n")[2]))


def written(documents: Iterator[str], target: Path) -> float:
    """Write texts as plain JSONL; how many MB of text they are."""
    size = 0
    with target.open("wb") as out:
        for text in documents:
            out.write(orjson.dumps({"text": text}) + b"\n")
            size += len(text.encode(errors="surrogatepass"))
    return size / MB


def mine(preset: str, source: Path, target: Path, words: str) -> float:
    """CPU-seconds of a preset in a process of its own."""
    command = job("benchmarks.parity:judge", preset=preset, source=str(source), target=str(target), words=words)
    return float(answer(command, {**os.environ, "PYTHONPATH": str(ROOT)})["cpu_s"])


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures."""
    source, more = scratch / "texts.jsonl", scratch / "more.jsonl"
    fields = options.field or ["text"]
    size = written(texts(options.input, fields, options.every), source)
    more_size = written(texts(options.input, fields, options.more_every or options.every), more)
    found: dict[str, Any] = {}
    about: dict[str, Any] = {"machine": machine(), "versions": {}}
    presets = {name: PRESETS[name] for name in options.preset or ([] if options.bad_words else PRESETS)}
    checkouts = {one.partition("=")[0]: [one.partition("=")[2]] for one in options.checkout}
    words = str(options.bad_words or "")
    if words:
        presets[_BAD_WORDS] = Preset("datatrove", f"bad-words:en:{words}", lambda: [])
    for name, preset in presets.items():
        python = peer_python(preset.peer, options.peer_python)
        if not python.exists():
            print(f"{name}: left out, there is no {python}; name {preset.peer}'s environment with --peer-python")
            continue
        ours, theirs = scratch / "ours.jsonl", scratch / "theirs.jsonl"
        script = Path(__file__).parent / "peers" / f"verdicts_{preset.peer}.py"
        peer = answer([python, script, preset.theirs, source, theirs, *checkouts.get(preset.peer, [])])
        more_s = mine(name, more, ours, words)
        seconds = mine(name, source, ours, words)
        about["versions"] |= peer["versions"]
        found[name] = compare(ours, theirs) | {
            "dcurate_mb_per_cpu_s": size / seconds,
            "dcurate_mb_per_cpu_s_on_more": more_size / more_s,
            "peer_mb_per_cpu_s": size / peer["cpu_s"],
            "times": (more_size / more_s) / (size / peer["cpu_s"]),
        }
        show_one(name, found[name])
    files = [path.name for path in options.input]
    return {
        "input": {"files": files, "every": options.every, "mb": size, "more_mb": more_size},
        "presets": found,
        **about,
    }


def show_one(name: str, figures: dict[str, Any]) -> None:
    """Print one preset's documents that differ as soon as they are known."""
    for one in figures["verdicts_that_differ"]:
        print(f"{name}: document {one['row']}: dcurate says {one['dcurate']}, the peer {one['peer']}")
    for row in figures["texts_that_differ"]:
        print(f"{name}: document {row}: kept by both, with different texts")
    sys.stdout.flush()


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    given = figures["input"]
    read = f"every {given['every']}. document, {given['mb']:.1f} MB of text"
    print(f"\n{', '.join(given['files'])}; {read}; more: {given['more_mb']:.1f} MB")
    print(f"versions: {', '.join(f'{name} {number}' for name, number in figures['versions'].items())}\n")
    header = ["preset", "documents", "dropped", "by the peer", "verdicts differ", "texts differ"]
    header += ["MB per CPU-s", "on more", "the peer's", "times"]
    rows = [
        [
            *(name, one["documents"], one["dropped_by_dcurate"], one["dropped_by_peer"]),
            *(len(one["verdicts_that_differ"]), len(one["texts_that_differ"])),
            *(one["dcurate_mb_per_cpu_s"], one["dcurate_mb_per_cpu_s_on_more"], one["peer_mb_per_cpu_s"]),
            f"{one['times']:.0f}x",
        ]
        for name, one in figures["presets"].items()
    ]
    print(table(header, rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.parity", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--input", required=True, nargs="+", type=Path, metavar="FILE", help="JSONL, plain or compressed"
    )
    parser.add_argument("--field", action="append", help="what the text is called in the files; repeatable")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every N-th document")
    parser.add_argument("--more-every", type=int, metavar="N", help="take dcurate's rate on every N-th document")
    parser.add_argument("--preset", action="append", choices=list(PRESETS), help="check this one only; repeatable")
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="PEER=PATH", help="environment of datatrove or dolma"
    )
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="PEER=DIR", help="clone of dclm or redpajama's repository"
    )
    parser.add_argument("--bad-words", type=Path, metavar="FILE", help="check the rule on bad words with this list")
    parser.add_argument("--scratch", metavar="DIR", help="where texts and verdicts go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("parity", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
