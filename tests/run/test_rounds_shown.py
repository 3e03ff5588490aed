"""What a person is shown as the rounds of a run, and as the names of what runs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dcurate import ExactDuplicates, Filter, FuzzyDuplicates, InlineExecutor, JsonlWriter, Pipeline, SubstringDuplicates
from dcurate.datasets import SampleRows, Shuffle
from dcurate.events import Event, RunStarted

TEXTS = [" ".join(f"word{(number // 2) * 7 + k}" for k in range(60)) for number in range(40)]


class Rounds:
    """Keeps what is said at the start of each round."""

    def __init__(self) -> None:
        self.started: list[RunStarted] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.started.append(event)


@pytest.mark.parametrize(
    "stages",
    [
        [Filter(lambda n: n > 3, "n")],
        [ExactDuplicates()],
        [FuzzyDuplicates()],
        [SubstringDuplicates(min_bytes=50)],
        [Shuffle(seed=1), SampleRows(10)],
        [ExactDuplicates(), FuzzyDuplicates(), SampleRows(10)],
    ],
    ids=lambda stages: "-".join(stage.name for stage in stages),
)
def test_the_number_of_rounds_is_right_from_the_first_on(stages: list[Any], tmp_path: Path) -> None:
    seen = Rounds()
    rows = pd.DataFrame({"text": TEXTS, "n": range(40)})
    pipeline = Pipeline("x", stages=[*stages, JsonlWriter(str(tmp_path / "out"))])
    result = pipeline.run(InlineExecutor(), rows, observers=[seen])
    assert [event.phases for event in seen.started] == [len(seen.started)] * len(seen.started)
    assert [event.phase for event in seen.started] == list(range(len(seen.started)))
    titles = result.operators["operator"].tolist()
    named = {"initial_tasks", "jsonl_writer", *(stage.name for stage in stages)}
    assert len(set(titles)) == len(titles)
    assert {name for title in titles for name in title.partition(", round")[0].split(" to ")} <= named


def test_a_lambda_is_named_by_its_column_and_a_function_by_its_own_name() -> None:
    def large(n: int) -> bool:
        return n > 2

    rows = pd.DataFrame({"n": range(5)})
    result = Pipeline("x", stages=[Filter(lambda n: n > 0, "n"), Filter(large, "n")]).run(
        InlineExecutor(), rows, observers=[]
    )
    assert result.dropped[["stage", "reason"]].to_dict("records") == [
        {"stage": "filter_fn", "reason": "large"},
        {"stage": "n", "reason": "n"},
    ]
