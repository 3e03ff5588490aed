"""What a summary refuses, in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcurate import DataError, PipelineError
from dcurate.runs import SummaryOptions, training_summary
from tests.runs.summary.corpora import write

ROWS = [{"text": "word", "n_tokens": 1}] * 2


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: training_summary(str(folder / "nothing")), "holds nothing to count"),
        (lambda folder: training_summary([]), "name at least one output"),
        (lambda folder: training_summary([str(folder), str(folder)]), "is named twice"),
        (lambda folder: training_summary(str(folder / "csv")), "files of other kinds (.csv)"),
        (lambda folder: training_summary(str(folder / "table")), "is a table"),
        (lambda folder: training_summary(str(folder / "bad")), "is it JSON Lines?"),
        (lambda folder: training_summary(str(folder / "cut")), "is truncated or not a Parquet file"),
        (lambda folder: training_summary(str(folder / "tar")), "is cut or not a tar archive"),
        (lambda folder: training_summary(str(folder / "tokens")), "is damaged"),
        (
            lambda folder: training_summary(str(folder / "good"), options=SummaryOptions(columns={"url": "link"})),
            "column 'link' for url is in no file",
        ),
        (
            lambda folder: training_summary(str(folder / "typed"), options=SummaryOptions(columns={"url": "n_tokens"})),
            "has a type that does not suit",
        ),
        (lambda folder: SummaryOptions(columns={"link": "url"}), "unknown role 'link'"),
        (lambda folder: training_summary(str(folder / "good"), facts={"contact": "Jo"}), "unknown key 'contact'"),
        (
            lambda folder: training_summary(str(folder / "good"), facts={"user_data_used": "no"}),
            "must be true or false",
        ),
        (lambda folder: training_summary(str(folder / "good"), facts={"crawlers": [{}]}), "must be text, or a list"),
        (
            lambda folder: training_summary(str(folder / "good"), facts={"public_datasets": [{"link": "x"}]}),
            "must be a list of data sets",
        ),
        (lambda folder: training_summary(str(folder / "good"), facts=str(folder / "none.yaml")), "cannot be read"),
        (lambda folder: training_summary(str(folder / "good"), facts=str(folder / "facts.yaml")), "is not YAML"),
        (lambda folder: training_summary(str(folder / "good"), facts=str(folder / "code.yaml")), "is not YAML"),
        (lambda folder: training_summary(str(folder / "good"), facts=str(folder / "list.yaml")), "must be a mapping"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(make: Any, sentence: str, tmp_path: Path) -> None:
    contents = {
        "csv/a.csv": b"a,b\n",
        "table/_delta_log/0.json": b"{}",
        "bad/a.jsonl": b'{"a": 1}\n{"a": \n',
        "cut/a.parquet": b"PAR1 cut",
        "tar/a.tar": b"not a tar archive",
        "tokens/tokens.json": b'{"shards": 3}',
        "good/a.jsonl": b'{"text": "a"}\n',
        "facts.yaml": b"a: [",
        "code.yaml": b"provider_name: !!python/object/apply:os.system ['touch hacked']",
        "list.yaml": b"- a",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    write(tmp_path / "typed", [ROWS], "parquet")
    with pytest.raises((DataError, PipelineError)) as error:
        make(tmp_path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
