"""Where a scheduler is: an address, or the file in which ``dask scheduler --scheduler-file`` leaves it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from distributed import Security

from dcurate.errors import PipelineError, RunError

#: Seconds between two looks for a file that is not there yet.
_POLL_S = 0.2


def read_scheduler_file(path: str, timeout_s: float) -> str:
    """Return the address in a file of ``dask scheduler --scheduler-file``; wait for one that is not there yet.

    Args:
        path: path of the file.
        timeout_s: longest wait for the file, in seconds.

    Raises:
        RunError: the file does not come, or holds no address.

    Examples:
        >>> read_scheduler_file("none.json", 0.0)
        Traceback (most recent call last):
        dcurate.errors.RunError: scheduler file 'none.json' is not there after 0 seconds; start a scheduler with: ...
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                return str(json.load(file)["address"])
        except FileNotFoundError as error:
            problem = RunError(
                f"scheduler file {path!r} is not there after {timeout_s:g} seconds; start a scheduler with: dask "
                f"scheduler --scheduler-file {path}"
            )
            problem.__cause__ = error
        except OSError as error:
            raise RunError(f"the scheduler file {path!r} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:  # it may be half written
            problem = RunError(
                f"the scheduler file {path!r} holds no address; give one that 'dask scheduler --scheduler-file' wrote"
            )
            problem.__cause__ = error
        if time.monotonic() >= end:
            raise problem
        time.sleep(_POLL_S)


def tls_config(ca_file: str, cert: str, key: str | None) -> dict[str, Any]:
    """Return Dask's configuration for certificates of a client, which all connections of this process then use.

    Args:
        ca_file: file with the certificates of the authorities, in PEM format.
        cert: file with the certificate of the client, and perhaps its key.
        key: file with the key of the client; None if it is in ``cert``.

    Raises:
        PipelineError: the file does not exist, or the certificates cannot be used.
    """
    for option, path in {"--tls-ca-file": ca_file, "--tls-cert": cert, "--tls-key": key}.items():
        if path is not None and not os.path.isfile(path):
            raise PipelineError(f"file {path!r} does not exist; give {option} a file in PEM format")
    security = Security(tls_ca_file=ca_file, tls_client_cert=cert, tls_client_key=key)
    try:
        security.get_connection_args("client")
    except OSError as error:  # of ssl, too; it names no content
        why = getattr(error, "reason", None) or error.strerror or type(error).__name__
        raise PipelineError(
            f"the TLS certificates cannot be used ({why}); give files in PEM format that belong together"
        ) from error
    values = {"ca-file": ca_file, "client.cert": cert, "client.key": key}
    return {f"distributed.comm.tls.{name}": value for name, value in values.items() if value is not None}


def tls_of_worker(security: Security) -> dict[str, Any]:
    """Return Dask's configuration with which a process beside a worker connects as the worker does."""
    values = {
        "tls.ca-file": security.tls_ca_file,
        "tls.client.cert": security.tls_worker_cert or security.tls_client_cert,
        "tls.client.key": security.tls_worker_key or security.tls_client_key,
        "require-encryption": security.require_encryption,
    }
    return {f"distributed.comm.{name}": _absolute(value) for name, value in values.items() if value is not None}


def _absolute(value: Any) -> Any:
    """Return a path as an absolute one, and any other value as it is."""
    return os.path.abspath(value) if isinstance(value, str) and "\n" not in value else value
