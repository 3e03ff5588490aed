"""The walk back over runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dcurate import DataError, Decontaminate, FuzzyDuplicates, InlineExecutor, JsonlReader, JsonlWriter, Pipeline
from dcurate.cli import cli
from dcurate.datasets import Blend
from dcurate.dedup import Benchmark
from dcurate.models import TextEmbedding
from dcurate.runs import Lineage, lineage
from dcurate.runs.lineages.uses import uses_of
from dcurate.ui.lineage_page import lineage_page, lineage_svg
from tests.runs.lineages.conftest import WIDE, run
from tests.runs.lineages.test_record import write_rows


def names(graph: Lineage) -> list[str]:
    return [entry.record.pipeline for entry in graph.runs.values()]


def copy(name: str, start: Path | str, end: Path, **how: Any) -> None:
    run(name, JsonlReader(str(start)), JsonlWriter(str(end), **how))


def test_a_chain_is_followed_to_files_that_no_run_made(chain: Path) -> None:
    graph = lineage(str(chain / "tokens"))
    assert names(graph) == ["tokens", "dedup", "filter", "extract"]
    sources = {read.role: read for read in graph.sources}
    assert sources["input"].address == str(chain / "crawl")
    assert (sources["input"].files, sources["input"].nbytes) == (
        2,
        sum(path.stat().st_size for path in (chain / "crawl").iterdir()),
    )
    assert sources["tokenizer"].address == str(chain / "tokenizer.json")
    assert graph.warnings == ()
    counts = [(entry.record.rows_in, entry.record.rows_out) for entry in graph.runs.values()]
    assert counts == [(31, 31), (32, 31), (40, 32), (40, 40)]
    assert lineage(str(chain / "tokens.dcurate")).output == graph.output


def test_several_inputs_files_within_outputs_and_globs_over_outputs_are_followed(tmp_path: Path) -> None:
    for name in ("web", "books", "code"):
        copy(f"make {name}", write_rows(tmp_path / "in" / f"{name}.jsonl", 1, 2, 3), tmp_path / "made" / name)
    web = str(next((tmp_path / "made" / "web").iterdir()))
    blend = Blend(4, [JsonlReader(web), JsonlReader(str(tmp_path / "made" / "[bc]*" / "*.jsonl"))], [0.5, 0.5])
    run("blend", blend, JsonlWriter(str(tmp_path / "out")))
    graph = lineage(str(tmp_path / "out"))
    assert sorted(names(graph)) == ["blend", "make books", "make code", "make web"]
    assert sorted(Path(read.address).name for read in graph.sources) == ["books.jsonl", "code.jsonl", "web.jsonl"]


def test_a_run_that_two_others_read_is_in_the_graph_once(tmp_path: Path) -> None:
    copy("first", write_rows(tmp_path / "in.jsonl", 1, 2, 3, 4), tmp_path / "a")
    copy("left", tmp_path / "a", tmp_path / "b")
    copy("right", tmp_path / "a", tmp_path / "c")
    run(
        "blend",
        Blend(4, [JsonlReader(str(tmp_path / name)) for name in "bc"], [0.5, 0.5]),
        JsonlWriter(str(tmp_path / "out")),
    )
    graph = lineage(str(tmp_path / "out"))
    assert names(graph) == ["blend", "left", "right", "first"]
    assert len(graph.edges()) == 2 + 1 + 2 * 2 + 2


def test_outputs_that_grow_from_each_other_end(tmp_path: Path) -> None:
    copy("begin", write_rows(tmp_path / "in.jsonl", 1), tmp_path / "a", mode="append")
    for number in range(3):
        copy(f"there {number}", tmp_path / "a", tmp_path / "b", mode="append")
        copy(f"back {number}", tmp_path / "b", tmp_path / "a", mode="append")
    graph = lineage(str(tmp_path / "a"))
    assert sorted(names(graph)) == ["back 0", "back 1", "back 2", "begin", "there 0", "there 1", "there 2"]
    assert lineage_svg(graph).count("<rect") == 7 + 3


def test_what_stages_read_beside_the_rows_is_in_the_graph(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.jsonl", *range(4))
    near = FuzzyDuplicates(id_field="id", index_path=str(tmp_path / "index"), report_path=str(tmp_path / "groups"))
    run("near", JsonlReader(str(tmp_path / "in")), near, JsonlWriter(str(tmp_path / "out")))
    [entry] = lineage(str(tmp_path / "out")).runs.values()
    beside = {read.role: read for read in entry.reads if read.role != "input"}
    assert set(beside) == {"index"}
    assert beside["index"].files > 0


def test_files_that_changed_or_are_gone_since_they_were_read_are_named_each_in_a_sentence(tmp_path: Path) -> None:
    for name in "abcd":
        write_rows(tmp_path / "in" / f"{name}.jsonl", name)
    copy("copy", tmp_path / "in", tmp_path / "out")
    [entry] = lineage(str(tmp_path / "out")).runs.values()
    for name in "ab":
        (tmp_path / "in" / f"{name}.jsonl").unlink()
    os.utime(tmp_path / "in" / "c.jsonl", (1, 1))
    write_rows(tmp_path / "in" / "new.jsonl", "new")  # was never read
    since = f"since run {entry.record.run} (copy) read"
    folder = tmp_path / "in"
    assert lineage(str(tmp_path / "out")).warnings == (
        f"2 files of {str(folder)!r} are gone {since} them (first: {str(folder / 'a.jsonl')!r})",
        f"1 file of {str(folder)!r} changed {since} it (first: {str(folder / 'c.jsonl')!r})",
    )
    assert lineage(str(tmp_path / "out"), check=False).warnings == ()


def test_a_model_that_changed_is_named(tmp_path: Path, chain: Path) -> None:
    shutil.copytree(chain, tmp_path / "chain")
    for records in (tmp_path / "chain").glob("*.dcurate/lineage/*.json"):
        records.write_text(records.read_text().replace(str(chain), str(tmp_path / "chain")))
    (tmp_path / "chain" / "tokenizer.json").write_text("{}")
    graph = lineage(str(tmp_path / "chain" / "tokens"))
    assert any(warning.startswith("tokenizer") and " changed since run" in warning for warning in graph.warnings)
    (tmp_path / "chain" / "tokenizer.json").unlink()
    graph = lineage(str(tmp_path / "chain" / "tokens"))
    assert any(warning.startswith("tokenizer") and " is gone since run" in warning for warning in graph.warnings)


def test_a_folder_in_which_files_were_written_one_by_one_is_no_output(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.jsonl", 1, 0)
    (tmp_path / "_dcurate" / "tmp").mkdir(parents=True)
    copy("copy", tmp_path / "in", tmp_path / "out")
    graph = lineage(str(tmp_path / "out"))
    assert graph.warnings == ()
    [entry] = graph.runs.values()
    assert entry.reads[0].address == str(tmp_path / "in")


def test_the_digest_of_bytes_depends_on_bytes_and_names_alone(tmp_path: Path) -> None:
    digests = []
    for number in range(3):
        folder = tmp_path / str(number)
        write_rows(folder / "in" / "a.jsonl", 1, number // 2)
        copy("copy", folder / "in", folder / "out")
        [entry] = lineage(str(folder / "out"), hash_bytes=True).runs.values()
        digests.append(entry.reads[0].sha256)
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 64


def test_stores_are_walked_as_disks_are(tmp_path: Path) -> None:
    place = f"memory://lineage-{os.getpid()}"
    copy("first", write_rows(tmp_path / "in.jsonl", 1), f"{place}/a")  # type: ignore[arg-type]
    copy("second", f"{place}/a", f"{place}/b")  # type: ignore[arg-type]
    graph = lineage(f"{place}/b")
    assert names(graph) == ["second", "first"]
    assert graph.warnings == ()


def test_a_run_of_an_earlier_version_is_followed_by_its_report(tmp_path: Path) -> None:
    copy("first", write_rows(tmp_path / "in.jsonl", 1), tmp_path / "a")
    copy("second", tmp_path / "a", tmp_path / "b")
    for name in "ab":
        shutil.rmtree(tmp_path / f"{name}.dcurate" / "lineage")
    graph = lineage(str(tmp_path / "b"))
    assert names(graph) == ["second", "first"]
    assert [read.address for read in graph.sources] == [str(tmp_path / "in.jsonl")]


def test_a_folder_that_no_run_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run left records of"):
        lineage(str(tmp_path))


def test_the_command_prints_and_draws_the_graph(chain: Path, tmp_path: Path) -> None:
    files = {kind: str(tmp_path / f"graph.{kind}") for kind in ("html", "svg", "dot", "json")}
    options = [part for kind, path in files.items() for part in (f"--{kind}", path)]
    done = CliRunner().invoke(cli, ["lineage", str(chain / "tokens"), *options], env=WIDE)
    assert done.exit_code == 0, done.output
    for name in ("tokens", "unique", "filtered", "pages", "crawl", "tokenizer.json"):
        assert f"{chain / name}" in done.output.replace("\n", "")
    graph = json.loads(Path(files["json"]).read_text())
    assert [entry["pipeline"] for entry in graph["runs"]] == ["tokens", "dedup", "filter", "extract"]
    assert all(entry["fingerprints"] and entry["about"]["stages"] for entry in graph["runs"])
    dot = Path(files["dot"]).read_text()
    assert dot.count(" -> ") == len(lineage(str(chain / "tokens")).edges())
    page = Path(files["html"]).read_text()
    assert page.count("<rect") == Path(files["svg"]).read_text().count("<rect") == 4 + 5 + 1
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    shown = CliRunner().invoke(cli, ["lineage", str(chain / "tokens"), "--dot", "-"], env=WIDE)
    assert shown.output == dot


def test_names_in_the_picture_are_escaped(tmp_path: Path) -> None:
    copy("<b>&\"'", write_rows(tmp_path / "<i>in.jsonl", 1), tmp_path / "out")
    graph = lineage(str(tmp_path / "out"))
    for drawn in (lineage_page(graph), str(lineage_svg(graph))):
        assert "<b>" not in drawn
        assert "<i>" not in drawn
    assert '\\"' in graph.dot()


def test_shards_that_were_joined_are_one_run(tmp_path: Path) -> None:
    for name in "abcd":
        write_rows(tmp_path / "in" / f"{name}.jsonl", name)
    pipeline = Pipeline("sharded", stages=[JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "out"))])
    for shard in ("1/2", "2/2"):
        pipeline.run_shard(shard, InlineExecutor(), observers=[])
    pipeline.finish()
    [entry] = lineage(str(tmp_path / "out")).runs.values()
    assert (entry.record.rows_in, entry.record.rows_out, entry.record.inputs["files"]) == (4, 4, 4)


def test_benchmarks_models_and_revisions_that_stages_name_are_uses(tmp_path: Path) -> None:
    tasks = [Benchmark(write_rows(tmp_path / "tasks" / "gsm.jsonl", 1), name="gsm"), Benchmark("memory://none/b.jsonl")]
    stages: list[Any] = [
        Decontaminate(tasks, name="clean"),
        TextEmbedding(model="org/embedder", revision="abc123", name="embed"),
    ]
    uses = [(use.stage, use.role, use.address, use.files, use.version) for use in uses_of([JsonlReader("in"), *stages])]
    [first, second, third] = uses
    assert first[:4] == ("clean", "file", str(tmp_path / "tasks" / "gsm.jsonl"), 1)
    assert second == ("clean", "file", "memory:///none/b.jsonl", 0, "")
    assert third == ("embed", "model", "org/embedder", 0, "abc123")
