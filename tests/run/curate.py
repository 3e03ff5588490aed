"""A program that tests start, kill and start again: ``python -m tests.run.curate INPUT OUTPUT MODE KIND``."""

import sys

from dcurate import (
    DaskExecutor,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
)
from tests.deadly import DeadlyJsonl
from tests.stages import KeepEvery, OneByOne, Sleep


def pipeline(source: str, output: str) -> Pipeline:
    return Pipeline(
        "curate",
        stages=[
            JsonlReader(source),
            Sleep(0.02),
            KeepEvery(5, 1).with_(name="drop_some"),
            ExactDuplicates(),
            OneByOne(),
            Sleep(0.002).with_(name="nap", batch_size=4),
            JsonlWriter(output),
        ],
    )


def near_duplicates(source: str, output: str) -> Pipeline:
    """What a search for near-duplicates gives, with the groups that it found."""
    dedup = FuzzyDuplicates(report_path=f"{output}/groups", id_field="id", keep="longest")
    return Pipeline("near", stages=[JsonlReader(source), Sleep(0.02), dedup, JsonlWriter(output)])


def unreadable(source: str, output: str) -> Pipeline:
    """A reader that raises on some lines."""
    return Pipeline("read", stages=[DeadlyJsonl(source).with_(ignore_failures=True), JsonlWriter(output)])


KINDS = {"several": pipeline, "proved": pipeline, "near": near_duplicates, "unreadable": unreadable}

if __name__ == "__main__":
    _, source, output, mode, kind = sys.argv
    cluster = None if mode == "inline" else LocalCluster(n_workers=2, gpus=False)
    executor = InlineExecutor() if cluster is None else DaskExecutor({"execution_mode": mode}, cluster)
    KINDS[kind](source, output).run(executor, resume=True, proof=kind == "proved")
