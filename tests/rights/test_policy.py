"""Policies over the columns of rights, and the robots.txt of a crawl."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import (
    DataError,
    DocumentBatch,
    InlineExecutor,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    WarcReader,
)
from dcurate.core.fingerprint import fingerprint
from dcurate.rights import FilterByRights, FindRights, RightsFilter, RobotsFiles
from dcurate.rights import robots_files as robots_module
from dcurate.rights.licences import GROUPS
from dcurate.rights.robots import LARGEST_ROBOTS
from dcurate.testing import check_stage
from dcurate.text import Annotate, refilter
from tests.archives import archive, http, page, warc_record

_LICENCES = st.lists(st.sampled_from(["CC-BY-4.0", "CC-BY-NC-4.0", "CC0-1.0", "https://a.org/l"]), max_size=2)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "rights_train": st.none() | st.booleans(),
            "rights_search": st.none() | st.booleans(),
            "rights_licences": _LICENCES,
            "rights_signals": st.lists(
                st.sampled_from(["html robots: noai -> train=no", "odd: x -> train=no", "RSL: y"]), max_size=2
            ),
        }
    ),
    min_size=1,
    max_size=6,
)
_POLICIES = st.builds(
    FilterByRights,
    use=st.sampled_from(["train", "search"]),
    licences=st.none() | st.lists(st.sampled_from([*GROUPS, "CC-BY-NC-4.0"]), min_size=1, max_size=2),
    silence=st.sampled_from(["keep", "drop"]),
)


def batch(rows: list[dict[str, Any]]) -> DocumentBatch:
    lists = pa.list_(pa.string())
    names = {"rights_train": pa.bool_(), "rights_search": pa.bool_(), "rights_licences": lists, "rights_signals": lists}
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    return DocumentBatch(data=pa.Table.from_pylist(numbered, pa.schema([("id", pa.int64()), *names.items()])))


@given(_ROWS, _POLICIES)
def test_every_row_is_kept_or_dropped_with_one_of_a_few_reasons(
    rows: list[dict[str, Any]], policy: FilterByRights
) -> None:
    before = batch(rows)
    kept = policy.process(before)
    gone = [row for rejection in kept.rejections for row in rejection.data.to_pylist()]
    assert sorted(kept.to_arrow().to_pylist() + gone, key=lambda row: row["id"]) == before.to_arrow().to_pylist()
    assert {rejection.reason for rejection in kept.rejections} <= {
        *(f"{policy.use}: html robots", f"{policy.use}: refused", f"{policy.use}: nothing said", "licence: not allowed")
    }
    flagged = FilterByRights(policy.use, policy.licences, policy.silence, "flag").process(before).to_arrow().to_pylist()
    reasons = {row["id"]: rejection.reason for rejection in kept.rejections for row in rejection.data.to_pylist()}
    assert {row["id"]: row["rights_refused"] for row in flagged} == {**dict.fromkeys(range(len(rows))), **reasons}


@given(_ROWS, _POLICIES)
def test_a_stricter_policy_keeps_a_part_of_what_a_wider_one_keeps(
    rows: list[dict[str, Any]], policy: FilterByRights
) -> None:
    def ids(policy: FilterByRights) -> set[int]:
        return set(policy.process(batch(rows)).to_arrow()["id"].to_pylist())

    assert ids(FilterByRights(policy.use, policy.licences, "drop")) <= ids(FilterByRights(policy.use, policy.licences))
    if policy.licences and policy.silence == "keep":
        assert ids(policy) <= ids(FilterByRights(policy.use))
        assert ids(policy) <= ids(FilterByRights(policy.use, [*policy.licences, "non-commercial"]))


@given(_ROWS, st.sampled_from(["train", "search"]), st.sampled_from(["keep", "drop"]))
def test_the_rule_and_the_stage_keep_the_same_rows(rows: list[dict[str, Any]], use: Any, silence: Any) -> None:
    by_stage = FilterByRights(use, silence=silence).process(batch(rows)).to_arrow()
    rule = RightsFilter(use, silence)
    assert ScoreFilter(rule).process(batch(rows)).to_arrow().equals(by_stage)
    annotated = Annotate([rule]).process(batch(rows))
    other = RightsFilter(use, "drop" if silence == "keep" else "keep")
    for wanted in (rule, other):
        kept = refilter([wanted]).process(annotated).to_arrow()
        assert kept["id"].equals(ScoreFilter(wanted).process(batch(rows)).to_arrow()["id"])


def test_a_licence_speaks_for_a_row_about_whose_use_nothing_is_said() -> None:
    rows = batch(
        [
            {"rights_train": answer, "rights_licences": names, "rights_signals": []}
            for answer in (None, True, False)
            for names in ([], ["CC-BY-4.0"], ["CC-BY-4.0", "CC-BY-ND-4.0"])
        ]
    )
    kept = FilterByRights(licences=["open"], silence="drop").process(rows)
    assert kept.to_arrow()["id"].to_pylist() == [1, 3, 4]
    assert [(gone.reason, gone.rows) for gone in kept.rejections] == [
        ("licence: not allowed", 2),
        ("train: nothing said", 1),
        ("train: refused", 3),
    ]
    assert kept.found == {"licence CC-BY-4.0": 2, "no licence": 1}


def test_wrong_policies_are_refused_in_a_sentence() -> None:
    for wrong in ({"use": "ai"}, {"silence": "ask"}, {"on_refused": "hide"}, {"licences": "open"}, {"licences": []}):
        with pytest.raises(PipelineError, match=f"filter_by_rights: {next(iter(wrong))}="):
            FilterByRights(**wrong)
    with pytest.raises(PipelineError, match="the licence 'opne' is unknown; give an SPDX identifier"):
        FilterByRights(licences=["opne"])
    with pytest.raises(PipelineError, match="RightsFilter: use='ai' must be one of 'train', 'search'"):
        RightsFilter("ai")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no column 'rights_train'"):
        FilterByRights().process(DocumentBatch(data=pd.DataFrame({"id": [1]})))
    with pytest.raises(PipelineError, match=r"no column 'rights_train'; add FindRights\(\) before it"):
        ScoreFilter(RightsFilter()).process(DocumentBatch(data=pd.DataFrame({"id": [1]})))


def test_the_policy_is_a_stage() -> None:
    rows = batch([{"rights_train": answer, "rights_licences": []} for answer in (True, False, None, True)])
    check_stage(FilterByRights(), rows, executor=InlineExecutor())


# An archive, from pages to files


PAGES = {
    "https://open.example/a": page("<link rel=license href=https://creativecommons.org/licenses/by/4.0/><p>a"),
    "https://open.example/private/b": page("<p>b"),
    "https://closed.example/c": page("<p>c", "Content-Type: text/html", "Content-Usage: train-ai=n"),
    "https://closed.example:8443/d": page("<p>d"),
    "https://silent.example/e": page("<p>e"),
    "https://sold.example/f": page("<meta name=robots content=noai><p>f"),
}
ROBOTS = [
    warc_record(
        http(b"User-agent: GPTBot\nDisallow: /private/", "Content-Type: text/plain"), "https://open.example/robots.txt"
    ),
    warc_record(
        http(b"User-agent: GPTBot\nDisallow: /", "Content-Type: text/plain"), "https://closed.example:8443/robots.txt"
    ),
    warc_record(page("<p>not here"), "https://silent.example/robots.txt"),
    warc_record(http(b"User-agent: *\nDisallow: /", status=404), "https://sold.example/robots.txt"),
    warc_record(http(b"x"), "dns:sold.example"),
]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    (tmp_path / "pages").mkdir()
    (tmp_path / "robotstxt").mkdir()
    records = [warc_record(message, url) for url, message in PAGES.items()]
    (tmp_path / "pages" / "a.warc.gz").write_bytes(archive(records))
    (tmp_path / "robotstxt" / "a.warc.gz").write_bytes(archive(ROBOTS))
    return tmp_path


def run(*stages: Any) -> Any:
    return Pipeline("rights", stages=list(stages)).run(InlineExecutor())


def reasons_of(result: Any) -> dict[str, int]:
    return {reason: rows for stage in result.report.stages for reason, rows in stage.dropped.items()}


def urls(path: Path) -> list[str]:
    return sorted(pq.read_table(path)["url"].to_pylist())


def reader(crawl: Path) -> WarcReader:
    return WarcReader(str(crawl / "pages"), fields=["url", "mime_type", "charset", "http_headers", "content"])


def test_an_archive_becomes_rows_with_rights_and_another_policy_gives_what_a_new_run_does(crawl: Path) -> None:
    hosts = run(WarcReader(str(crawl / "robotstxt")), RobotsFiles(), ParquetWriter(str(crawl / "hosts")))
    assert pq.read_table(crawl / "hosts")["host"].to_pylist() == ["open.example", "closed.example:8443"]
    assert reasons_of(hosts) == {"no robots.txt": 2, "no host": 1}
    rights = FindRights(robots_path=str(crawl / "hosts"))
    run(reader(crawl), rights, ParquetWriter(str(crawl / "all")))
    assert len(urls(crawl / "all")) == len(PAGES)
    for number, policy in enumerate(
        [FilterByRights(), FilterByRights(silence="drop", licences=["open"]), FilterByRights("search")]
    ):
        fresh, again = crawl / f"fresh{number}", crawl / f"again{number}"
        result = run(reader(crawl), rights, policy, ParquetWriter(str(fresh)))
        assert len(urls(fresh)) + sum(reasons_of(result).values()) == len(PAGES)
        stored = run(ParquetReader(str(crawl / "all")), policy, ParquetWriter(str(again)))
        assert pq.read_table(fresh).sort_by("url").equals(pq.read_table(again).sort_by("url"))
        assert reasons_of(stored) == reasons_of(result)
    assert urls(crawl / "fresh0") == ["https://open.example/a", "https://silent.example/e"]
    assert urls(crawl / "fresh1") == ["https://open.example/a"]


def test_of_several_files_of_a_host_the_newest_counts_in_any_order(tmp_path: Path) -> None:
    rows = [("2024", "User-agent: *\nDisallow: /old"), ("2025", "User-agent: *\nDisallow: /new"), ("2025", "x")]
    for number, order in enumerate((rows, rows[::-1])):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame([{"host": "a.org", "robots": text, "date": date} for date, text in order]).to_parquet(path)
        texts = robots_module.robots_table(str(path), None)
        assert texts.get("a.org") == max(text for date, text in rows if date == "2025")
        assert texts.get("b.org") == ""


def test_a_run_with_other_robots_files_is_another_run(tmp_path: Path) -> None:
    rows = pd.DataFrame({"host": ["a.org"], "robots": ["User-agent: *"], "date": ["2025"]})
    rows.to_parquet(tmp_path / "a.parquet")
    pages = DocumentBatch(data=pd.DataFrame({"url": ["https://a.org/x"]}))

    def made() -> tuple[dict[str, str], Any]:
        stage = FindRights(robots_path=str(tmp_path))
        return fingerprint([stage]), stage.process(pages).to_arrow()["rights_train"].to_pylist()

    before = made()
    assert made() == before == (before[0], [None])
    rows.assign(robots="User-agent: GPTBot\nDisallow: /", date="2026").to_parquet(tmp_path / "b.parquet")
    after = made()
    assert after[1] == [False]
    assert len({str(prints) for prints in (before[0], after[0], fingerprint([FindRights()]))}) == 3


def test_a_table_that_is_too_large_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"host": f"{number}.org", "robots": f"User-agent: {number}", "date": None} for number in range(50)]
    pd.DataFrame(rows).astype({"date": "string"}).to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(robots_module, "LARGEST_TABLE", 500)
    with pytest.raises(DataError, match="robots_path: .* of memory; read the pages of a part of the hosts at a time"):
        robots_module.robots_table(str(tmp_path), None)


def test_a_long_robots_file_is_cut_and_the_stage_is_a_stage() -> None:
    contents = [b"a" * (LARGEST_ROBOTS + 1), b"\xff\0", b"", b"User-agent: *"]
    rows = pd.DataFrame({"url": [f"https://{n}.org/robots.txt" for n in "abcd"], "content": contents})
    made = RobotsFiles().process(DocumentBatch(data=rows)).to_arrow()
    assert [len(text) for text in made["robots"].to_pylist()] == [LARGEST_ROBOTS, 2, 0, 13]
    check_stage(RobotsFiles(), DocumentBatch(data=rows), executor=InlineExecutor())


def test_only_robots_txt_speaks_for_a_host() -> None:
    paths = ["/robots.txt", "/uploads/robots.txt", "/robots.txt?a", "", "/robots.txt/x"]
    rows = pa.table({"url": [f"https://a.org{path}" for path in paths], "content": [b"User-agent: *"] * len(paths)})
    stage = RobotsFiles()
    kept = stage.process(DocumentBatch(data=rows))
    assert kept.to_arrow().column("url").to_pylist() == ["https://a.org/robots.txt", "https://a.org/robots.txt?a"]
    assert [(gone.reason, gone.rows) for gone in kept.rejections] == [("no robots.txt", 3)]
    check_stage(stage, DocumentBatch(data=rows), executor=InlineExecutor())


def test_a_newer_file_that_is_empty_replaces_the_older_one(tmp_path: Path) -> None:
    files = [("a.org", "Disallow: /", "2026-01-01"), ("a.org", "", "2026-02-01"), ("b.org", "", ""), ("b.org", "x", "")]
    for number, order in enumerate((files, files[::-1])):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame(order, columns=["host", "robots", "date"]).to_parquet(path)
        texts = robots_module.robots_table(str(path), None)
        assert [texts.get(host) for host in ("a.org", "b.org", "c.org")] == ["", "x", ""]


def test_an_address_allows_the_licence_that_it_is_of() -> None:
    rows = pa.table({"content": [b"<link rel=license href=https://creativecommons.org/licenses/by/4.0/>"]})
    batch = FindRights().process(DocumentBatch(data=rows))
    address = "http://creativecommons.org/licenses/by/4.0/deed.de"
    assert FilterByRights("train", licences=[address]).process(batch).num_items == 1
