"""The benchmark of rights counts the signals of the pages that it packs."""

from pathlib import Path

import orjson

from benchmarks.proof_rights import measure


def test_it_finds_the_signals_that_it_packs_and_compares_with_extraction(tmp_path: Path) -> None:
    page = "<html><body><article>" + "<p>The quick brown fox jumps over it. </p>" * 20 + "</article></body></html>"
    rows = [{"html": page, "url": f"https://example.org/{number}"} for number in range(8)]
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures = measure(tmp_path / "pages.jsonl")
    assert figures["pages"] == 8
    assert figures["found"]["header Content-Usage"] == figures["found"]["robots.txt Content-Signal"] == 2
    assert figures["found"]["train=no"] == 6
    assert set(figures["ratio_to_extraction"]) == {"trafilatura", "dcurate"}
    assert all(seconds > 0 for runs in figures["seconds"].values() for seconds in runs)
