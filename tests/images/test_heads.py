"""`ImageInfo` fetches the heads of large files, with the same result as from whole files."""

from __future__ import annotations

import contextlib
import io
import socket
import socketserver
import tarfile
import threading
from urllib.parse import urlsplit

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from dcurate import DocumentBatch
from dcurate.images import ImageInfo
from dcurate.media import FileReading, Ref, ref_array
from dcurate.media.heads import HEAD
from dcurate.media.refs import REF
from tests.images.pictures import batch_of, saved


def noise(width=500, height=400, seed=1):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def info_of(refs, **reading):
    return ImageInfo(reading=FileReading(**reading)).process(DocumentBatch(data=pa.table({REF: ref_array(refs)})))


def properties(batch):
    return [
        {name: value for name, value in row.items() if name.startswith("image_")}
        for row in batch.to_arrow().to_pylist()
    ]


class Relay(socketserver.ThreadingTCPServer):
    """Passes connections on to a server, and counts the bytes that come back."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, address):
        super().__init__(("127.0.0.1", 0), Connection)
        self.behind = (address.hostname, address.port)
        self.answers = []

    @property
    def answered(self):
        return sum(self.answers)


class Connection(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self):
        with socket.create_connection(self.server.behind) as other:
            threading.Thread(target=self.pass_on, args=(self.request, other, False), daemon=True).start()
            self.pass_on(other, self.request, True)

    def pass_on(self, source, target, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                self.server.answers.append(counted * len(data))  # before the client has it, and goes on
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.program
def test_of_a_large_jpeg_on_s3_the_head_is_fetched(bucket):
    """Counted between the client and the server. A head that is not enough costs the whole file, too."""
    url, options = bucket
    plain, late = (
        saved(noise(1000, 800), "JPEG", quality=95),
        saved(noise(1000, 800, 2), "JPEG", icc_profile=bytes(90_000)),
    )
    png = saved(noise(1000, 200))
    files = {"plain.jpg": plain, "late.jpg": late, "all.png": png}
    store = fsspec.filesystem("s3", **options)
    for name, data in files.items():
        store.pipe_file(f"{url}/{name}", data)
    with Relay(urlsplit(options["client_kwargs"]["endpoint_url"])) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        counted = {**options, "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{relay.server_address[1]}"}}
        sent = {}
        for name, data in files.items():
            before = relay.answered
            found = info_of([Ref(f"{url}/{name}", None, 0, len(data))], storage_options=counted)
            assert properties(found) == properties(ImageInfo().process(batch_of(data)))
            sent[name] = relay.answered - before
        relay.shutdown()
    assert HEAD <= sent["plain.jpg"] < HEAD + 5_000 < len(plain) / 4
    assert len(late) + HEAD <= sent["late.jpg"] < len(late) + HEAD + 10_000
    assert len(png) <= sent["all.png"]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "QOI"])
def test_heads_say_what_whole_files_say(kind, tmp_path):
    """For files of their own and for members of a tar archive, with their neighbours of other sizes."""
    exif = Image.Exif()
    exif[0x0112], exif[0x0132] = 6, "2021:05:06 07:08:09"
    options = {"exif": exif} if kind in ("JPEG", "PNG", "WEBP", "TIFF") else {}
    datas = [saved(noise(seed=2), kind, **options), saved(noise(90, 70), kind), saved(noise(seed=3), kind)]
    expected = properties(ImageInfo().process(batch_of(*datas)))
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for number, data in enumerate(datas):
            (tmp_path / str(number)).write_bytes(data)
            member = tarfile.TarInfo(str(number))
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    single = [Ref(str(tmp_path / str(number)), None, 0, len(data)) for number, data in enumerate(datas)]
    with tarfile.open(tmp_path / "all.tar") as tar:
        members = [Ref(str(tmp_path / "all.tar"), each.name, each.offset_data, each.size) for each in tar]
    assert properties(info_of([*single, *members])) == expected * 2


def test_a_large_file_that_is_cut_gone_or_above_the_limit_has_its_reason(tmp_path):
    data = saved(noise(), "JPEG", quality=95)
    assert len(data) > 3 * HEAD
    (tmp_path / "cut.jpg").write_bytes(data[: HEAD + 10])
    (tmp_path / "page.jpg").write_bytes(b"<html>" + bytes(len(data)))
    (tmp_path / "good.jpg").write_bytes(data)
    refs = [Ref(str(tmp_path / name), None, 0, len(data)) for name in ("cut.jpg", "page.jpg", "gone.jpg", "good.jpg")]
    found = info_of(refs)
    assert found.to_arrow()["image_bytes"].to_pylist() == [len(data)]
    assert sorted(one.reason for one in found.rejections) == ["missing", "not a picture: HTML or XML", "truncated"]
    [one] = info_of(refs[3:], max_file_bytes=len(data) - 1).rejections
    assert one.reason == "too large"
