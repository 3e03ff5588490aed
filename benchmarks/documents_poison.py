"""Damaged and hostile PDFs: what becomes of each, and what they cost the others.

Run as ``python -m benchmarks.documents_poison DIR`` for the figures of `benchmarks.documents`, or with
``--files 10000`` for a run on workers over that number of PDFs, 5 % of them poisoned.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import orjson
import psutil
import pyarrow as pa

from dcurate import (
    BatchKey,
    DaskExecutor,
    DcurateError,
    DocumentBatch,
    JsonlWriter,
    LocalCluster,
    PdfReader,
    Pipeline,
    read_run,
)
from dcurate.core.pipeline import AnyStage
from dcurate.documents import PdfExtract
from dcurate.documents.child import WARM
from dcurate.media import FileReading, Ref, ref_array

#: Seconds that a PDF may take, and how long all of it may take: two tries, and two starts of a process.
TIMEOUT_S, STARTS_S = 20.0, 10.0
#: Share of the files that are poisoned, in the figure beside clean ones.
SHARE = 0.05
#: Share of the words of the good file that a damaged one must still give, where it should give its text.
WORDS = 0.9


def run(input_dir: str | Path) -> dict[str, Any]:
    """Read every poisoned PDF of a folder alone, and time it and the clean ones.

    Args:
        input_dir: has ``poison.tar.zst`` and its truth; ``made.tar`` and ``real.tar`` are the clean ones, if there.

    Returns:
        ``files``, and of these ``right`` (as ``expect`` says), ``crashed`` (the stage raised), ``lost`` (neither a row
        nor in quarantine with a reason), ``over_time``; ``wrong`` by name; ``pages_per_cpu_s_beside_clean``: pages a
        second of CPU of clean files with 5 % poisoned ones among them, over that of clean files alone. It is computed
        from the two totals, so that the bombs weigh as they do on average.
    """
    folder = Path(input_dir)
    truth = {row["file"]: row for row in _lines(folder / "poison-truth.jsonl.zst")}
    good = truth.pop("", {}).get("text", "")
    with tempfile.TemporaryDirectory() as scratch:
        poison = [path for path in _unpacked(folder / "poison.tar.zst", Path(scratch, "poison")) if path.name in truth]
        parts = [name for name in ("made", "real") if (folder / f"{name}.tar").exists()]
        clean = [path for name in parts for path in _unpacked(folder / f"{name}.tar", Path(scratch, name))]
        clean = clean or [WARM]
        found, wrong = Counter[str](), dict[str, str]()
        idle, _ = _cpu(clean[0], lambda stage: None)  # compiles
        idle, _ = _cpu(clean[0], lambda stage: None)
        poison_cpu, _ = _cpu(clean[0], lambda stage: _judge_all(stage, poison, truth, good, found, wrong))
        clean_cpu, pages = _cpu(clean[0], lambda stage: _pages(stage, clean))
        poison_cpu, clean_cpu = poison_cpu - idle, clean_cpu - idle
    each = poison_cpu / max(len(poison), 1)
    beside = clean_cpu / (clean_cpu + SHARE / (1 - SHARE) * len(clean) * each)
    return {
        "files": len(poison),
        **{name: found[name] for name in ("right", "crashed", "lost", "over_time")},
        "wrong": wrong,
        "clean_pages_per_cpu_s": round(pages / clean_cpu, 1),
        "poison_cpu_s_per_file": round(each, 3),
        "pages_per_cpu_s_beside_clean": round(beside, 3),
    }


def _judge_all(
    stage: PdfExtract, poison: list[Path], truth: dict[str, Any], good: str, found: Counter[str], wrong: dict[str, str]
) -> None:
    for path in poison:
        begun = time.monotonic()
        try:
            result = stage.process(_batch([path]))
        except DcurateError as error:
            found["crashed"] += 1
            wrong[path.name] = f"{type(error).__name__}: {error}"
            continue
        found["over_time"] += time.monotonic() - begun > 2 * TIMEOUT_S + STARTS_S
        rows, lost = result.to_arrow().to_pylist(), result.rejections
        found["lost"] += len(rows) + sum(each.rows for each in lost if each.reason) != 1
        outcome = (rows[0]["text"], rows[0]["n_characters"]) if rows else (None, 0)
        reason = lost[0].reason if lost else ""
        if _is_right(truth[path.name], outcome[0], reason, good):
            found["right"] += 1
        else:
            wrong[path.name] = reason or f"{outcome[1]} characters"


def _is_right(expected: dict[str, Any], text: str | None, reason: str, good: str) -> bool:
    """Whether the outcome is the expected one; any bounded one is, where ``expect`` says so."""
    whole = len(good.split()) if expected["bytes"] > len(good) / 4 else 0  # smaller files are others, of a word or two
    match expected["expect"]:
        case "text":
            if not whole:
                return bool(text and text.strip())
            there = Counter((text or "").split())
            return sum((there & Counter(good.split())).values()) >= WORDS * whole
        case "partial":
            return bool(text and text.strip())
        case "error":
            return text is None and bool(reason)
        case "pages":
            return reason == "no pages" or (text is not None and not text.strip())
        case "bounded":
            return text is not None or bool(reason)
    return False


def _pages(stage: PdfExtract, paths: list[Path]) -> int:
    rows = stage.process(_batch(paths)).to_arrow()
    return sum(rows["n_pages"].to_pylist())


def _batch(paths: list[Path]) -> DocumentBatch:
    refs = ref_array([Ref(str(path)) for path in paths])
    return DocumentBatch(data=pa.table({"media_ref": refs}), key=BatchKey("files"))


def _cpu(first: Path, work: Callable[[PdfExtract], Any]) -> tuple[float, Any]:
    """Seconds of CPU of a stage, its processes included, that reads a file and does a piece of work; and its result."""
    before = _used()
    stage = PdfExtract(reading=FileReading(timeout_s=TIMEOUT_S))
    stage.process(_batch([first]))
    result = work(stage)
    stage.teardown()
    return _used() - before, result


def _used() -> float:
    """CPU-seconds of this process, and of all below it that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as file:
        yield from map(orjson.loads, file.read().splitlines())


