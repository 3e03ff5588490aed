"""Whether files are as they were when a run read them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from dcurate.errors import DataError, DcurateError
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import check_unchanged, file_entry, walk
from dcurate.fs.paths import full_address, open_store, protocol_of
from dcurate.redaction import without_secrets
from dcurate.runs.lineages.record import LineageRecord
from dcurate.runs.lineages.uses import Use, looked_at
from dcurate.runs.text import many

#: Files that are looked at one by one, where a store has no listing, or its listing differs.
_FILES = 1_000
_BLOCK = 2**20


def changes(address: str, files: Mapping[str, str], record: LineageRecord, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on files that are gone since a run read them, and one on files that changed.

    Args:
        address: the file or folder that they are in.
        files: versions by path.
        record: record of the run.
        options: fsspec's ``storage_options``.
    """
    if not files:
        return
    since = f"since run {record.run} ({record.pipeline}) read"
    try:
        now = _versions(address, files, options)
    except (DcurateError, OSError) as error:
        yield f"{address!r} cannot be compared with what run {record.run} read: {error}"
        return
    gone = [path for path in files if path not in now]
    if gone:
        are = "are" if len(gone) > 1 else "is"
        yield f"{_named(gone, address)} {are} gone {since} {_it(gone)}{_first(gone, address)}"
    changed = [path for path, version in files.items() if version and now.get(path, version) != version]
    if changed and any(_differs(path, files[path], options) for path in changed[:_FILES]):
        yield f"{_named(changed, address)} changed {since} {_it(changed)}{_first(changed, address)}"


def use_changes(use: Use, record: LineageRecord, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on a model or another file that changed, or is gone, since a run read it."""
    if not use.files:
        return
    now = looked_at(use, options)
    since = f"since run {record.run} ({record.pipeline}) read it"
    if now is None or not now.files:
        yield f"{use.role} {use.address!r} is gone {since}"
    elif now.version != use.version:
        yield f"{use.role} {use.address!r} changed {since}"


def bytes_digest(address: str, files: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """Return a SHA-256 of the paths below an address and of the bytes of these files, which are read.

    Raises:
        DataError: a file cannot be read, or changed since it was listed.
    """
    whole = hashlib.sha256()
    for path in sorted(files):
        digest = hashlib.sha256()
        store, inner = open_store(path, options)
        with storage_errors("read", path):
            check_unchanged(store, inner, files[path], path)
            with store.open(inner, "rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        whole.update(f"{path.removeprefix(address)}\t{digest.hexdigest()}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _versions(address: str, files: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """The versions of files as they are now, by path; of a store without listings those of some."""
    store, root = open_store(address, options)
    with storage_errors("list", address):
        if protocol_of(address) not in ("http", "https"):
            entries = [file_entry(store, root)] if store.isfile(root) else walk(store, root)
            return {without_secrets(full_address(store, entry.path)): entry.version for entry in entries}
        now = dict(files)
        for path in islice(files, _FILES):
            try:
                now[path] = file_entry(store, path).version
            except FileNotFoundError:
                del now[path]
        return now


def _differs(path: str, version: str, options: Mapping[str, Any]) -> bool:
    """Whether a file has another version by a look at it: a listing may have another form of the same."""
    store, inner = open_store(path, options)
    try:
        with storage_errors("look at", path):
            check_unchanged(store, inner, version, path)
    except DataError:
        return True
    return False


def _named(paths: Sequence[str], address: str) -> str:
    return repr(address) if paths == [address] else f"{many(len(paths), 'file')} of {address!r}"


def _first(paths: Sequence[str], address: str) -> str:
    return "" if paths == [address] else f" (first: {paths[0]!r})"


def _it(paths: Sequence[str]) -> str:
    return "them" if len(paths) > 1 else "it"
