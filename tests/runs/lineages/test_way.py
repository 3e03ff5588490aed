"""A row's way back to its source."""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, ParquetReader, Pipeline, PipelineError, WarcReader
from dcurate.cli import cli
from dcurate.fs.stores import Directory
from dcurate.io.rows import line_bytes
from dcurate.runs import way_back
from dcurate.text import AddId, HtmlExtractor
from tests.runs.lineages.conftest import WIDE, body, run, write_archives
from tests.runs.lineages.test_record import write_rows


def member_at(path: str, start: int) -> bytes:
    """The member of a compressed archive that begins at a byte."""
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(Path(path).read_bytes()[start:])


def test_each_token_leads_to_the_bytes_of_its_document_in_the_archive(chain: Path) -> None:
    spans = pq.read_table(chain / "tokens" / "spans").to_pylist()
    assert len(spans) == 31
    places = [f"{span['shard']}:{(span['start'] + span['end'] - 1) // 2}" for span in spans[::5]]
    for span, way in zip(spans[::5], way_back(str(chain / "tokens"), tokens=places).ways, strict=True):
        assert way.complete, way.why
        assert [step.pipeline for step in way.steps] == ["tokens", "dedup", "filter", "extract", ""]
        source = way.steps[-1]
        assert source.start is not None
        record = member_at(source.file, source.start)
        assert f"WARC-Target-URI: {span['doc']}\r\n".encode() in record
        assert body(int(span["doc"].rpartition("/")[2])).encode() in record


def test_the_command_shows_the_way_and_says_by_its_code_whether_it_ends_at_a_source(chain: Path) -> None:
    done = CliRunner().invoke(cli, ["lineage", str(chain / "tokens"), "--row", "http://example.org/8", "--json", "-"])
    assert done.exit_code == 0, done.output
    [way] = json.loads(done.output)["ways"]
    assert way["steps"][-1]["file"] == str(chain / "crawl" / "crawl-0.warc.gz")
    shown = CliRunner().invoke(cli, ["lineage", str(chain / "unique"), "--row", "http://example.org/8"], env=WIDE)
    assert "crawl-0.warc.gz, byte " in shown.output
    dropped = CliRunner().invoke(cli, ["lineage", str(chain / "tokens"), "--row", "http://example.org/0"], env=WIDE)
    assert dropped.exit_code == 1
    assert "has this id" in dropped.output


