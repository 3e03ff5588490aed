from __future__ import annotations

import gzip
import io
import re
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError
from dcurate.download import ArxivExtractor, ArxivIterator, ArxivUrlGenerator, Skipped, Transfer
from dcurate.download.arxiv.papers import arxiv_id
from tests.download.dumps import manifest, packed, tarred
from tests.download.server import Files
from tests.media.test_foreign import ODD, member, pax

QUICK = Transfer(backoff_s=0, timeout_s=60, attempts=1)
TEX = rb"\section{One} A paper."


def papers(tmp_path: Path, files: dict[str, bytes]) -> list[Any]:
    path = tmp_path / "arXiv_src_0001_001.tar"
    path.write_bytes(tarred(files))
    return list(ArxivIterator().iterate(str(path)))


def text(*files: str) -> str | None:
    row = ArxivExtractor().extract({"id": "1", "source_id": "s", "content": list(files)})
    return None if row is None or isinstance(row, Skipped) else row["text"]


def test_archives_are_listed_with_what_the_manifest_says_of_them(web: Files) -> None:
    archives = {"src/arXiv_src_0002_001.tar": b"two", "src/arXiv_src_0001_001.tar": b"one"}
    web.content["/src/arXiv_src_manifest.xml"] = manifest(archives)
    first, second = ArxivUrlGenerator(web.address, QUICK).generate_files()
    assert first.url == web.url("/src/arXiv_src_0001_001.tar")
    assert (first.size, first.digest) == (3, "md5:f97c5d29941bfb1b2fdab0874906ab82")
    assert second.url.endswith("0002_001.tar")


def test_a_manifest_with_entities_is_refused(web: Files) -> None:
    web.content["/src/arXiv_src_manifest.xml"] = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    with pytest.raises(DataError, match="document type declaration"):
        ArxivUrlGenerator(web.address, QUICK).generate_files()


def test_a_server_without_a_manifest_is_reported(web: Files) -> None:
    with pytest.raises(DataError, match="arXiv_src_manifest.xml: 404"):
        ArxivUrlGenerator(web.address, QUICK).generate_files()


@pytest.mark.s3
def test_a_bucket_without_a_manifest_is_listed_itself(bucket: tuple[str, dict[str, Any]]) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options)
    for name in ("arXiv_src_0002_001.tar", "arXiv_src_0001_001.tar", "notes.txt"):
        store.pipe_file(f"{url}/src/{name}", b"data")
    transfer = Transfer(storage_options={**options, "requester_pays": True}, attempts=1)
    found = ArxivUrlGenerator(url, transfer).generate_files()
    assert [(file.url, file.size) for file in found] == [
        (f"{url}/src/arXiv_src_0001_001.tar", 4),
        (f"{url}/src/arXiv_src_0002_001.tar", 4),
    ]


def test_papers_come_out_of_archives_within_the_archive_and_of_single_files(tmp_path: Path) -> None:
    project = tarred({"main.tex": TEX, "figures/a.eps": b"%!PS", "sub/more.TEX": b"\\section{Two}"})
    files = {"0001/hep-th0001001.gz": packed(project), "0001/0001.00002.gz": packed(TEX), "0001/0001.00003": TEX}
    assert papers(tmp_path, files) == [
        {"id": "hep-th/0001001", "source_id": "arXiv_src_0001_001.tar", "content": [TEX.decode(), r"\section{Two}"]},
        {"id": "0001.00002", "source_id": "arXiv_src_0001_001.tar", "content": [TEX.decode()]},
        {"id": "0001.00003", "source_id": "arXiv_src_0001_001.tar", "content": [TEX.decode()]},
    ]


