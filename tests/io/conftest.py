"""Real stores for the tests: a file system of one megabyte, and an S3 server."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
import uuid

import fsspec
import pytest

from tests.conftest import free_port, skip_outside_ci


@pytest.fixture
def small_disk(tmp_path):
    """A directory on a file system that holds one megabyte."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mounted]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        skip_outside_ci("mounting a small disk needs root; run the tests as root to have it")
    yield mounted
    subprocess.run(["umount", "-l", mounted], check=True)


@pytest.fixture
def read_only(small_disk):
    """A directory that nobody can write to, root included."""
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    return small_disk


@pytest.fixture(scope="session")
def s3_server():
    """The address of an S3 server in a process of its own."""
    port = free_port()
    command = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"{address}/moto-api/", timeout=10).close()
            break
        except OSError:
            time.sleep(0.1)
    else:
        server.kill()
        raise RuntimeError("the S3 server did not start")
    yield address
    server.kill()
    server.wait()


@pytest.fixture
def bucket(s3_server):
    """A fresh bucket, and the storage_options to reach it."""
    options = {
        "key": "test",
        "secret": "test",
        "client_kwargs": {"endpoint_url": s3_server},
    }
    name = f"b{uuid.uuid4().hex[:12]}"
    fsspec.filesystem("s3", **options).mkdir(name)
    return f"s3://{name}", options