def test_a_line_of_json_is_found_by_its_bytes_and_a_row_of_parquet_by_its_number(tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / "in" / "a.jsonl", *range(50)))
    run("copy", JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "out")))
    for number in (0, 17, 49):
        [way] = way_back(str(tmp_path / "out"), [str(number)]).ways
        source = way.steps[-1]
        assert source.row == number
        assert json.loads(path.read_bytes()[source.start : source.stop])["id"] == str(number)
    pq.write_table(pa.table({"id": [f"p{number}" for number in range(9)], "text": ["t"] * 9}), tmp_path / "p.parquet")
    run("copy", ParquetReader(str(tmp_path / "p.parquet")), JsonlWriter(str(tmp_path / "rows")))
    [way] = way_back(str(tmp_path / "rows"), ["p7"]).ways
    assert (way.steps[-1].file, way.steps[-1].row, way.steps[-1].start) == (str(tmp_path / "p.parquet"), 7, None)
    (tmp_path / "z.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    run("copy", JsonlReader(str(tmp_path / "z.jsonl.gz")), JsonlWriter(str(tmp_path / "z")))
    [way] = way_back(str(tmp_path / "z"), ["3"]).ways
    assert (way.complete, way.steps[-1].row, way.steps[-1].start) == (True, 3, None)


def test_an_id_that_was_made_on_the_way_is_left_for_the_one_before(tmp_path: Path) -> None:
    write_archives(tmp_path / "crawl", archives=1)
    pages = HtmlExtractor("resiliparse")
    run("extract", WarcReader(str(tmp_path / "crawl")), pages, JsonlWriter(str(tmp_path / "pages")))
    run("ids", JsonlReader(str(tmp_path / "pages")), AddId("id"), JsonlWriter(str(tmp_path / "out")))
    line = json.loads(next((tmp_path / "out").iterdir()).read_text().splitlines()[4])
    [way] = way_back(str(tmp_path / "out"), [line["id"]]).ways
    assert way.complete, way.why
    assert way.steps[-1].start == line["offset"]


def test_what_breaks_the_way_is_said(tmp_path: Path) -> None:
    write_archives(tmp_path / "crawl", archives=1)
    stages = (WarcReader(str(tmp_path / "crawl")), HtmlExtractor("resiliparse"))
    run("extract", *stages, JsonlWriter(str(tmp_path / "pages"), fields=["url", "text"]))
    [way] = way_back(str(tmp_path / "pages"), ["http://example.org/3"]).ways
    assert not way.complete
    assert [step.pipeline for step in way.steps] == ["extract"]
    assert "the rows of" in way.why
    assert "'source_id' and 'offset'" in way.why
    write_rows(tmp_path / "in" / "a.jsonl", 1, 2)
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    run("ids", JsonlReader(str(tmp_path / "in")), AddId("id"), JsonlWriter(str(tmp_path / "out")))
    made = json.loads(next((tmp_path / "out").iterdir()).read_text().splitlines()[1])["id"]
    [way] = way_back(str(tmp_path / "out"), [made]).ways
    assert not way.complete
    assert f"has the id {made}" in way.why


def test_nothing_to_follow_and_tokens_of_other_folders_are_refused(chain: Path) -> None:
    with pytest.raises(PipelineError, match="give an id, or the place of a token"):
        way_back(str(chain / "pages"))
    with pytest.raises(PipelineError, match="holds no tokens"):
        way_back(str(chain / "pages"), tokens=["tokens-00000:1"])
    with pytest.raises(PipelineError, match="has no shard"):
        way_back(str(chain / "tokens"), tokens=["tokens-00009:1"])


def test_documents_of_several_runs_in_one_output_each_lead_to_their_file(tmp_path: Path) -> None:
    for name in "ab":
        write_rows(tmp_path / name / "x.jsonl", f"{name}1", f"{name}2")
        writer = JsonlWriter(str(tmp_path / "out"), mode="append")
        Pipeline("add", stages=[JsonlReader(str(tmp_path / name)), writer]).run(InlineExecutor(), observers=[])
    ways = way_back(str(tmp_path / "out"), ["b2", "a1"]).ways
    assert [way.steps[-1].file for way in ways] == [str(tmp_path / name / "x.jsonl") for name in "ba"]


@given(st.lists(st.binary(max_size=40), max_size=12), st.booleans())
@example([b"a" * (2**20 - 1), b"", b"b" * 2**20, b"c"], True)
@example([b"a" * 2**20, b"b"], False)
def test_the_bytes_of_a_line_are_those_of_the_line(texts: list[bytes], ends: bool) -> None:
    lines = [text.replace(b"\n", b" ") for text in texts]
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.jsonl").write_bytes(data)
        for number, line in enumerate(lines):
            span = line_bytes(Directory(folder), "a.jsonl", number)
            assert (data[slice(*span)].removesuffix(b"\n") if span else b"") == line
        assert line_bytes(Directory(folder), "a.jsonl", len(lines) + 1) is None


def test_a_source_that_is_gone_ends_the_way_with_a_sentence(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "in" / "a.jsonl", 1)
    run("copy", JsonlReader(path), JsonlWriter(str(tmp_path / "out")))
    Path(path).unlink()
    [way] = way_back(str(tmp_path / "out"), ["1"]).ways
    assert (way.complete, len(way.steps)) == (False, 1)
    assert "the files have changed" in way.why