def test_what_gives_no_paper_is_counted_by_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcurate.download.arxiv.papers.LARGEST_PAPER", 1_000_000)
    whole = packed(tarred({"main.tex": TEX * 200}))
    files = {
        "a/0001001.pdf": b"%PDF-1.4",
        "a/0001002.gz": packed(b"%PDF-1.4"),
        "a/0001003.gz": packed(b"%!PS-Adobe"),
        "a/0001004.gz": packed(tarred({"readme.txt": b"text"})),
        "a/0001005.gz": whole[: len(whole) // 2],
        "a/0001006.gz": whole[:30] + b"\xff\xff\xff" + whole[33:],
        "a/0001007.gz": packed(tarred({"../../etc/x.tex": TEX})),
        "a/0001008.gz": packed(tarred({"/etc/x.tex": TEX})),
        "../0001009.gz": packed(TEX),
        "a/0001010.gz": packed(b"\0" * 3_000_000),
        "a/0001011.gz": packed(tarred({"a.tex": TEX})[:700]),
    }
    found = papers(tmp_path, files)
    assert [(each.reason, each.fault, each.id) for each in found] == [
        ("pdf only", False, "0001001"),
        ("pdf only", False, "0001002"),
        ("no TeX source", False, "0001003"),
        ("no TeX source", False, "0001004"),
        ("damaged", True, "0001005"),
        ("damaged", True, "0001006"),
        ("unsafe path", True, "0001007"),
        ("unsafe path", True, "0001008"),
        ("unsafe path", True, "0001009"),
        ("damaged", True, "0001010"),
        ("damaged", True, "0001011"),
    ]


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("field", ["size", "mtime", "GNU.sparse.size", "GNU.sparse.map", "GNU.sparse.realsize"])
def test_an_odd_number_in_a_paper_costs_that_paper(kind: str, field: str, tmp_path: Path) -> None:
    odd = gzip.compress(pax([(field, ODD[kind])]) + member("a.tex", TEX) + bytes(1024))
    found = papers(tmp_path, {"0001/0001001.gz": odd, "0001/0001002.gz": gzip.compress(TEX)})
    assert len(found) == 2
    assert found[1]["content"] == [TEX.decode()]


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("main.tex")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (found,) = papers(tmp_path, {"a/0001001.gz": packed(buffer.getvalue())})
    assert (found.reason, found.fault) == ("unsafe path", True)


def test_an_archive_that_is_cut_short_gives_its_papers_first(tmp_path: Path) -> None:
    data = tarred({"a/0001001.gz": packed(TEX), "a/0001002.gz": packed(TEX), "a/0001003.gz": packed(TEX)})
    for cut in (1024 * 2 + 100, 1024 * 2, 1024 * 2 + 520):
        (tmp_path / "a.tar").write_bytes(data[:cut])
        found = []
        with pytest.raises((tarfile.TarError, OSError)):
            found.extend(ArxivIterator().iterate(str(tmp_path / "a.tar")))
        assert [paper["id"] for paper in found if isinstance(paper, dict)] == ["0001001", "0001002"]


@pytest.mark.parametrize(
    ("data", "decoded"),
    [
        ("\\section{Ü}".encode(), "\\section{Ü}"),
        ("\ufeff\\section{Ü}".encode(), "\\section{Ü}"),
        ("\\section{Ü}".encode("latin-1"), "\\section{Ü}"),
        ("\\usepackage[koi8-r]{inputenc}\\section{Ж}".encode("koi8-r"), "\\usepackage[koi8-r]{inputenc}\\section{Ж}"),
        ("\\usepackage[nonsense]{inputenc}é".encode("latin-1"), "\\usepackage[nonsense]{inputenc}é"),
    ],
)
def test_tex_of_any_encoding_is_read(tmp_path: Path, data: bytes, decoded: str) -> None:
    ((paper),) = papers(tmp_path, {"a/0001001.gz": packed(data)})
    assert paper["content"] == [decoded]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("0001/astro-ph0001001.gz", "astro-ph/0001001"),
        ("0704/0704.0001.gz", "0704.0001"),
        ("2101/2101.00001.pdf", "2101.00001"),
        ("2101/2101.00001", "2101.00001"),
        ("x/odd name.gz", "odd name"),
    ],
)
def test_identifiers_are_those_of_arxiv(path: str, wanted: str) -> None:
    assert arxiv_id(path) == wanted


