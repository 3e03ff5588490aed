"""Memory of writing tokens while the input grows 16 times, and of merging 2,000 shards.

``python -m benchmarks.tokens_memory [--mb 10] [--shards 2000] [--json FILE]``

Each run is a process of its own. The texts are random words, and the tokenizer one of words, so that most of the time
is not spent in it.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from benchmarks.measure import called, job, machine, measure, plain, save, scratch_folder, table, versions
from dcurate import InlineExecutor, JsonlReader, Pipeline, TokenWriter
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.rewrite import Changes, rewrite

TIMES, FILES = (1, 16), 4
#: Tokens of a shard of those that are merged, and of the shards that they become.
SMALL, LARGE = 4000, 2**20


def write(source: str, tokenizer: str, output: str, shard: int, packing: str = "none") -> dict[str, Any]:
    """Write tokens."""
    window: Any = {"packing": packing, "sequence_length": None if packing == "none" else 1024}
    writer = TokenWriter(output, tokenizer, add_eos="</s>", shard_tokens=shard, **window)
    Pipeline("tokens", stages=[JsonlReader(source), writer]).run(InlineExecutor(), observers=[])
    return counts(output)


def merge(source: str, output: str) -> dict[str, Any]:
    """Merge the shards of a folder."""
    stages = rewrite([TokenFolder(source)], output, Changes(shard_tokens=LARGE))
    Pipeline("merge", stages=stages).run(InlineExecutor(), observers=[])
    return counts(output)


def counts(output: str) -> dict[str, Any]:
    """How much a folder of tokens holds."""
    about = TokenFolder(output).about
    return {"tokens": about["tokens"], "shards": len(about["shards"])}


def make_input(folder: Path, size: float, times: int, words: list[str]) -> str:
    """Files of random texts."""
    folder.mkdir()
    draw = random.Random(0)
    for number in range(FILES):
        rows, written = [], 0
        while written < size / FILES:
            text = " ".join(draw.choices(words, k=draw.randrange(20, 400)))
            rows.append(json.dumps({"id": f"{number}-{len(rows)}", "text": text}) + "\n")
            written += len(rows[-1])
        for copy in range(times):
            (folder / f"{copy:02}-{number}.jsonl").write_text("".join(rows))
    return str(folder)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=10.0, help="MB of text")
    parser.add_argument("--shards", type=int, default=2000)
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    words = [f"{'abcdefghij'[number % 10]}word{number}" for number in range(2000)]
    runs = []
    with scratch_folder("tokens-memory", options.scratch) as scratch:
        tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*words, "</s>"])}))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.save(str(scratch / "tokenizer.json"))
        same = {"tokenizer": str(scratch / "tokenizer.json")}
        for times in TIMES:
            source = make_input(scratch / f"in-{times}", options.mb * 1e6, times, words)
            given = {"source": source, "output": str(scratch / f"out-{times}"), "shard": LARGE, "packing": "best_fit"}
            usage = measure(job("benchmarks.tokens_memory:write", **same, **given))
            runs.append({"run": f"write, {times} times the input", **usage.result, **plain(usage)})
        tokens = options.shards * SMALL
        source = make_input(scratch / "in-small", tokens * 10, 1, words)
        given = {"source": source, "output": str(scratch / "small"), "shard": SMALL}
        many = measure(job("benchmarks.tokens_memory:write", **same, **given)).result["shards"]
        usage = measure(
            job("benchmarks.tokens_memory:merge", source=str(scratch / "small"), output=str(scratch / "all"))
        )
        runs.append({"run": f"merge of {many:,} shards", **usage.result, **plain(usage)})
    shown = [[one["run"], one["tokens"], one["shards"], one["peak"]["tree"]["rss_mb"], one["cpu_s"]] for one in runs]
    print(table(["", "tokens", "shards", "peak RSS, MB", "CPU s"], shown))
    first, last = (one["peak"]["tree"]["rss_mb"] for one in runs[:2])
    print(f"16 times the input takes {last / first:.2f} times the memory")
    save(options.json, {"machine": machine(), "versions": versions("tokenizers", "numpy", "pyarrow"), "runs": runs})


if __name__ == "__main__":
    called(main)
