"""Whole pipelines, from a publisher's layout to JSON Lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

from dcurate import DaskExecutor, InlineExecutor, LocalCluster, PipelineError
from dcurate.download import DownloadArxiv, DownloadWikipedia, Transfer
from dcurate.run import Executor
from tests.download.dumps import dump_site, manifest, multistream, packed, page, tarred
from tests.download.results import counts, rows, run
from tests.download.server import Files

pytestmark = pytest.mark.cluster

QUICK = Transfer(backoff_s=0, timeout_s=60, attempts=3, connections_per_host=2)


@pytest.fixture(params=["inline", "streaming"])
def executor(request: pytest.FixtureRequest) -> Executor:
    """Each way to run; the rows are the same."""
    if request.param == "inline":
        return InlineExecutor()
    cluster: LocalCluster = request.getfixturevalue("cluster")
    return DaskExecutor(cluster=cluster)


@pytest.mark.parametrize("blocksize", [None, 2000])
def test_a_wikipedia_becomes_json_lines(web: Files, tmp_path: Path, executor: Executor, blocksize: int | None) -> None:
    first = [page(n, f"Ort {n}", f"'''Ort {n}''' liegt am [[Fluss {n}|Fluss]]. " * 30) for n in range(20)]
    second = [page(30, "Weg", "#REDIRECT [[Ort 1]]", redirect="Ort 1"), page(31, "Ende", "Schluss [[Kategorie:Orte]]")]
    web.content = dump_site(
        "dewiki",
        {
            "20240620": ("waiting", {}),
            "20240601": (
                "done",
                {"dewiki-1.xml-p1.bz2": multistream(first), "dewiki-2.xml-p2.bz2": multistream(second)},
            ),
        },
    )
    web.fail("/dewiki/20240601/dewiki-1.xml-p1.bz2", 503, ("cut", 500))
    stage = DownloadWikipedia(
        "de", str(tmp_path / "files"), wikidumps_index_prefix=web.address, transfer=QUICK, blocksize=blocksize
    )
    result = run(stage, tmp_path, executor)
    found = sorted(rows(tmp_path), key=lambda row: int(row["id"]))
    assert [row["title"] for row in found] == [*(f"Ort {n}" for n in range(20)), "Ende"]
    assert found[0]["text"] == ("Ort 0 liegt am Fluss. " * 30).strip()
    assert found[-1] == {
        "text": "Schluss Orte",
        "title": "Ende",
        "id": "31",
        "url": "https://de.wikipedia.org/wiki/Ende",
        "language": "de",
        "source_id": "dewiki-20240601-dewiki-2.xml-p2.bz2",
        "file_name": "dewiki-20240601-dewiki-2.xml-p2.bz2",
    }
    assert counts(result) == {"redirect": 1}
    assert web.starts("/dewiki/20240601/dewiki-1.xml-p1.bz2") == [0, 0, 500]


def test_a_run_is_not_resumed_with_a_newer_dump(web: Files, tmp_path: Path) -> None:
    dump = {"a.xml.bz2": multistream([page(1, "A", "text")])}
    web.content = dump_site("dewiki", {"20240601": ("done", dump)})

    def stage(date: str | None) -> DownloadWikipedia:
        return DownloadWikipedia("de", str(tmp_path / "files"), date, web.address, transfer=QUICK)

    run(stage(None), tmp_path, InlineExecutor())
    assert run(stage(None), tmp_path, InlineExecutor(), resume=True).report.splits_before == 1
    web.content = dump_site("dewiki", {"20240601": ("done", dump), "20240701": ("done", dump)})
    with pytest.raises(PipelineError, match="begun by another pipeline"):
        run(stage(None), tmp_path, InlineExecutor(), resume=True)


def test_a_copy_of_arxiv_on_a_disk_is_read_as_the_bucket_is(tmp_path: Path) -> None:
    (tmp_path / "copy" / "src").mkdir(parents=True)
    paper = packed(rb"\section{One} text")
    (tmp_path / "copy" / "src" / "arXiv_src_2101_001.tar").write_bytes(tarred({"2101/2101.00001.gz": paper}))
    stage = DownloadArxiv(str(tmp_path / "files"), arxiv_prefix=str(tmp_path / "copy"), record_limit=5)
    run(stage, tmp_path, InlineExecutor())
    assert [(row["id"], row["text"]) for row in rows(tmp_path)] == [("2101.00001", r"\section{One} text")]


@pytest.mark.s3
def test_arxiv_becomes_json_lines(bucket: tuple[str, dict[str, Any]], tmp_path: Path, executor: Executor) -> None:
    tex = r"\documentclass{article}\newcommand{\R}{\mathbb{R}}\section{Intro} On $\R$. \bibliography{refs}"
    first = {"0001/hep-th0001001.gz": packed(tarred({"p.tex": tex.encode()})), "0001/0001002.pdf": b"%PDF"}
    archives = {
        "src/arXiv_src_0001_001.tar": tarred(first),
        "src/arXiv_src_2101_001.tar": tarred({"2101/2101.00001.gz": packed(tex.replace("Intro", "Later").encode())}),
    }
    url, options = bucket
    store = fsspec.filesystem("s3", **options)
    for name, data in {**archives, "src/arXiv_src_manifest.xml": manifest(archives)}.items():
        store.pipe_file(f"{url}/{name}", data)
    transfer = Transfer(storage_options={**options, "requester_pays": True}, backoff_s=0)
    stage = DownloadArxiv(str(tmp_path / "files"), arxiv_prefix=url, transfer=transfer, keep_files=False)
    result = run(stage, tmp_path, executor)
    assert rows(tmp_path) == [
        {
            "text": f"\\section{{{title}}} On $\\mathbb{{R}}$.",
            "id": name,
            "source_id": f"arXiv_src_{month}_001.tar",
            "file_name": f"arXiv_src_{month}_001.tar",
        }
        for title, name, month in (("Intro", "hep-th/0001001", "0001"), ("Later", "2101.00001", "2101"))
    ]
    assert counts(result) == {"pdf only": 1}
    assert list((tmp_path / "files").iterdir()) == []
