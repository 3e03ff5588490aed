"""From JSON Lines to the tokens of Megatron: tokens per CPU-second, compared with a bare loop of ``tokenizers``.

``python -m benchmarks.tokens_out --input DIR [--tokenizer FILE] [--repeat 3] [--peers DIR] [--megatron DIR]
[--json FILE]``

The bare loop has the texts in memory and tokenises 1,000 a call with ``encode_batch_fast``, in one thread; starting and
reading are not counted. Ours is counted whole, the process tree from start to end: reading, tokenising, ordering,
writing; and beside it without the CPU-seconds of the same run over one document, which are those of starting. Without
``--tokenizer`` a byte-level BPE of 32,000 tokens is trained on some of the texts. ``fast`` is ``fast=True``.

With ``--peers``, a folder in which ``pip install --no-deps --target DIR/NAME NAME`` put megatron-core, datatrove,
mosaicml-streaming and litdata, and what these need in ``DIR/deps``, each of them reads files of ours and the tokens are
compared; and datatrove tokenises, shuffles and merges the same texts. With ``--megatron``, a checkout of Megatron-LM,
its ``tools/preprocess_data.py`` tokenises them; they are unpacked to one file before.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import zstandard
from tokenizers import Tokenizer

from benchmarks.measure import called, job, machine, measure, plain, save, scratch_folder, table, versions
from dcurate import DaskExecutor, InlineExecutor, JsonlReader, LocalCluster, Pipeline, TokenWriter
from dcurate_testing.token_files import read_tokens, train_bpe

VOCABULARY, TRAINED_ON, CALL = 32_000, 2000, 1000
#: Formats that a library of others reads, and the name of its package.
READERS = {"megatron": "megatron-core", "ds": "datatrove", "mds": "mosaicml-streaming", "litdata": "litdata"}
#: Tokens of a window, for libraries that read windows.
WINDOW = 16
#: Tokens of a shard and documents of the files that others read.
SHARD, READ = 2**18, 2000


def rows_in(folder: str) -> Iterator[dict[str, Any]]:
    """All rows of the files."""
    for path in sorted(Path(folder).glob("*.jsonl.zst")):
        data = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()
        yield from map(orjson.loads, data.splitlines())


def bare(source: str, tokenizer: str) -> dict[str, float]:
    """Tokenise all texts, and count the CPU-seconds of that alone."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    loaded, texts = Tokenizer.from_file(tokenizer), [row["text"] for row in rows_in(source)]
    tokens, begun = 0, time.process_time()
    for start in range(0, len(texts), CALL):
        for encoding in loaded.encode_batch_fast(texts[start : start + CALL], add_special_tokens=False):
            tokens += len(encoding.ids)
    return {"tokens": tokens, "loop_cpu_s": time.process_time() - begun}


def ours(source: str, tokenizer: str, output: str, workers: int, fast: bool) -> dict[str, int]:
    """Run the pipeline; in this process for no workers."""
    pipeline = Pipeline("tokens", stages=[JsonlReader(source), TokenWriter(output, tokenizer, fast=fast)])
    if not workers:
        pipeline.run(InlineExecutor(), observers=[])
    else:
        with LocalCluster(n_workers=workers, gpus=False) as cluster:
            pipeline.run(DaskExecutor(cluster=cluster), observers=[])
    about = json.loads(Path(output, "tokens.json").read_text())
    return {"tokens": about["tokens"] - about["documents"]}


def write(source: str, tokenizer: str, output: str, form: str) -> None:
    """Write small shards of a format."""
    writer = TokenWriter(output, tokenizer, form, shard_tokens=SHARD)
    Pipeline("tokens", stages=[JsonlReader(source), writer]).run(InlineExecutor(), observers=[])


def windows(sequences: list[list[int]], shards: list[int]) -> Iterator[list[int]]:
    """The tokens of each shard in windows, without what is left over."""
    before = 0
    for documents in shards:
        flat = [token for ids in sequences[before : before + documents] for token in ids]
        yield from (flat[at : at + WINDOW] for at in range(0, len(flat) - WINDOW + 1, WINDOW))
        before += documents


def read_equally(form: str, folder: Path, environment: dict[str, str]) -> bool:
    """Whether the library of a format reads the tokens that the format says are there."""
    said = folder / "read.json"
    program: list[str | Path] = [sys.executable, "-W", "ignore", Path(__file__).parent / "peers" / "read_tokens.py"]
    measure([*program, form, folder, str(WINDOW), said], env=environment)
    found, own = json.loads(said.read_text()), read_tokens(folder, form)
    if form in ("megatron", "mds"):
        return bool(found == own)
    shards = [shard["documents"] for shard in json.loads((folder / "tokens.json").read_text())["shards"]]
    return bool(found == list(windows(own, shards)))


def environment_of(peers: str, package: str) -> dict[str, str]:
    """The environment in which a package of others is imported."""
    return {"PYTHONPATH": os.pathsep.join([f"{peers}/{package}", f"{peers}/deps"])}


def judged(options: argparse.Namespace, tokenizer: str, scratch: Path) -> dict[str, bool]:
    """Whether each library reads our files token for token."""
    few = scratch / "few"
    few.mkdir()
    lines = (orjson.dumps(row) for row, _ in zip(rows_in(options.input), range(READ), strict=False))
    (few / "rows.jsonl").write_bytes(b"\n".join(lines))
    equal = {}
    for form, package in READERS.items():
        given = {"source": str(few), "tokenizer": tokenizer, "output": str(scratch / form), "form": form}
        measure(job("benchmarks.tokens_out:write", **given))
        equal[package] = read_equally(form, scratch / form, environment_of(options.peers, package))
    return equal


