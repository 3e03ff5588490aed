"""Turn the errors of file systems and remote stores into one sentence that names the path."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dcurate.errors import DataError
from dcurate.redaction import redacted

_REMOTE_ERRORS = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("aiohttp", "ClientError"),
    ("httpx", "HTTPError"),
    ("httpx2", "HTTPError"),
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Turn any error of the store inside the ``with`` statement into one sentence that names the path.

    Raises:
        DataError: instead of an OSError, or of an error of a remote store's own.
    """
    try:
        with _hushed():
            yield
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise DataError(
                f"cannot {doing} {path!r}: it is a link to {os.readlink(path)!r}, which is not there; "
                "put it there or remove the link"
            ) from error
        raise DataError(f"cannot {doing} {path!r}: no such file or directory; check the path") from error
    except PermissionError as error:
        advice = "check the credentials in storage_options" if "://" in path else "give this user the right to it"
        raise DataError(f"cannot {doing} {path!r}: permission denied; {advice}") from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DataError(
                f"no space left on device while writing {path!r}; free some and run again with resume=True"
            ) from error
        raise DataError(f"cannot {doing} {path!r}: {error.strerror or error}") from error
    except _remote_errors() as error:
        raise DataError(f"cannot {doing} {path!r}: {error}; check the address and storage_options") from error


@contextmanager
def _hushed() -> Iterator[None]:
    """Remove secrets from the addresses that errors of a store quote: Python prints the errors as causes."""
    try:
        yield
    except OSError as error:
        if any(isinstance(argument, str) and redacted(argument) != argument for argument in error.args):
            error.args = tuple(redacted(argument) if isinstance(argument, str) else argument for argument in error.args)
        raise


def _remote_errors() -> tuple[type[BaseException], ...]:
    """Errors of remote stores that are no `OSError`, of the packages that are loaded."""
    return tuple(getattr(sys.modules[module], name) for module, name in _REMOTE_ERRORS if module in sys.modules)
