import os
import sys

import orjson
import pytest

from dcurate import FuzzyDuplicates, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
from dcurate.runs.manifest import provenance, shown, versions
from dcurate.text import WordCountFilter


def about(*stages, description: str | None = None):
    return provenance(Pipeline("p", description, stages), stages)


def test_stages_are_reported_with_the_settings_that_say_something(tmp_path) -> None:
    reader = JsonlReader(str(tmp_path), fields=["text"])
    described = about(reader, ScoreFilter(WordCountFilter(min_words=5)), JsonlWriter("out"), description="why")
    first, second, last = described["stages"]
    assert (described["description"], described["inputs"]) == ("why", [str(tmp_path)])
    assert first["settings"]["fields"] == "['text']"
    assert "read_kwargs" not in first["settings"]
    assert second["settings"]["filter_obj"] == "WordCountFilter(min_words=5, max_words=100000, language='en')"
    assert (second["kind"], second["needs"], last["settings"]["path"]) == ("ScoreFilter", "1 CPU", "'out'")
    assert orjson.loads(orjson.dumps(described)) == described


def test_where_groups_of_duplicates_are_written_is_reported() -> None:
    assert about(FuzzyDuplicates(report_path="groups"))["stages"][0]["groups"] == os.path.abspath("groups")
    assert about(FuzzyDuplicates(report_path="s3://b/groups"))["stages"][0]["groups"] == "s3://b/groups"
    assert "groups" not in about(FuzzyDuplicates())["stages"][0]


@pytest.mark.parametrize(
    "setting",
    [
        {"secret": "hush"},
        {"api_key": "hush"},
        {"client_kwargs": {"aws_secret_access_key": "hush"}},
        {"endpoint_url": "https://me:hush@host/path"},
        [{"password": "hush"}],
    ],
)
def test_no_secret_is_reported(setting) -> None:
    assert "hush" not in shown(setting)


def test_settings_that_only_sound_like_a_secret_are_reported() -> None:
    assert shown({"max_tokens": 5, "tokenizer": "gpt2", "keys": ["url"]}) == (
        "{max_tokens: 5, tokenizer: 'gpt2', keys: ['url']}"
    )


def test_the_command_is_reported_with_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/dcurate", "run", "r.yaml", "--set", "api_key=hush", "--set", "n=1"])
    described = about(ScoreFilter(WordCountFilter()))
    assert described["command"] == "dcurate run r.yaml --set api_key=*** --set n=1"
    assert described["resume"] == f"{described['command']} --resume"
    monkeypatch.setattr(sys, "argv", ["my_script.py", "secret"])
    described = about(ScoreFilter(WordCountFilter()))
    assert (described["command"], described["resume"]) == ("", "pipeline.run(executor, resume=True)")


def test_long_settings_are_cut() -> None:
    assert len(shown("x" * 10_000)) == 300
    assert shown(list(range(100))).endswith("19, and 80 more]")


def test_versions_are_those_of_what_is_in_use() -> None:
    assert versions().keys() >= {"Python", "dcurate", "dask", "numpy", "pandas", "pyarrow"}
