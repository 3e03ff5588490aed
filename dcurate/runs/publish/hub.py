"""The Hugging Face Hub as a place to publish to: what is there, and commits that are tried again."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from dcurate.core.extras import needed
from dcurate.core.foreign import retry_after_s
from dcurate.errors import DataError, DcurateError, ResourceError
from dcurate.hub.weights import silent_hub
from dcurate.runs.publish.target import HubFolder

T = TypeVar("T")

#: Refusals in a row after which a request is given up.
_TRIES = 8
#: Seconds that are waited at most, also where the Hub asks for more; and at first, where it does not say how long.
_LONGEST_WAIT, _FIRST_WAIT = 900.0, 1.0
#: Answers to requests that may succeed later: too many requests, a commit by somebody else, a fault of the server.
_LATER = {408, 409, 412, 429, 500, 502, 503, 504}
_BLOCK = 2**20


@dataclass(frozen=True)
class Stored:
    """A file at the Hub: its size and its digest, as SHA-256 where it is in large file storage, else as Git's."""

    size: int
    digest: str
    large: bool

    def equals(self, path: Path) -> bool:
        """Return whether a local file has the same content; it is read only if the sizes are equal."""
        size = path.stat().st_size
        if size != self.size:
            return False
        digest = hashlib.sha256() if self.large else hashlib.sha1(f"blob {size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest() == self.digest


@dataclass
class Hub:
    """The data set at the Hub that is published to.

    Args:
        target: the data set and the folder in it.
        hf_token: token of a user who may write; that of ``hf auth login`` or of ``HF_TOKEN`` by default.
        wait: called with the seconds to wait.
    """

    target: HubFolder
    hf_token: str | None = field(default=None, repr=False)
    wait: Callable[[float], object] = time.sleep

    @cached_property
    def _library(self) -> Any:
        return needed("huggingface_hub", "publishing to the Hub", "hub")

    @cached_property
    def _api(self) -> Any:
        return self._library.HfApi(os.environ.get("HF_ENDPOINT"), token=self.hf_token, library_name="dcurate")

    @property
    def _place(self) -> dict[str, str]:
        return {"repo_id": self.target.repo, "repo_type": "dataset"}

    def open(self, private: bool) -> None:
        """Make the data set and the branch if there are none.

        Raises:
            ResourceError: the Hub cannot be reached, or refuses.
        """
        self._asked(lambda: self._api.create_repo(**self._place, private=private, exist_ok=True))
        if self.target.revision != "main":
            self._asked(lambda: self._api.create_branch(**self._place, branch=self.target.revision, exist_ok=True))

    def files(self) -> dict[str, Stored]:
        """Return all files of the data set by their paths."""
        tree = self._asked(
            lambda: list(self._api.list_repo_tree(**self._place, revision=self.target.revision, recursive=True))
        )
        stored = {}
        for file in tree:
            if isinstance(file, self._library.hf_api.RepoFile):
                lfs = file.lfs
                stored[file.path] = Stored(file.size, lfs.sha256 if lfs else file.blob_id, large=lfs is not None)
        return stored

    def read(self, path: str) -> str:
        """Return the text of a small file."""
        with tempfile.TemporaryDirectory() as folder:
            local = self._asked(
                lambda: self._api.hf_hub_download(
                    **self._place, filename=path, revision=self.target.revision, local_dir=folder
                )
            )
            return Path(local).read_text("utf-8", errors="replace")

    def commit(self, adds: Mapping[str, Path | bytes], deletes: Sequence[str], message: str) -> None:
        """Add and delete files in one commit.

        An answer may be lost: before a commit is tried again, what is there is looked at, so that none is made twice.

        Args:
            adds: content by path.
            deletes: paths.
            message: message of the commit.

        Raises:
            ResourceError: the Hub cannot be reached, or refuses.
        """
        add, delete = self._library.CommitOperationAdd, self._library.CommitOperationDelete
        operations = {path: add(path_in_repo=path, path_or_fileobj=content) for path, content in adds.items()}
        operations |= {path: delete(path_in_repo=path, is_folder=False) for path in deletes}
        tried = False

        def go() -> None:
            nonlocal tried
            if tried:
                stored = self.files()
                for path in [path for path in operations if _is_done(path, adds.get(path), stored)]:
                    del operations[path]
            tried = True
            if operations:
                self._api.create_commit(
                    **self._place,
                    operations=list(operations.values()),
                    commit_message=message,
                    revision=self.target.revision,
                )

        self._asked(go)

    def _asked(self, request: Callable[[], T]) -> T:
        """The answer to a request, which is tried again where the Hub says that it may succeed later."""
        errors = needed("huggingface_hub.errors", "publishing to the Hub", "hub")
        refusals, pause = 0, _FIRST_WAIT
        while True:
            try:
                with silent_hub():
                    return request()
            except (errors.HTTPError, OSError, RuntimeError) as error:  # of uploads, RuntimeError has the cause
                refusals, asked = refusals + 1, None
                cause = error.__cause__ if isinstance(error, RuntimeError) else error
                if isinstance(cause, errors.HfHubHTTPError):
                    asked, status = seconds_asked(cause.response.headers), cause.response.status_code
                    if status not in _LATER or refusals == _TRIES:
                        raise self._refused(cause, status) from error
                elif not isinstance(cause, errors.HTTPError | OSError):
                    raise
                elif isinstance(cause, errors.OfflineModeIsEnabled | FileNotFoundError) or refusals == _TRIES:
                    raise self._unreachable(cause) from error
            except ValueError as error:
                raise DataError(f"the Hub refuses {self.target.repo!r}: {self._shown(error)}") from error
            self.wait(min(asked if asked is not None else pause, _LONGEST_WAIT))
            pause *= 2

    def _refused(self, error: Exception, status: int) -> DcurateError:
        shown = self._shown(error)
        if status in (401, 403, 404):
            return ResourceError(
                f"the Hub does not let you write to data set {self.target.repo!r} ({shown}); check the name, and set "
                "HF_TOKEN to a token that may write to it"
            )
        advice = "publish again later: what is there already is not sent again"
        return ResourceError(f"the Hub answered {status} for data set {self.target.repo!r} ({shown}); {advice}")

    def _unreachable(self, error: Exception) -> DcurateError:
        return ResourceError(
            f"the Hub cannot be reached ({self._shown(error)}); publish again later: what is there already is not "
            "sent again"
        )

    def _shown(self, error: Exception) -> str:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        text = (getattr(error, "server_message", None) or lines[0]).rstrip(".")
        return text.replace(self.hf_token, "***") if self.hf_token else text


def seconds_asked(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait, by ``Retry-After`` or ``RateLimit``; None if it does not.

    Examples:
        >>> seconds_asked({"retry-after": "7"}), seconds_asked({"ratelimit": '"api";r=0;t=55'}), seconds_asked({})
        (7.0, 55.0, None)
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    after, limit = retry_after_s(lower.get("retry-after")), re.search(r"\bt=(\d+)", lower.get("ratelimit", ""))
    return float(limit[1]) if after is None and limit else after


def _is_done(path: str, content: Path | bytes | None, stored: Mapping[str, Stored]) -> bool:
    """Whether a file is as it is to be: there with this content, or not there."""
    if content is None:
        return path not in stored
    if path not in stored:
        return False
    if isinstance(content, Path):
        return stored[path].equals(content)
    return stored[path].digest in digests(content)


def digests(content: bytes) -> tuple[str, str]:
    """Return the digests that the Hub may have of a file: SHA-256, and that of Git."""
    return hashlib.sha256(content).hexdigest(), hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
