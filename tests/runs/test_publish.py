"""Publishing to the Hub: each file is there once, whatever happens on the way, and no secret shows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ResourceError,
    ScoreFilter,
    TableWriter,
    publish,
)
from dcurate.fs.stores import Directory
from dcurate.text import WordCountFilter
from dcurate_testing.hub_server import TOKEN, Hub, hub_server

#: huggingface_hub passes a file to its HTTP library in a way that this calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

WEB = "hf://datasets/org/web"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that this process asks, and no other."""
    with hub_server() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # the environment is read once
        yield served


def curated(folder: Path, parts: int = 3, kind: Any = ParquetWriter, **settings: Any) -> Path:
    """The output of a run in which each part of the input has two rows and one is dropped."""
    rows = [
        DocumentBatch(key=BatchKey(f"part-{number}"), data=pd.DataFrame({"text": [f"text {number}", "short"]}))
        for number in range(parts)
    ]
    stages = [ScoreFilter(WordCountFilter(min_words=2)), kind(**{"path": str(folder), **settings})]
    Pipeline("demo", stages=stages).run(InlineExecutor(), rows, observers=[])
    return folder


def stored(hub: Hub, repo: str = "org/web", branch: str = "main") -> dict[str, bytes]:
    return hub.files[repo][branch]


def same(output: Path, found: dict[str, bytes], folder: str = "data") -> bool:
    """Whether a folder of the data set holds the files of the output, and nothing else."""
    own = {f"{folder}/{path.relative_to(output)}": path.read_bytes() for path in output.rglob("*") if path.is_file()}
    return own == {path: content for path, content in found.items() if path != "README.md"}


def refusing(kind: str, after: int) -> Callable[[str, int], tuple[int, dict[str, str]] | None]:
    """A fault that refuses all requests of a kind after some of them, for ten minutes."""
    return lambda asked, number: (429, {"Retry-After": "600"}) if asked == kind and number > after else None


