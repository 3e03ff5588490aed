"""Download one file: complete, verified, and resumed from an earlier attempt."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedRandom
from typing import TypeVar

import orjson

from dcurate.download.origin import asked
from dcurate.download.transfer import LONGEST_WAIT_S, Interrupted, RemoteFile, Transfer, TransferError
from dcurate.errors import DataError
from dcurate.fs.errors import storage_errors
from dcurate.fs.locks import is_at, lock

T = TypeVar("T")

#: Bytes of the largest listing, compressed or not; the largest known ones have a few megabytes.
LARGEST_LISTING = 2**28
_PROGRESS = 2**20
_SPARE = 2**26
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def fetch(file: RemoteFile, target: str, transfer: Transfer) -> None:
    """Download a file atomically: it gets its name only when it is complete and verified.

    What came before a break stays beside the target as ``<target>.part``, and only the rest is asked for next time,
    by whichever process. If two want the same file, one waits for the other. A target that is there is left as it is,
    unless its size is known to be another.

    Raises:
        TransferError: the server does not give the file, or not the file that was announced.
        DataError: it cannot be written; the disk is full.
    """
    with storage_errors("write", target):
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        while not is_whole(target, file):
            with _part_of(target) as part:
                if part is None:
                    continue
                if not is_whole(target, file):
                    _fill(_Download(file, target, part, transfer))
                    return  # also with an empty file, which is not whole for the next run if its size is not known
                os.unlink(f"{target}.part")


def is_whole(target: str, file: RemoteFile) -> bool:
    """Whether a downloaded file exists; files get their name only when they are complete."""
    try:
        size = os.stat(target).st_size
    except FileNotFoundError:
        return False
    return size > 0 if file.size is None else size == file.size


def read(url: str, transfer: Transfer) -> bytes:
    """The contents of a small file, such as a listing.

    Raises:
        TransferError: it cannot be fetched.
    """
    data, _ = read_limited(url, transfer, LARGEST_LISTING)
    if len(data) > LARGEST_LISTING:
        raise TransferError(f"cannot fetch {url}: it has more than {LARGEST_LISTING:,} bytes; check the address")
    return data


def read_limited(
    url: str, transfer: Transfer, limit: int, most_s: float = math.inf
) -> tuple[bytes, Sequence[tuple[str, str]]]:
    """The contents of a file of unknown size, up to one byte more than `limit`, and the headers of the server.

    Args:
        most_s: seconds that an attempt may take, as a server may send a byte now and then for ever; and that a server
            may ask to wait, in all.

    Raises:
        TransferError: it cannot be fetched.
    """

    def whole() -> tuple[bytes, Sequence[tuple[str, str]]]:
        data = bytearray()
        with asked(url, transfer, most_s=most_s) as answer:
            end = time.monotonic() + most_s
            for chunk in answer.chunks:
                data += chunk
                if time.monotonic() > end:
                    raise Interrupted(f"{len(data)} bytes came in {most_s:g} s")
                if len(data) > limit:
                    return bytes(data[: limit + 1]), answer.headers
            if answer.size is not None and len(data) != answer.size:
                raise Interrupted(f"{len(data)} of {answer.size} bytes came")
            return bytes(data), answer.headers

    return _tried(url, transfer, whole, most_s)


def read_range(url: str, transfer: Transfer, start: int, length: int) -> bytes:
    """A range of bytes of a file.

    Raises:
        TransferError: they cannot be fetched, or the file ends before them.
    """

    def part() -> bytes:
        with asked(url, transfer, start, stop=start + length) as answer:
            data, end = bytearray(), start + length - answer.start
            for chunk in answer.chunks:
                data += chunk
                if len(data) >= end:
                    break
            if len(data) < end:
                raise Interrupted(f"{max(0, len(data) + answer.start - start)} of {length} bytes came")
            return bytes(data[start - answer.start : end])

    return _tried(url, transfer, part)


def _tried(url: str, transfer: Transfer, attempt: Callable[[], T], longest_wait_s: float = LONGEST_WAIT_S) -> T:
    """The result of the first attempt that is not interrupted."""
    retries = _Retries(url, transfer, min(longest_wait_s, LONGEST_WAIT_S))
    while True:
        try:
            return attempt()
        except Interrupted as interrupted:
            retries.wait(interrupted)


def _fill(download: _Download) -> None:
    """Run a download; remove its part file if nothing was received."""
    try:
        download.run()
    except BaseException:
        download.clear_if_empty()
        raise


class _Download:
    """The transfer of one file into its part file."""

    def __init__(self, file: RemoteFile, target: str, part: BufferedRandom, transfer: Transfer) -> None:
        self.file, self.target, self.part, self.transfer = file, target, part, transfer
        self.notes = f"{target}.part.json"

    def run(self) -> None:
        """Attempt after attempt, until the file is complete."""
        retries = _Retries(self.file.url, self.transfer)
        while True:
            before = self._held()
            try:
                self._attempt()
                self._check()
                break
            except Interrupted as interrupted:
                if self._held() - before >= _PROGRESS:
                    retries = _Retries(self.file.url, self.transfer)
                retries.wait(interrupted)
        os.fsync(self.part.fileno())
        os.replace(f"{self.target}.part", self.target)
        with suppress(FileNotFoundError):
            os.unlink(self.notes)

    def clear_if_empty(self) -> None:
        """Remove an empty part file."""
        if not self._held():
            for path in (f"{self.target}.part", self.notes):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _attempt(self) -> None:
        """Request the missing bytes and write them."""
        held = self._held()
        validator = self._validator() if held else ""
        if held and not (validator or self.file.digest):
            held = self._restart()  # nothing would show whether the rest belongs to these bytes
        with asked(self.file.url, self.transfer, held, validator) as answer:
            if answer.start != held:
                held = self._restart()
            self._note(answer.validator)
            self._check_room(answer.size, held)
            try:
                for chunk in answer.chunks:
                    self.part.write(chunk)
            finally:
                self.part.flush()
        held = self._held()
        if answer.size is not None and held != answer.size:
            if held > answer.size:
                self._restart()
            raise Interrupted(f"{held} of {answer.size} bytes came")

    def _check(self) -> None:
        """Compare the received file with the announced size and checksum.

        Raises:
            Interrupted: it differs; the part file is removed.
        """
        size, held = self.file.size, self._held()
        if size is not None and held != size:
            self._restart()
            raise Interrupted(f"the server has {held} bytes, but {size} were announced")
        kind, _, wanted = self.file.digest.partition(":")
        if wanted:
            self.part.seek(0)
            actual = hashlib.file_digest(self.part, kind).hexdigest()
            if actual != wanted.lower():
                self._restart()
                raise Interrupted(f"its {kind} is {actual}, but {wanted} was announced")

    def _check_room(self, size: int | None, held: int) -> None:
        free = shutil.disk_usage(os.path.dirname(self.target) or ".").free
        if size is not None and size - held > max(0, free - min(_SPARE, free // 10)):
            raise DataError(
                f"no space left for {self.target!r}: {size - held:,} more bytes are needed and {free:,} are free; free "
                "some space, or set keep_files=False to delete files after reading, and resume"
            )

    def _held(self) -> int:
        return os.fstat(self.part.fileno()).st_size

    def _restart(self) -> int:
        self.part.truncate(0)
        return 0

    def _note(self, validator: str) -> None:
        """Record the version of the file before its first byte."""
        if validator != self._validator():
            with open(self.notes, "wb") as notes:
                notes.write(orjson.dumps({"url": self.file.url, "validator": validator}))

    def _validator(self) -> str:
        try:
            with open(self.notes, "rb") as notes:
                noted = orjson.loads(notes.read())
            return str(noted["validator"]) if noted["url"] == self.file.url else ""
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return ""


@contextmanager
def _part_of(target: str) -> Iterator[BufferedRandom | None]:
    """The part file, locked; None if another process finished the file meanwhile."""
    part = f"{target}.part"
    with open(part, "a+b") as file:
        try:
            lock(file)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield file if is_at(part, file.fileno()) else None


class _Retries:
    """The failed attempts in a row at one file.

    Args:
        longest_wait_s: seconds that the server may ask to wait, in all.
    """

    def __init__(self, url: str, transfer: Transfer, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self._url, self._transfer, self._left_s = url, transfer, longest_wait_s
        self._failures = 0

    def wait(self, interrupted: Interrupted) -> None:
        """Wait after a failed attempt.

        Raises:
            TransferError: the file counts as failed.
        """
        self._failures += 1
        requested = interrupted.wait_s or 0.0
        reason = str(interrupted)
        if requested > self._left_s:
            reason = f"{reason}, and asks to wait {requested:,.0f} s, of which {self._left_s:,.0f} are left"
        elif self._failures < self._transfer.attempts:
            self._left_s -= requested
            time.sleep(self._transfer.wait_s(self._failures, requested))
            return
        tried = f" (tried {self._failures} times)" if self._failures > 1 else ""
        raise TransferError(f"cannot fetch {self._url}: {reason}{tried}", interrupted.status) from interrupted
