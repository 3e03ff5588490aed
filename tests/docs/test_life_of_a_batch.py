"""The page names functions in the order in which a batch comes to them."""

import importlib
import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, Resources, ScoreFilter
from dcurate.text import WordCountFilter

PAGE = (Path(__file__).parents[2] / "docs" / "life-of-a-batch.md").read_text("utf-8")
#: What another backend or another course of events has.
ELSEWHERE = ("dcurate.engine.dask", "dcurate.engine.worker.sandbox", "dcurate.engine.flow:Flow.failed")
#: What is called again and again, from the beginning on.
LOOP = ("dcurate.engine.driver:DriverLoop.run", "dcurate.engine.flow:Flow.advance")


def named() -> dict[str, Any]:
    """The functions and classes that the page names, in its order."""
    found = {}
    for mention in re.findall(r"`(dcurate[\w.]*:[\w.]+)`", PAGE):
        module, _, name = mention.partition(":")
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        found[mention] = value
    return found


def test_it_has_at_most_14_stops() -> None:
    stops = [int(number) for number in re.findall(r"^(\d+)\. ", PAGE, re.MULTILINE)]
    assert stops == list(range(1, len(stops) + 1))
    assert 10 <= len(stops) <= 14


def test_a_batch_comes_to_every_function_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "one two three"}\n')
    pipeline = Pipeline(
        "life",
        stages=[
            JsonlReader(str(tmp_path / "in.jsonl")),
            ScoreFilter(WordCountFilter(min_words=1)),
            JsonlWriter(str(tmp_path / "out")).with_(resources=Resources(cpus=2)),
        ],
    )
    codes: dict[CodeType, str] = {}
    for mention, value in named().items():
        if not mention.startswith(ELSEWHERE):
            own = JsonlReader.splits if mention.endswith("SourceStage.splits") else value
            codes[own.__code__] = mention
    called: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            called.setdefault(codes[frame.f_code])

    sys.setprofile(note)
    try:
        pipeline.run(InlineExecutor(), observers=[])
    finally:
        sys.setprofile(None)
    inline = [mention for mention in named() if not mention.startswith(ELSEWHERE)]
    assert called.keys() == set(inline)
    assert [mention for mention in called if mention not in LOOP] == [
        mention for mention in inline if mention not in LOOP
    ]