def test_the_files_of_a_run_are_at_the_hub_with_a_card_and_sent_once(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out")
    found = publish(str(output), WEB)
    assert (found.files, found.sent, found.commits) == (3, 3, 2)
    assert same(output, stored(hub))
    assert hub.private["org/web"]
    text = stored(hub)["README.md"].decode()
    about = yaml.safe_load(text.split("---")[1])
    assert about["size_categories"] == ["n<1K"]
    assert about["configs"][0]["data_files"] == [{"split": "train", "path": "data/**/*.parquet"}]
    assert "| word_count | 6 | 3 | word_count: 3 |" in text
    assert str(tmp_path) not in text
    again = publish(str(output), WEB)
    assert (again.sent, again.commits, len(hub.commits)) == (0, 0, 2)


def test_small_files_that_are_not_in_large_storage_are_sent_once(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out", kind=JsonlWriter)
    publish(str(output), f"{WEB}@next/en")
    assert same(output, stored(hub, branch="next"), "en")
    assert stored(hub) == {}
    assert publish(str(output), f"{WEB}@next/en").commits == 0


def test_commits_are_of_a_bounded_number_of_files(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out", 203, JsonlWriter)
    publish(str(output), WEB)
    assert [len(added) for added, _ in hub.commits] == [100, 100, 3, 1]
    assert same(output, stored(hub))


def test_the_hub_is_asked_again_after_the_seconds_that_it_says(hub: Hub, tmp_path: Path) -> None:
    times: list[tuple[str, float]] = []

    def fault(kind: str, number: int) -> tuple[int, dict[str, str]] | None:
        times.append((kind, time.monotonic()))
        return (429, {"Retry-After": "1"}) if kind == "commit" and number == 1 else None

    hub.fault = fault
    output = curated(tmp_path / "out", 1)
    publish(str(output), WEB)
    first, second = [at for kind, at in times if kind == "commit"][:2]
    assert second - first >= 1
    assert same(output, stored(hub))


def test_a_commit_whose_answer_is_lost_is_made_once(hub: Hub, tmp_path: Path) -> None:
    hub.fault = lambda kind, number: (-503, {"Retry-After": "0"}) if kind == "commit" and number < 3 else None
    output = curated(tmp_path / "out", 2)
    publish(str(output), WEB)
    assert [sorted(added) for added, _ in hub.commits] == [
        sorted(path for path in stored(hub) if path != "README.md"),
        ["README.md"],
    ]
    assert same(output, stored(hub))


@pytest.mark.program
def test_a_publication_that_is_killed_anywhere_goes_on_without_sending_twice(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out", 102)
    environment = {**os.environ, "HF_HUB_DISABLE_XET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"import dcurate; dcurate.publish({str(output)!r}, {WEB!r})"]
    for kind, after in (("put", 40), ("commit", 1)):
        reached = hub.asked[kind] + after
        hub.fault = refusing(kind, reached)
        process = subprocess.Popen(command, env=environment)
        while hub.asked[kind] <= reached:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.wait()
    hub.fault = lambda kind, number: None
    sent = len(hub.objects)
    assert sent >= 40
    puts = hub.asked["put"]
    publish(str(output), WEB)
    assert same(output, stored(hub))
    assert hub.asked["put"] - puts == 102 - sent
    added = [path for one, _ in hub.commits for path in one]
    assert len(added) == len(set(added)) == 103


def test_files_of_others_are_refused_left_or_deleted(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out", 1)
    hub.files["org/web"] = {"main": {"data/other.parquet": b"other", "notes.txt": b"mine"}}
    with pytest.raises(DataError, match=r"holds 1 files that are not of this output \(first: 'data/other.parquet'\)"):
        publish(str(output), WEB)
    assert hub.commits == []
    publish(str(output), WEB, mode="ignore")
    assert stored(hub)["data/other.parquet"] == b"other"
    assert publish(str(output), WEB, mode="overwrite").deleted == 1
    assert "data/other.parquet" not in stored(hub)
    assert stored(hub)["notes.txt"] == b"mine"


def test_a_card_keeps_what_its_owner_wrote(hub: Hub, tmp_path: Path) -> None:
    hub.files["org/web"] = {"main": {"README.md": b"---\nlicense: odc-by\n---\n# Mine\nText."}}
    for parts in (1, 2):
        publish(str(curated(tmp_path / f"out{parts}", parts)), f"{WEB}/{parts}")
        text = stored(hub)["README.md"].decode()
        assert text.startswith("---\nlicense: odc-by\n---\n# Mine\nText.\n\n<!-- dcurate: begin -->")
        assert text.count("<!-- dcurate: begin -->") == 1
    assert "| word_count | 4 | 2 | word_count: 2 |" in text


def test_what_is_no_finished_run_or_no_address_is_refused_before_anything_is_sent(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out", 1)
    with pytest.raises(
        PipelineError, match="'hf://models/org/web' is not an address of a data set; give hf://datasets/"
    ):
        publish(str(output), "hf://models/org/web")
    (tmp_path / "out.dcurate" / "running").write_text("another")
    with pytest.raises(DataError, match="has not ended well, so what is there is not all of it; end it with resume"):
        publish(str(output), WEB)
    with pytest.raises(DataError, match="holds no report"):
        publish(str(tmp_path), WEB)
    assert hub.asked.total() == 0


def test_an_output_in_a_store_is_published(hub: Hub) -> None:
    curated(Path("unused"), path="memory://published/out")
    assert publish("memory://published/out", WEB).sent == 3
    assert {path: len(data) > 0 for path, data in stored(hub).items() if path != "README.md"} == {
        f"data/{name}": True for name in Directory("memory://published/out").files()
    }


def test_the_folder_of_a_table_is_refused(hub: Hub, tmp_path: Path) -> None:
    curated(tmp_path / "out", kind=TableWriter, format="delta")
    with pytest.raises(DataError, match="is a table, of which not all files count; write its rows with ParquetWriter"):
        publish(str(tmp_path / "out"), WEB)


def test_a_token_is_never_shown_and_a_refusal_says_what_to_do(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = curated(tmp_path / "out", 1)
    with pytest.raises(ResourceError, match="does not let you write to data set 'org/web' .*; check the name, and set"):
        publish(str(output), WEB, hf_token="hf_wrongsecret")
    hub.fault = lambda kind, number: (400, {}) if kind == "put" else None
    with pytest.raises(ResourceError) as refused:
        publish(str(output), WEB, hf_token=TOKEN)
    printed = "".join([str(refused.value), *capfd.readouterr()])
    assert "hunter2" not in printed
    assert "wrongsecret" not in printed


def test_datasets_reads_what_is_published(hub: Hub, tmp_path: Path) -> None:
    output = curated(tmp_path / "out")
    publish(str(output), WEB)
    for name, content in stored(hub).items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
    texts = [
        text for path in (tmp_path / "copy").rglob("*.parquet") for text in pq.read_table(path)["text"].to_pylist()
    ]
    assert sorted(texts) == ["text 0", "text 1", "text 2"]