def _unpacked(archive: Path, folder: Path) -> list[Path]:
    folder.mkdir(parents=True)
    data = pa.OSFile(str(archive))
    with tarfile.open(
        fileobj=pa.CompressedInputStream(data, "zstd") if archive.suffix == ".zst" else data, mode="r|"
    ) as tar:
        tar.extractall(folder, filter="data")
    return sorted(path for path in folder.rglob("*") if path.is_file())


class _Memory:
    """Samples the memory of this process and of all below it, in bytes."""

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def quarters(self) -> list[int]:
        """The most in MB in each quarter of the time."""
        step = max(1, -(-len(self._samples) // 4))
        return [max(self._samples[at : at + step]) // 10**6 for at in range(0, len(self._samples), step)]

    def _watch(self) -> None:
        while not self._stop.wait(2.0):
            size = 0
            for process in (own := psutil.Process(), *own.children(recursive=True)):
                with suppress(psutil.Error):
                    size += process.memory_info().rss
            self._samples.append(size)


def run_many(input_dir: str | Path, files: int) -> dict[str, Any]:
    """Run over many PDFs on two workers, without and with 5 % of poisoned ones among them.

    The clean ones are the small files of ``made.tar`` in turn; without poisoned ones a fifth as many are read. What a
    run of a few files takes, the start of the workers above all, is left out of the pages a second.
    """
    folder, found = Path(input_dir), dict[str, Any]()
    with tempfile.TemporaryDirectory() as scratch:
        poison = _unpacked(folder / "poison.tar.zst", Path(scratch, "poison"))
        small = [path for path in _unpacked(folder / "made.tar", Path(scratch, "made")) if path.stat().st_size < 2**16]
        for name, share, count in (("start", 0.0, 40), ("clean", 0.0, files // 5), ("poisoned", SHARE, files)):
            inputs = Path(scratch, name)
            inputs.mkdir()
            every = round(1 / share) if share else 0
            bad = 0
            for number in range(count):
                is_bad = bool(every) and number % every == every - 1
                source = poison[bad % len(poison)] if is_bad else small[number % len(small)]
                bad += is_bad
                shutil.copyfile(source, inputs / f"{number:06d}.pdf")
            begun, out = time.monotonic(), Path(scratch, f"{name}-out")
            before = _used()
            stages: list[AnyStage] = [
                PdfReader(str(inputs)),
                PdfExtract(reading=FileReading(timeout_s=TIMEOUT_S)),
                JsonlWriter(str(out)),
            ]
            with LocalCluster(n_workers=2), _Memory() as memory:
                Pipeline(name, stages=stages).run(DaskExecutor(), observers=[])
            report = read_run(str(out)).report
            extract = next(stage for stage in report.stages if stage.name == "pdf_extract")
            pages = sum(json.loads(line)["n_pages"] for path in out.glob("*.jsonl") for line in path.open())
            found[name] = {
                "files": report.stages[0].rows_out,
                "rows": extract.rows_out,
                "set_aside": sum(extract.faulty.values()) + sum(extract.dropped.values()),
                "reasons": dict(extract.faulty) | dict(extract.dropped),
                "pages": pages,
                "cpu_s": round(_used() - before, 1),
                "seconds": round(time.monotonic() - begun, 1),
                "peak_mb_by_quarter": memory.quarters(),
            }
    start = found.pop("start")
    for each in found.values():
        each["pages_per_cpu_s"] = round((each["pages"] - start["pages"]) / (each["cpu_s"] - start["cpu_s"]), 1)
    beside = found["poisoned"]["pages_per_cpu_s"] / found["clean"]["pages_per_cpu_s"]
    return {**found, "start_cpu_s": start["cpu_s"], "pages_per_cpu_s_beside_clean": round(beside, 3)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("--files", type=int)
    given = parser.parse_args()
    print(json.dumps(run_many(given.input, given.files) if given.files else run(given.input), indent=2))
