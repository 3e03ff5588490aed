"""Kill runs that write, shuffle and merge tokens, again and again: the bytes are those of runs that were left alone.

``python -m benchmarks.chaos_tokens [--kills 24] [--documents 4000] [--seed 0] [--json FILE]``

Each run is a program of its own that is killed by SIGKILL after a random part of the time that it takes when left
alone, and started again to go on from its ledger, until a third of the kills has struck; then it is left to end. Kills
of a run that had ended already do not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import called, machine, save, scratch_folder, table, versions
from dcurate import InlineExecutor, JsonlReader, Pipeline, TokenWriter
from dcurate.core.stage import Stage
from dcurate.tokens import TokenShuffle
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.rewrite import Changes, rewrite
from dcurate_testing.token_files import train_bpe

SHARD, WINDOW, FILES = 3000, 64, 16
#: Tries for each kill that is to strike before the end of a run.
TRIES = 4


def act(name: str, scratch: str) -> None:
    """One of the three runs; it goes on where it was killed."""
    at = Path(scratch)
    stages: dict[str, Any] = {
        "write": lambda: [JsonlReader(str(at / "in")), _writer(at)],
        "shuffle": lambda: [TokenShuffle(str(at / "write"), str(at / "shuffle"), seed=3, shard_tokens=SHARD)],
        "merge": lambda: _merged(at),
    }
    Pipeline(name, stages=stages[name]()).run(InlineExecutor(), resume=True, observers=[])


def _writer(at: Path) -> TokenWriter:
    packing: dict[str, Any] = {"packing": "best_fit", "sequence_length": WINDOW}
    return TokenWriter(str(at / "write"), str(at / "tokenizer.json"), shard_tokens=SHARD, **packing)


def _merged(at: Path) -> list[Stage]:
    folders = [TokenFolder(str(at / name)) for name in ("write", "shuffle")]
    return rewrite(folders, str(at / "merge"), Changes(shard_tokens=2 * SHARD))


def written(folder: Path) -> dict[str, str]:
    """The digest of each file of an output."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make_input(at: Path, documents: int, seed: int) -> None:
    """Documents of uneven lengths, and a tokenizer that is trained on them."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randrange(2, 9))) for _ in range(500)]
    texts = [" ".join(draw.choices(words, k=1 + draw.randrange(80))) for _ in range(documents)]
    (at / "in").mkdir(parents=True)
    for number in range(FILES):
        rows = [{"id": f"d{row}", "text": texts[row]} for row in range(number, documents, FILES)]
        (at / "in" / f"{number:02}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train_bpe(at / "tokenizer.json", texts, 1000)


def started(name: str, at: Path) -> subprocess.Popen[bytes]:
    """The program of a run."""
    return subprocess.Popen([sys.executable, "-W", "ignore", "-m", "benchmarks.chaos_tokens", "--act", name, str(at)])


def campaign(name: str, at: Path, kills: int, whole_s: float, draw: random.Random) -> dict[str, Any]:
    """Kill a run until enough kills have struck, and let it end."""
    struck: list[float] = []
    for _ in range(TRIES * kills):
        if len(struck) == kills:
            break
        begun = time.monotonic()
        process = started(name, at)
        try:
            process.wait(draw.uniform(0.2, 1.0) * whole_s)
        except subprocess.TimeoutExpired:
            process.kill()
            struck.append(round(time.monotonic() - begun, 2))
        process.wait()
        if process.returncode > 0:
            raise RuntimeError(f"{name} ended with code {process.returncode}")
    done = started(name, at)
    if done.wait():
        raise RuntimeError(f"{name} ended with code {done.returncode}")
    return {"run": name, "kills": len(struck), "after_s": struck}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--act", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.act:
        act(*options.act)
        return
    draw, rows = random.Random(options.seed), []
    with scratch_folder("chaos-tokens", options.scratch) as scratch:
        os.environ["DCURATE_CACHE"] = str(scratch / "cache")
        work, alone = scratch / "work", scratch / "alone"  # one after the other at the same place: spans name the input
        make_input(work, options.documents, options.seed)
        seconds: dict[str, float] = {}
        for name in ("write", "shuffle", "merge"):
            begun = time.monotonic()
            if started(name, work).wait():
                raise RuntimeError(f"{name} failed")
            seconds[name] = time.monotonic() - begun
        alone.mkdir()
        for name in seconds:
            (work / name).rename(alone / name)
            (work / f"{name}.dcurate").rename(alone / f"{name}.dcurate")
        for name, whole in seconds.items():
            found = campaign(name, work, -(-options.kills // 3), whole, draw)
            ours, theirs = written(work / name), written(alone / name)
            rows.append({**found, "alone_s": round(whole, 2), "files": len(theirs), "same_bytes": ours == theirs})
    figures = {"machine": machine(), "versions": versions("tokenizers", "numpy", "pyarrow"), "runs": rows}
    heads = ["", "kills", "files", "alone, s", "bytes"]
    shown = [
        [one["run"], one["kills"], one["files"], one["alone_s"], "the same" if one["same_bytes"] else "OTHERS"]
        for one in rows
    ]
    print(table(heads, shown))
    print(f"{sum(one['kills'] for one in rows)} kills of {options.documents:,} documents")
    save(options.json, figures)
    sys.exit(0 if all(one["same_bytes"] for one in rows) else 1)


if __name__ == "__main__":
    called(main)
