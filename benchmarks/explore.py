"""How long ``dcurate explore`` takes over many documents: to read them, and to answer each request of its page.

``python -m benchmarks.explore --input FILE [FILE ...] [--documents 1000000] [--repeat 3] [--json FILE]``. A run first
drops the short ones of paragraphs of the input, which are repeated up to ``--documents``; then the page's server is
asked over HTTP, as a browser asks, each time without what it remembers of earlier requests. See README.md here.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.filters import plain_copies
from benchmarks.measure import machine, save, scratch_folder, table, versions
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
from dcurate.runs import RunPlaces
from dcurate.text import WordCountFilter
from dcurate.ui.explore.corpus import ExploredCorpus, load_corpus
from dcurate.ui.explore.server import ExploreServer

#: Requests of the page, by what a person does.
REQUESTS = {
    "open the page": "summary?",
    "the first documents": "documents?",
    "page 1,000": "documents?page=1000",
    "sort by a score": "documents?sort=words&descending=true",
    "only the dropped": "documents?outcome=dropped",
    "a range of a score": "documents?ranges=" + urllib.parse.quote('[["words", 40, 60]]'),
    "a common word": "documents?words=the",
    "a word that no text has": "documents?words=zzqqzzqq",
    "another threshold": "threshold?stage=word_count&column=words&low=30",
}
#: Paragraphs of fewer words are dropped.
MIN_WORDS = 20
FILES = 8


def paragraphs(files: Sequence[Path]) -> Iterator[str]:
    """The paragraphs of the input's texts, without the shortest."""
    for line in itertools.chain.from_iterable(path.read_bytes().splitlines() for path in files):
        yield from (part for part in orjson.loads(line)["text"].split("\n") if len(part) > 40)


def write_documents(files: Sequence[Path], folder: Path, count: int) -> float:
    """Write paragraphs as documents, repeated up to a number; returns MB."""
    texts = list(paragraphs(files))
    folder.mkdir()
    for number in range(FILES):
        with (folder / f"part-{number}.jsonl").open("wb") as out:
            for one in range(number, count, FILES):
                row = {"id": f"d{one}", "text": texts[one % len(texts)]}
                out.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def curate(source: Path, output: Path, rejected: Path) -> None:
    """The run whose documents are explored."""
    words = ScoreFilter(WordCountFilter(min_words=MIN_WORDS), score_field="words")
    stages: list[Any] = [JsonlReader(str(source)), words, JsonlWriter(str(output))]
    Pipeline("explore", stages=stages).run(InlineExecutor(), rejected=str(rejected), observers=[])


def seconds_of(corpus: ExploredCorpus, repeat: int) -> dict[str, dict[str, float]]:
    """The seconds of each request: the median and the longest."""
    found = {}
    with ExploreServer(corpus) as server:
        for name, request in REQUESTS.items():
            taken = []
            for _ in range(repeat):
                corpus._matches.cache_clear()
                began = time.perf_counter()
                with urllib.request.urlopen(f"{server.address}api/{request}", timeout=120) as answer:
                    answer.read()
                taken.append(time.perf_counter() - began)
            found[name] = {"median_s": round(statistics.median(taken), 3), "longest_s": round(max(taken), 3)}
    return found


def measured(inputs: Sequence[Path], count: int, repeat: int, folder: Path) -> dict[str, Any]:
    """All figures."""
    copies = [copy for number, path in enumerate(inputs) for copy in plain_copies(str(path), folder / f"plain{number}")]
    mb = write_documents(copies, folder / "in", count)
    curate(folder / "in", folder / "out", folder / "rejected")
    index = folder / "index"
    index.mkdir()
    began, cpu = time.perf_counter(), time.process_time()
    corpus = load_corpus(RunPlaces(f"{folder}/out"), index, most=2 * count)
    loaded = {"wall_s": round(time.perf_counter() - began, 2), "cpu_s": round(time.process_time() - cpu, 2)}
    requests = seconds_of(corpus, repeat)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"documents": len(corpus.index), "mb": round(mb, 1), "load": loaded, "requests": requests, "peak_mb": peak}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="benchmarks.explore", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="JSONL files with texts")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scratch", metavar="DIR", help="where input and output go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("explore", options.scratch) as folder:
        figures = measured(options.input, options.documents, options.repeat, folder)
    rows = [(name, one["median_s"], one["longest_s"]) for name, one in figures["requests"].items()]
    print(table(("request", "median s", "longest s"), rows))
    load = figures["load"]
    print(
        f"\n{figures['documents']:,} documents, {figures['mb']} MB: read in {load['wall_s']} s ({load['cpu_s']} CPU-s)"
    )
    print(f"peak memory, with the run before: {figures['peak_mb']:.0f} MB")
    save(options.json, {**figures, "machine": machine(), "versions": versions("dcurate", "pyarrow", "numpy")})


if __name__ == "__main__":
    main()
