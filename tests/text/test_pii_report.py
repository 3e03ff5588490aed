from __future__ import annotations

import json
from pathlib import Path

import pytest

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Modify, Pipeline
from dcurate.core.pipeline import AnyStage
from dcurate.text import CountPii, PiiModifier

TEXTS = ["Mail jo@example.org, al@example.org or call from 8.8.8.8.", "Nothing here.", "", "At 8.8.4.4 again."]


@pytest.mark.parametrize("stage", [Modify(PiiModifier()), CountPii()], ids=["masked", "counted"])
def test_the_report_of_a_run_tells_how_much_was_found_of_each_kind_and_never_what(
    stage: AnyStage, tmp_path: Path
) -> None:
    for number, text in enumerate(TEXTS):
        (tmp_path / f"part-{number}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    pipeline = Pipeline("pii", stages=[JsonlReader(f"{tmp_path}/*.jsonl"), stage, JsonlWriter(str(tmp_path / "out"))])
    report = pipeline.run(InlineExecutor()).report
    assert report.stages[1].found == {"EMAIL_ADDRESS": 2, "IP_ADDRESS": 2}
    assert report.stages[2].found == {}
    told = json.dumps(report.to_dict())
    assert '"EMAIL_ADDRESS": 2' in told
    assert "example.org" not in told
    assert "8.8." not in told
