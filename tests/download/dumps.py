"""Small dumps, archives and listings as publishers make them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <namespaces>
      <namespace key="-2" case="first-letter">Medium</namespace>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Ablage</namespace>
      <namespace key="14" case="first-letter">Sippe</namespace>
    </namespaces>
  </siteinfo>
"""


def page(number: int, title: str, text: str, namespace: int = 0, redirect: str = "") -> str:
    """A page of a dump."""
    mark = f'<redirect title="{redirect}" />' if redirect else ""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{namespace}</ns>\n    <id>{number}</id>\n    {mark}\n"
        f"    <revision>\n      <id>{number + 7000}</id>\n      <contributor><username>U</username><id>3</id>"
        f'</contributor>\n      <text bytes="1" xml:space="preserve">{escape(text)}</text>\n'
        "    </revision>\n  </page>\n"
    )


def multistream(pages: Sequence[str], each: int = 2) -> bytes:
    """A dump of several streams, so many pages in each."""
    groups = ["".join(pages[start : start + each]) for start in range(0, len(pages), each)]
    return b"".join(bz2.compress(text.encode()) for text in (HEAD, *groups, "</mediawiki>\n"))


def dump_site(language: str, dumps: Mapping[str, tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """The dumps of a wiki as Wikimedia serves them: by date, the status of the articles and the files."""
    links = "".join(f'<a href="{date}/">{date}/</a>\n' for date in dumps)
    site = {f"/{language}/": f'<html><a href="../">../</a>{links}<a href="latest/">latest/</a></html>'.encode()}
    for date, (status, files) in dumps.items():
        facts = {
            name: {"size": len(data), "url": f"/{language}/{date}/{name}", "sha1": hashlib.sha1(data).hexdigest()}
            for name, data in files.items()
        }
        jobs = {"articlesmultistreamdump": {"status": status, "files": facts}, "metacurrentdump": {"status": "done"}}
        site[f"/{language}/{date}/dumpstatus.json"] = json.dumps({"jobs": jobs, "version": "0.8"}).encode()
        site |= {f"/{language}/{date}/{name}": data for name, data in files.items()}
    return site


def tarred(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def packed(data: bytes) -> bytes:
    """A gzip file that is the same each time."""
    return gzip.compress(data, mtime=0)


def manifest(archives: Mapping[str, bytes]) -> bytes:
    """arXiv's list of its archives."""
    files = "".join(
        f"<file><content_md5sum>{'0' * 32}</content_md5sum><filename>{name}</filename>"
        f"<md5sum>{hashlib.md5(data).hexdigest()}</md5sum><num_items>1</num_items><size>{len(data)}</size>"
        f"<timestamp>2010-12-23 00:13:59</timestamp><yymm>0001</yymm></file>\n"
        for name, data in archives.items()
    )
    return f'<?xml version="1.0" standalone="yes"?>\n<arXivSRC>\n{files}</arXivSRC>\n'.encode()


def warc(*records: tuple[str, bytes]) -> bytes:
    """An archive of responses as Common Crawl packs them: each record by itself. An empty address is a request's."""
    members = []
    for number, (url, body) in enumerate(records):
        kind = "response" if url else "request"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n" % _mime(url)
        content = head + body
        lines = (
            f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{number:08}-0000>\r\n"
            f"WARC-Date: 2024-02-20T00:00:00Z\r\nWARC-Target-URI: {url or 'https://x.org/'}\r\n"
            f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        members.append(packed(lines.encode() + content + b"\r\n\r\n"))
    return b"".join(members)


def _mime(url: str) -> bytes:
    return b"application/pdf" if url.endswith(".pdf") else b"text/html; charset=ISO-8859-1"


def crawl_site(crawls: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """Crawls as Common Crawl serves them: by name, the archives in each; the newest comes first."""
    site = {"/collinfo.json": json.dumps([{"id": name, "name": name} for name in crawls]).encode()}
    for name, archives in crawls.items():
        folder = name.replace("CC-NEWS-", "CC-NEWS/").replace("-", "/") if "NEWS" in name else name
        folder = folder.replace("CC/NEWS", "CC-NEWS")
        paths = [f"crawl-data/{folder}/{archive}" for archive in archives]
        site[f"/crawl-data/{folder}/warc.paths.gz"] = packed("".join(f"{path}\n" for path in paths).encode())
        site |= {f"/{path}": data for path, data in zip(paths, archives.values(), strict=True)}
    return site
