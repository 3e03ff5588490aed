"""Addresses at which no scheduler answers: one sentence, at once where that can be known, else within a bound."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from distributed import LocalCluster as LocalDaskCluster

from dcurate import AttachedCluster, RunError
from dcurate.cluster.probe import SILENT_S, check_answers
from tests.conftest import free_port, scheduler_and_workers, workers_of
from tests.forked import finished

pytestmark = pytest.mark.cluster

#: Until a check has ended that need not wait, in seconds; much of it is the machine's.
AT_ONCE_S = 5.0


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://no-such-host.invalid:8786", r"host 'no-such-host\.invalid' is not known"),
        ("no-such-host.invalid:8786", r"host 'no-such-host\.invalid' is not known"),
        ("http://127.0.0.1:8787/status", "it is the address of a web page, such as Dask's dashboard"),
        ("dask://127.0.0.1:8786", "Dask knows no scheme 'dask', but .*'tcp'"),
        ("garbage", "it has no host and port"),
        ("", "it has no host and port"),
        ("tcp://127.0.0.1", "it has no host and port"),
        ("tcp://127.0.0.1:http", "it has no host and port"),
        ("tcp://127.0.0.1:99999", "it has no host and port that can be"),
        ("tcp://two words:8786", "it has no host and port that can be"),
        ("tcp://\0:8786", "it has no host and port that can be"),
        ("tcp://[::1", "it has no host and port"),
    ],
)
def test_what_cannot_be_a_scheduler_s_address_is_refused_at_once(address: str, why: str) -> None:
    begin = time.monotonic()
    with pytest.raises(RunError, match=f"no Dask scheduler answers at .*: {why}.*; .*'tcp://10.0.0.1:8786'"):
        AttachedCluster(address).open()
    assert time.monotonic() - begin < AT_ONCE_S


@pytest.mark.parametrize("scheme", ["", "tcp://", "ws://"])
def test_a_closed_port_is_refused_at_once(scheme: str) -> None:
    begin = time.monotonic()
    with pytest.raises(RunError, match="no Dask scheduler answers at .*: Connection refused; start one with"):
        AttachedCluster(f"{scheme}127.0.0.1:{free_port()}").open()
    assert time.monotonic() - begin < AT_ONCE_S


@pytest.mark.parametrize("scheme", ["", "tcp://", "ws://", "wss://", "tls://"])
@pytest.mark.parametrize("password", ["secret", "secret/", "a/secret", "@secret", "secret@"])
def test_an_address_with_a_password_is_not_shown_with_it(scheme: str, password: str) -> None:
    with pytest.raises(RunError, match=f"at '{scheme}127.0.0.1:1': addresses of schedulers have no user") as refused:
        AttachedCluster(f"{scheme}me:{password}@127.0.0.1:1").open()
    assert "secret" not in str(refused.value)


class Answer(BaseHTTPRequestHandler):
    """Says that there is nothing."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of a web server."""
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["", "tcp://", "ws://"])
def test_a_port_that_speaks_http_is_refused(scheme: str, web_server: int) -> None:
    begin = time.monotonic()
    with pytest.raises(RunError, match="no Dask scheduler answers at .*: a web server does"):
        AttachedCluster(f"{scheme}127.0.0.1:{web_server}").open()
    assert time.monotonic() - begin < SILENT_S + AT_ONCE_S


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_an_encrypted_scheduler_without_certificates_says_how_to_give_them(scheme: str, web_server: int) -> None:
    with pytest.raises(RunError, match=r"needs certificates, .*: --tls-ca-file, --tls-cert and --tls-key, or Att"):
        AttachedCluster(f"{scheme}://127.0.0.1:{web_server}").open()


@contextmanager
def listening(says: bytes) -> Iterator[int]:
    """The port of something that says a word to the first who connects, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(says)
                while connection.recv(4096):
                    pass

        thread = Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_what_says_nothing_is_given_up_in_time(scheme: str) -> None:
    begin = time.monotonic()
    with listening(b"") as port, pytest.raises(RunError, match=r"answers at .*: nothing answers within 0\.5 seconds"):
        check_answers(f"{scheme}://127.0.0.1:{port}", 0.5)
    assert time.monotonic() - begin < 0.5 + AT_ONCE_S


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_what_speaks_otherwise_is_refused(scheme: str) -> None:
    with listening(b"SSH-2.0-OpenSSH\r\n") as port, pytest.raises(RunError, match="answers at .*: something else does"):
        check_answers(f"{scheme}://127.0.0.1:{port}", 10.0)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_scheduler_answers_by_the_scheme_that_it_speaks(scheme: str) -> None:
    with LocalDaskCluster(
        n_workers=0, processes=False, protocol=f"{scheme}://", dashboard_address="127.0.0.1:0"
    ) as cluster:
        assert cluster.scheduler_address.startswith(scheme)
        check_answers(cluster.scheduler_address, 10.0)


def test_the_address_of_a_worker_is_not_that_of_a_scheduler(tmp_path: Path) -> None:
    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address:
        with AttachedCluster(address) as cluster:
            (worker,) = workers_of(cluster.client)
        with pytest.raises(RunError, match=f"no Dask scheduler answers at '{worker}': it is the address of a Worker"):
            AttachedCluster(worker, timeout_s=3).open()


def test_the_command_says_so_in_one_sentence(tmp_path: Path) -> None:
    command = ["run", "demo", "--output", str(tmp_path / "out"), "--scheduler", f"127.0.0.1:{free_port()}", "--quiet"]
    done = finished([sys.executable, "-m", "dcurate.cli", *command], timeout_s=120)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("error: no Dask scheduler answers at '127.0.0.1:")
