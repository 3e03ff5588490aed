"""Lists of documents to take out: what they may be, and what is refused."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, JsonlWriter, PipelineError
from dcurate.io.optouts import KINDS, OptOuts, digest_of
from dcurate.optouts.listing import read_list
from tests.optouts.conftest import list_of, remove, rows_of, run, write

ENTRIES = st.dictionaries(st.sampled_from(KINDS), st.lists(st.text(max_size=12), max_size=6), min_size=1)


@given(ENTRIES)
def test_a_list_is_the_same_after_it_was_written_and_read(entries: dict[str, list[str]]) -> None:
    optouts = OptOuts.of(entries)
    again = OptOuts.loads(optouts.dumps())
    assert again.dumps() == optouts.dumps()
    assert again.digest == optouts.digest == OptOuts.of({kind: entries[kind][::-1] for kind in entries}).digest


@given(st.lists(st.text(max_size=3)), st.lists(st.one_of(st.none(), st.integers(0, 5), st.text(max_size=3))))
def test_ids_and_texts_are_found_where_python_finds_them(entries: list[str], values: list[str | int | None]) -> None:
    optouts = OptOuts.of({"id": entries, "text": entries})
    ids = {hit.row for hit in optouts.hits(None, values, None)}
    assert ids == {row for row, value in enumerate(values) if value is not None and str(value) in entries}
    texts = {hit.row for hit in optouts.hits(None, None, values)}
    assert texts == {row for row, value in enumerate(values) if isinstance(value, str) and value in entries}


def test_all_kinds_of_files_give_the_same_list(tmp_path: Path) -> None:
    rows = [{"url": "https://a.example/x", "id": "1"}, {"url": None, "id": 'é, "q"'}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text('\ufeffurl,id\nhttps://a.example/x,1\n,"é, ""q"""\n')
    digests = {
        read_list(str(tmp_path / name), texts=False).optouts.digest for name in ("a.jsonl", "a.parquet", "a.csv")
    }
    assert len(digests) == 1
    (tmp_path / "ids.txt").write_text('1\n\né, "q"\n')
    assert read_list(str(tmp_path / "ids.txt"), "id", texts=False).entries == {"id": 2}


def test_a_domain_may_be_written_in_several_ways() -> None:
    ways = ["example.com", "*.Example.com", ".example.com.", "https://example.com/a"]
    assert {OptOuts.of({"domain": [way]}).digest for way in ways} == {OptOuts.of({"domain": ["example.com"]}).digest}


def test_what_is_not_a_url_does_not_name_documents_without_one() -> None:
    optouts = OptOuts.of({"url": ["/", "#", "http://"], "domain": ["*"]})
    assert list(optouts.hits(["", " ", None], None, None)) == []


@pytest.mark.parametrize(
    ("name", "content", "lines", "sentence"),
    [
        ("a.csv", "name,who\nx,y\n", None, r"has columns 'name', 'who'; name one of them url, domain, id, text"),
        ("a.csv", "id\n", None, r"names no document; write a url, domain, id or text per row"),
        ("a.txt", "\n \n", "id", r"names no document"),
        ("a.csv", "url,domain,id,text\n , ,\t, \n", None, r"names no document"),
        ("a.jsonl", "", None, r"names no document"),
        ("a.jsonl", "{", None, r"row 0: .*; is it JSON Lines\?"),
        ("a.parquet", "x", None, r"is truncated or not a Parquet file"),
        ("a.csv", 'id\n"a', None, r"line 1: .*; quote its values as CSV wants it"),
        ("a.csv", "id\na,b\n", None, r"line 2: more values than columns; quote its values"),
        ("a.txt", "\udcff", "id", r"is not UTF-8"),
    ],
)
def test_what_is_not_a_list_is_refused(
    name: str, content: str, lines: str | None, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=sentence):
        read_list(str(tmp_path / name), lines, texts=False)


def test_what_the_lines_of_a_text_file_are_must_be_said_and_of_others_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "a.csv").write_text("id\nx\n")
    with pytest.raises(PipelineError, match=r"is a text file; say what its lines are with --lines"):
        read_list(str(tmp_path / "a.txt"), texts=False)
    with pytest.raises(PipelineError, match=r"--lines id is for text files, and '.*a.csv' has columns; leave it out"):
        read_list(str(tmp_path / "a.csv"), "id", texts=False)
    with pytest.raises(DataError, match=r"no such file"):
        read_list(str(tmp_path / "none.csv"), texts=False)


def test_a_list_of_a_million_urls_takes_16_bytes_of_each(tmp_path: Path) -> None:
    count = 1_000_000
    with (tmp_path / "urls.txt").open("w") as file:
        file.writelines(f"https://site{n % 977}.example.com/page/{n}\n" for n in range(count))
    begun = time.process_time()
    optouts = read_list(str(tmp_path / "urls.txt"), "url", texts=False).optouts
    assert time.process_time() - begun < 60
    assert optouts.digests["url"].words.nbytes == 16 * count
    wanted = [f"http://site{n % 977}.example.com/page/{n}" for n in (0, 999_999, 1_000_001)]
    assert [hit.row for hit in optouts.hits(wanted, None, None)] == [0, 1]
    assert digest_of("a") != digest_of("b")


def test_a_link_to_an_output_is_refused(tmp_path: Path) -> None:
    run(write(tmp_path / "in", rows_of(4)), JsonlWriter(str(tmp_path / "out")))
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(DataError, match=r"is a link to '.*out'; name that"):
        remove(list_of(tmp_path / "list.jsonl", {"id": "d1"}), tmp_path / "link")
