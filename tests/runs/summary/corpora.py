"""Generated corpora, and what DuckDB counts in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

#: URLs, and the domain that each counts for: ``host`` where it has none, ``invalid`` where it cannot be read.
URLS = {
    "https://www.example.com/a?b=c#d": "example.com",
    "HTTP://EXAMPLE.com.": "example.com",
    "http://me:p%40w@a.b.example.com:8080/x": "example.com",
    "https://shop.co.uk/": "shop.co.uk",
    "https://deep.shop.co.uk/?x": "shop.co.uk",
    "https://co.uk/": "host",
    "https://jo.github.io/blog": "github.io",
    "https://github.io": "github.io",
    "https://b\u00fccher.de/": "xn--bcher-kva.de",
    "https://www.XN--BCHER-KVA.de/": "xn--bcher-kva.de",
    "https://\u4f8b\u3048.\u30c6\u30b9\u30c8/": "xn--r8jz45g.xn--zckzah",
    "http://127.0.0.1:80/": "host",
    "http://[2001:db8::1]:443/": "host",
    "http://localhost/": "host",
    "https://a.city.kawasaki.jp/": "city.kawasaki.jp",
    "https://b.c.ck/": "b.c.ck",
    "https://www.ck/": "www.ck",
    "ftp://ftp.example.net/pub": "example.net",
    " https://padded.example.org/ ": "example.org",
    "https://one.test/": "one.test",
    "https://two.test/": "two.test",
    "https://three.test/": "three.test",
    "not a url": "invalid",
    "mailto:jo@example.com": "invalid",
    "http://": "invalid",
    "http://a..b/": "invalid",
    "http://exa mple.com/": "invalid",
    "http://example.com:port/": "invalid",
    "http://-bad-.com/": "invalid",
    "http://1.2.3/": "invalid",
    "http://[::1/": "invalid",
    "http://" + "a" * 64 + ".com/": "invalid",
}
_TEXT = st.one_of(st.none(), st.sampled_from(["", "a", "\u00e4\u00f6\u00fc", "twelve bytes", "\U0001f600 \u4e2d"]))
_DATE = st.sampled_from([None, "2024-02-03T04:05:06Z", "2023-12-31", "1999", "soon", "2024-13-01", "2025-01-15 10:00"])
ROWS = st.fixed_dictionaries(
    {
        "url": st.one_of(st.none(), st.just(""), st.sampled_from(sorted(URLS))),
        "text": _TEXT,
        "language": st.sampled_from([None, "en", "de", "zh-Hant", "<b>"]),
        "licence": st.sampled_from([None, "CC-BY-4.0", "ours"]),
        "date": _DATE,
        "n_tokens": st.one_of(st.none(), st.integers(0, 50)),
        "rights_train": st.sampled_from([None, "allowed", "reserved"]),
        "synthetic": st.sampled_from([None, True, False]),
    }
)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("url", "text", "language", "licence", "date")),
        ("n_tokens", pa.int32()),
        ("rights_train", pa.string()),
        ("synthetic", pa.bool_()),
    ]
)


def write(folder: Path, files: Sequence[Sequence[dict[str, Any]]], form: str, rows: int = 3) -> Path:
    """Write rows as files of a form, with row groups of ``rows`` rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(files):
        if form == "parquet":
            table = pa.Table.from_pylist(list(part), _SCHEMA)
            pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=rows)
        else:
            lines = "".join(json.dumps(row) + "\n" for row in part)
            (folder / f"part-{number}.jsonl").write_text(lines, "utf-8")
    return folder


class Recount:
    """What DuckDB counts in the files of folders."""

    def __init__(self, *folders: Path) -> None:
        self._db = duckdb.connect()
        self._db.execute(
            "CREATE TABLE rows (url VARCHAR, text VARCHAR, language VARCHAR, licence VARCHAR, "
            "date VARCHAR, n_tokens BIGINT, rights_train VARCHAR, synthetic BOOLEAN)"
        )
        columns = "url: 'VARCHAR', text: 'VARCHAR', language: 'VARCHAR', licence: 'VARCHAR', date: 'VARCHAR', "
        columns += "n_tokens: 'BIGINT', rights_train: 'VARCHAR', synthetic: 'BOOLEAN'"
        for folder in folders:
            if list(folder.glob("*.parquet")):
                self._db.execute(f"INSERT INTO rows BY NAME SELECT * FROM read_parquet('{folder}/*.parquet')")
            if list(folder.glob("*.jsonl")):
                source = f"read_json('{folder}/*.jsonl', format='newline_delimited', columns={{{columns}}})"
                self._db.execute(f"INSERT INTO rows BY NAME SELECT * FROM {source}")
        self._db.execute("CREATE TABLE sites (url VARCHAR, site VARCHAR)")
        self._db.executemany("INSERT INTO sites VALUES (?, ?)", list(URLS.items()))
        self._db.execute(
            "CREATE VIEW sized AS SELECT rows.*, coalesce(strlen(text), 0) AS nbytes, site, "
            "CASE WHEN text IS NULL THEN 'other' ELSE 'text' END AS modality FROM rows LEFT JOIN sites USING (url)"
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._db.execute(query).fetchall()

    def number(self, query: str) -> Any:
        """The value of a query."""
        return self.rows(query)[0][0]

    def domains(self, modality: str, listed: str) -> list[tuple[Any, ...]]:
        """The domains of a modality with the most bytes; how many of ``n`` is an expression."""
        which = f"modality = '{modality}' AND site NOT IN ('host', 'invalid')"
        number = self.number(f"SELECT count(DISTINCT site) FROM sized WHERE {which}")
        most = self.number(f"SELECT CAST({listed.replace('n', str(number))} AS INTEGER)")
        return self.rows(
            f"SELECT '{modality}', site, count(*), sum(nbytes) FROM sized WHERE {which} "
            f"GROUP BY site ORDER BY 4 DESC, 3 DESC, 2 LIMIT {most}"
        )

    def values(self, column: str) -> dict[str, tuple[int, int]]:
        """Documents and bytes by value of a column."""
        query = f"SELECT coalesce(CAST({column} AS VARCHAR), '(none)'), count(*), sum(nbytes) FROM sized GROUP BY 1"
        return {value: (rows, nbytes) for value, rows, nbytes in self.rows(query)}