def of_transformers(tokenizer: str, folder: Path) -> str:
    """A folder with a tokenizer as transformers loads it."""
    folder.mkdir()
    shutil.copy(tokenizer, folder / "tokenizer.json")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "model_max_length": 10**9}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


def written_as_jsonl(options: argparse.Namespace, path: Path, rows: int | None = None) -> str:
    """A file with rows of the input."""
    path.parent.mkdir()
    with path.open("wb") as file:
        for row in islice(rows_in(options.input), rows):
            file.write(orjson.dumps(row) + b"\n")
    return str(path)


def our_runs(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The arguments of each way in which ours runs."""
    found: dict[str, dict[str, Any]] = {}
    for fast in (False, True)[: 1 + (find_spec("gigatoken") is not None)]:
        for workers in (0, options.workers):
            name = f"dcurate, {workers} workers" if workers else "dcurate, one process"
            found[name + ", fast" * fast] = {"workers": workers, "fast": fast}
    return found


def timed(options: argparse.Namespace, tokenizer: str, scratch: Path) -> list[dict[str, Any]]:
    """Every tool, in turns."""
    found: list[dict[str, Any]] = []
    small = str(Path(written_as_jsonl(options, scratch / "one" / "one.jsonl", 1)).parent)
    peers: dict[str, tuple[list[Any], dict[str, str]]] = {}
    here = Path(__file__).parent / "peers"
    if options.peers:
        command = [sys.executable, here / "tokens_datatrove.py", options.input, tokenizer]
        peers["datatrove"] = command, environment_of(options.peers, "datatrove")
    if options.megatron:
        whole = written_as_jsonl(options, scratch / "whole" / "whole.jsonl")
        folder = of_transformers(tokenizer, scratch / "transformers")
        peers["Megatron-LM"] = [sys.executable, here / "tokens_megatron.py", options.megatron, whole, folder], {}
    for turn in range(options.repeat):
        given: dict[str, Any] = {"source": options.input, "tokenizer": tokenizer}
        usage = measure(job("benchmarks.tokens_out:bare", **given))
        tokens = usage.result["tokens"]
        loop = usage.result["loop_cpu_s"]
        found.append({"tool": "tokenizers", **plain(usage), "start_cpu_s": usage.cpu_s - loop, "cpu_s": loop})
        for name, more in our_runs(options).items():
            output = f"{scratch}/{turn}-{name}"
            start = measure(job("benchmarks.tokens_out:ours", **given | {"source": small}, output=output + "0", **more))
            usage = measure(job("benchmarks.tokens_out:ours", **given, output=output, **more))
            assert usage.result["tokens"] == tokens
            found.append({"tool": name, **plain(usage), "start_cpu_s": start.cpu_s})
        for name, (command, environment) in peers.items():
            usage = measure([*command, str(scratch / f"{turn}-{name}")], env=environment)
            found.append({"tool": name, **plain(usage)})
            if name == "Megatron-LM":  # it keeps the order, so its file is ours
                theirs = scratch / f"{turn}-{name}_text_document.bin"
                assert filecmp.cmp(theirs, scratch / f"{turn}-dcurate, one process" / "tokens-00000.bin", shallow=False)
        for one in found:
            one |= {"tokens": tokens, "speed": tokens / one["cpu_s"]}
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each tool: the median of tokens per CPU-second, its share of the bare loop's, and the peak of memory."""
    speeds: dict[str, list[dict[str, Any]]] = {}
    for each in runs:
        speeds.setdefault(each["tool"], []).append(each)
    medians = {tool: statistics.median(each["speed"] for each in own) for tool, own in speeds.items()}
    found = {}
    for tool, own in speeds.items():
        started = statistics.median(each.get("start_cpu_s", 0.0) for each in own)
        rest = statistics.median(each["cpu_s"] - each.get("start_cpu_s", 0.0) for each in own)
        after = own[0]["tokens"] / rest / medians["tokenizers"] if tool.startswith("dcurate") else None
        found[tool] = {
            "speed": medians[tool],
            "of_bare": medians[tool] / medians["tokenizers"],
            "start_cpu_s": started,
            "of_bare_once_started": after,
            "wall_s": statistics.median(each["wall_s"] for each in own),
            "peak_mb": max(each["peak"]["tree"]["pss_mb"] for each in own),
        }
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="a folder of .jsonl.zst")
    parser.add_argument("--tokenizer", help="a tokenizer.json")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--peers", help="a folder of packages of others")
    parser.add_argument("--megatron", help="a checkout of Megatron-LM")
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    packages = ("tokenizers", "gigatoken", "numpy", "pyarrow")
    figures: dict[str, Any] = {"machine": machine(), "versions": versions(*packages), "input": Path(options.input).name}
    with scratch_folder("tokens", options.scratch) as scratch:
        tokenizer = options.tokenizer
        if tokenizer is None:
            texts = [row["text"] for row in rows_in(options.input)]
            some = texts[:: max(1, len(texts) // TRAINED_ON)]
            tokenizer = train_bpe(scratch / "tokenizer" / "tokenizer.json", some, VOCABULARY)
        figures["runs"] = timed(options, tokenizer, scratch)
        figures["tools"] = summary(figures["runs"])
        figures["equal"] = judged(options, tokenizer, scratch) if options.peers else {}
    heads = ["", "tokens per CPU-s", "of the bare loop", "start, CPU-s", "once started", "wall s", "peak PSS, MB"]
    print(table(heads, [[tool, *each.values()] for tool, each in figures["tools"].items()]))
    for package, same in figures["equal"].items():
        print(f"{package} reads {'the same tokens' if same else 'OTHER TOKENS'}")
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