@pytest.mark.parametrize(
    ("tex", "wanted"),
    [
        (r"\documentclass{a} \section{One} text", r"\section{One} text"),
        (r"x \section*{One} text", r"\section*{One} text"),
        (r"x \section[short]{One} text", r"\section[short]{One} text"),
        (r"x \paragraph{One} text", r"\paragraph{One} text"),
        (r"x \subparagraph{One} text", r"\subparagraph{One} text"),
        (r"x \sectionmark{One} text", None),
        ("no section", None),
        ("%\\section{commented out}\n\\usepackage{a}\\section{One}", r"\section{One}"),
        (r"\section{One} a \appendix \section{Two}", r"\section{One} a"),
        (r"\section{One} a \bibliography{refs} b", r"\section{One} a"),
        (r"\section{One} a \bibliographystyle{plain} b", r"\section{One} a \bibliographystyle{plain} b"),
        (r"\section{One} a \begin{thebibliography}{9} b", r"\section{One} a"),
        (r"\section{One} a \begin{references} b", r"\section{One} a"),
        ("\\section{One} word% gone\nnext", "\\section{One} word\nnext"),
        ("\\section{One} 5\\% of it % gone\nnext", "\\section{One} 5\\% of it \nnext"),
        ("\\section{One} end\\\\% gone\nnext", "\\section{One} end\\\\\nnext"),
        ("\\section{One}\n% line\n  % line\nnext%", "\\section{One}\nnext"),
        (r"\newcommand{\R}{\mathbb{R}} \section{One} $\R$ \Rx \R2", r"\section{One} $\mathbb{R}$ \Rx \R2"),
        (r"\newcommand*{\a}{A}\def \b {B}\section{One} \a\b\a.", r"\section{One} ABA."),
        (r"\def\a{é\1}\section{One} \a", r"\section{One} é\1"),
        (r"\def\a{\b}\def\b{\a}\section{One} \a", r"\section{One} \a"),
        (r"\def\b{\c}\def\c{C}\section{One} \b", r"\section{One} C"),
        (r"\section{One} \newcommand{\a}{A}use \a", r"\section{One} use A"),
        (r"\newcommand{\a}[1]{A#1}\section{One} \a{x}", r"\section{One} \a{x}"),
    ],
)
def test_latex_becomes_the_text_of_its_sections(tex: str, wanted: str | None) -> None:
    assert text(tex) == wanted


def test_macros_of_one_file_count_in_all_and_files_without_sections_leave_no_trace() -> None:
    assert text(r"\def\a{A}", r"\section{1} \a", "", r"\chapter{2} \a") == "\\section{1} A\n\\chapter{2} A"
    assert text("", "no section", "") is None


def test_macros_that_would_grow_without_bound_are_left_as_they_are() -> None:
    names = [chr(ord("a") + number) for number in range(26)]
    bomb = "".join(f"\\def\\{one}{{" + f"\\{two}" * 10 + "}" for one, two in pairwise(names))
    found = text(bomb + r"\section{One} \a \w")
    assert found is not None
    assert len(found) < 20_000


def _by_the_original(tex: str) -> str:
    """The rules as NeMo Curator carries them out, for a file without comments and macros."""
    kinds = "chapter|part|section|subsection|subsubsection"
    pattern = "|".join(rf"\\\b{kind}\b\*?(?:\[(.*?)\])?\{{(.*?)\}}" for kind in kinds.split("|"))
    if not re.search(pattern, tex, re.DOTALL):
        return ""
    tex = re.sub(rf"^(.*?)({pattern})", r"\2", tex, count=1, flags=re.DOTALL)
    back = (
        r"(\\appendix|\\begin\{references\}|\\begin\{REFERENCES\}|\\begin\{thebibliography\}|\\bibliography\{.*\}).*$"
    )
    return re.sub(back, "", tex, flags=re.DOTALL)


_ATOMS = [
    "words ", r"\section{One}", r"\subsection*{Two}", r"\chapter[a]{Three}", "\n", r"\appendix ",
    r"\bibliography{refs}",    r"\begin{thebibliography}{9}", r"\title{T}", "$x$ ", r"\cite{a} ", "é",
]  # fmt: skip


@given(st.lists(st.sampled_from(_ATOMS), max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_without_comments_and_macros_it_is_what_the_rules_of_nemo_curator_give(tex: str) -> None:
    assert (text(tex) or "") == _by_the_original(tex).strip()


@given(
    st.lists(st.sampled_from([*r"\{}%[]ab1 ", "\n", r"\def\a", r"\section{", r"\newcommand{\b}{"]), max_size=40).map(
        "".join
    )
)
@settings(max_examples=300, deadline=None)
def test_no_tex_makes_it_raise(tex: str) -> None:
    text(tex, tex)
