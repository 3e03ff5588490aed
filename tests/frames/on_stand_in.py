"""Batches of a stand-in for cuDF on numba's simulated GPU: FOLDER holds ``in.parquet``; says what became of it."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlWriter,
    ParquetReader,
    Pipeline,
    Resources,
    ScoreFilter,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup.fuzzy import BandWriter
from dcurate.dedup.span_shuffle import SpanWriter
from dcurate.dedup.spans import UnitFinder
from dcurate.frames.gpus import texts_on_gpu
from dcurate.frames.text import text_column
from dcurate.kernels.signal import Signal
from dcurate.kernels.units import SpanLimits
from dcurate.text import (
    AlphaFilter,
    BoilerPlateStringFilter,
    DocumentFilter,
    PiiFilter,
    RepeatedLinesFilter,
    UrlsFilter,
    WordCountFilter,
)
from dcurate.text.filters.c4 import C4SentencesFilter
from dcurate.text.filters.fineweb import FineWebDuplicateLinesFilter
from dcurate.text.filters.gopher import GopherWordCountFilter
from dcurate_testing.cuda_measures import MEASURES
from tests.frames import stand_in

#: Filters of signals in groups, of kernels in none, and of one that takes lines out on the GPU.
FILTERS: list[DocumentFilter] = [
    WordCountFilter(min_words=1),
    UrlsFilter(),
    BoilerPlateStringFilter(),
    AlphaFilter(min_alpha_ratio=0.0),
    PiiFilter(max_pii=1),
    C4SentencesFilter(min_sentences=0),
    FineWebDuplicateLinesFilter(max_ratio=1.0),
]


def annotated(resources: Resources) -> list[ScoreFilter]:
    """A stage for each of these filters."""
    return [ScoreFilter(rule, score_field=rule.name).with_(resources=resources) for rule in FILTERS]


def note_calls(signal: Signal[..., Any], called: set[str]) -> None:
    """Have a signal note that it is computed on the GPU."""
    gpu = signal.gpu

    def noted(*given: Any) -> Any:
        called.add(signal.__name__)
        return gpu(*given)

    signal.gpu = noted


def columns(table: pa.Table) -> list[bool]:
    """Whether the layout of a column of cuDF is that of Arrow: all of it, a slice, nulls, nothing but empty texts."""
    same = []
    for rows in (table, table.slice(2, 3), table.slice(0, 0), pa.table({"text": ["", ""]}), pa.table({"text": ["é"]})):
        gpu, host = texts_on_gpu(stand_in.DataFrame(rows), "text"), text_column(rows, "text")
        texts = [gpu.data.copy_to_host()[start:stop].tobytes() for start, stop in pairwise(gpu.offsets)]
        same.append(texts == [host.data[start:stop].tobytes() for start, stop in pairwise(host.offsets)])
    return same


def spilled(table: pa.Table) -> list[bool]:
    """Whether a column that cuDF has spilled is read as one that it has not: with nulls, without, of empty texts."""
    same = []
    for rows in (table, table.slice(2, 1), table.slice(0, 0), pa.table({"text": ["", ""]})):
        gpu, host = texts_on_gpu(stand_in.DataFrame(rows, spilled=True), "text"), text_column(rows, "text")
        texts = [gpu.data.copy_to_host()[start:stop].tobytes() for start, stop in pairwise(gpu.offsets)]
        same.append(texts == [host.data[start:stop].tobytes() for start, stop in pairwise(host.offsets)])
    return same


def copied(frame: Any, *rules: DocumentFilter) -> list[Any]:
    """The copies to the host that filters of a batch on a GPU make, and the rows that they keep and drop."""
    stand_in.COPIED.clear()
    stage = ScoreFilter(list(rules), score_field=[rule.name for rule in rules])
    found = stage.with_(resources=Resources(cpus=1, gpus=1)).process(DocumentBatch(data=frame))
    copies = list(stand_in.COPIED)
    kept = found.to_arrow()
    return [copies, kept.column_names, kept["n"].to_pylist(), [one.data["n"].to_pylist() for one in found.rejections]]


def sent(frame: Any, folder: Path) -> list[Any]:
    """The bytes of text that writers of near-duplicates and spans send to the GPU for a batch that is there."""
    simulated = importlib.import_module("numba.cuda")
    to_gpu, moved = simulated.to_device, []
    vars(simulated)["to_device"] = lambda array, **more: moved.append(array.tobytes()) or to_gpu(array, **more)
    written = []
    finder = UnitFinder("line", SpanLimits(1, 0, 0), ("case",))
    for name, writer in (("bands", BandWriter), ("spans", partial(SpanWriter, finder=finder))):
        for kind, data in (("gpu", frame), ("cpu", frame.to_arrow())):
            gpus = Resources(cpus=1, gpus=int(kind == "gpu"))
            stage = writer(str(folder / name / kind), mode="overwrite").with_(resources=gpus)
            stage.prepare(resume=False)
            made = stage.process(DocumentBatch(data=data, key=BatchKey("a")))
            written.append([(folder / name / kind / part.path).read_bytes() for part in made.parts])
    vars(simulated)["to_device"] = to_gpu
    text = b"".join(map(str.encode, filter(None, frame.to_arrow()["text"].to_pylist())))
    return [text in moved, written[0] == written[1], written[2] == written[3], len(written[0]), len(written[2])]


def refused(frame: Any, name: str) -> str:
    """The message about a column that is missing or holds no text."""
    try:
        texts_on_gpu(frame, name)
    except DataError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    source = str(folder / "in.parquet")
    on_gpu = Resources(cpus=1, gpus=1)
    stages: list[AnyStage] = [
        ParquetReader(source, frames="cudf"),
        ScoreFilter(WordCountFilter(min_words=2), score_field="words").with_(resources=on_gpu),
        ScoreFilter(RepeatedLinesFilter(max_repeated_line_fraction=0.7)).with_(resources=on_gpu),
        JsonlWriter(str(folder / "gpu")),
    ]
    Pipeline("on_gpu", stages=stages).run(InlineExecutor())
    called = sorted(set(stand_in.CALLS))
    measured: set[str] = set()
    for signal in {signal for _, signal, _ in MEASURES}:
        note_calls(signal, measured)
    stages = [
        ParquetReader(source, frames="cudf"),
        *annotated(on_gpu),
        JsonlWriter(str(folder / "gpu_all")),
    ]
    Pipeline("all_on_gpu", stages=stages).run(InlineExecutor())
    table = ParquetReader(source).process(next(ParquetReader(source).splits())).to_arrow()
    frame = stand_in.DataFrame(table)
    batch = DocumentBatch(data=frame)
    kept = batch.keep(np.arange(len(frame)) % 2 == 0, "test", "odd")
    joined = DocumentBatch.joined([kept, kept])
    said = {
        "called": called,
        "measured": sorted(measured),
        "columns": columns(table.select(["text"])),
        "spilled": spilled(table.select(["text"])),
        "copied": copied(frame, WordCountFilter(min_words=2), UrlsFilter()),
        "copied_for_cpu": copied(frame, GopherWordCountFilter(min_words=0)),
        "sent": sent(frame, folder / "written"),
        "missing": refused(frame, "tex"),
        "numbers": refused(frame, "n"),
        "kept": kept.to_arrow()["n"].to_pylist(),
        "rejected": kept.rejections[0].data.to_pydict()["n"],
        "joined": [] if joined is None else [type(joined.data).__module__, *joined.to_arrow()["n"].to_pylist()],
        "types": [type(kept.data).__module__, type(DocumentBatch(data=table).to_cudf()).__module__],
        "nbytes": batch.nbytes == table.nbytes,
        "columns_of": batch.get_columns(),
    }
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap around
    stand_in.install()
    main(Path(sys.argv[1]))
