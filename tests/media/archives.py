"""Files and containers of media, made in a folder."""

import base64
import gzip
import io
import json
import tarfile
import zipfile


class Unseekable(io.RawIOBase):
    """A file to which zipfile writes sizes after the content."""

    def __init__(self, file):
        self._file = file

    def writable(self):
        return True

    def write(self, data):
        return self._file.write(data)


def tar_of(members, *, pax=True):
    """A tar archive of pairs of name and content, or of `tarfile.TarInfo` and content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT) as archive:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def put_zip(path, bodies, seekable=True):
    with open(path, "wb") as file, zipfile.ZipFile(file if seekable else Unseekable(file), "w") as archive:
        for number, (name, data) in enumerate(bodies.items()):
            archive.writestr(name, data, compress_type=(0, 8, 12)[number % 3])


def put_lines(path, bodies):
    rows = [
        {"id": number, "content": base64.b64encode(data).decode(), "name": name}
        for number, (name, data) in enumerate(bodies.items())
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w") as file:
        file.write(text)


def warc_record(url, data, mime="application/pdf", coding=b""):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\n" % (mime.encode(), coding)
    lines = [
        "WARC/1.0",
        "WARC-Type: response",
        f"WARC-Target-URI: {url}",
        "WARC-Date: 2026-01-02T03:04:05Z",
        f"WARC-Record-ID: <urn:uuid:{url}>",
        "Content-Type: application/http; msgtype=response",
        f"Content-Length: {len(head) + len(data)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + head + data + b"\r\n\r\n"


def put_warc(path, bodies):
    records = [warc_record(f"http://host/{name}", data) for name, data in bodies.items()]
    records.append(warc_record("http://host/page.html", b"<p>", "text/html"))
    packed = str(path).endswith(".gz")
    path.write_bytes(b"".join(gzip.compress(record) if packed else record for record in records))
