"""Put files in the place of others of an output: all of them, whenever the process dies, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory

#: Says which files are to be moved into an output.
JOURNAL = f"{META_DIR}/replacing.json"
_STAGED = f"{META_DIR}/replacing"


def staging(directory: Directory) -> Directory:
    """Return the directory to which files are written that are to replace those of an output; nothing is in it.

    Raises:
        DataError: what is there cannot be removed.
    """
    staged = _staged(directory)
    staged.clear()
    return staged


def discard(directory: Directory) -> None:
    """Remove what was written to `staging`."""
    _staged(directory).clear()


def replace_files(
    directory: Directory, moves: Iterable[str], files: Mapping[str, bytes], removes: Iterable[str] = ()
) -> None:
    """Move files from `staging` into an output, each in the place of the one of its name, and write small files.

    If the process dies meanwhile, `finish_replacing` goes on from there.

    Args:
        moves: names of the files to move.
        files: small files to write when these are moved, by name.
        removes: names of files to remove then.

    Raises:
        DataError: files cannot be moved, written or removed.
    """
    texts = {name: data.decode() for name, data in files.items()}
    journal = {"moves": list(moves), "files": texts, "removes": list(removes)}
    directory.write(JOURNAL, orjson.dumps(journal))
    finish_replacing(directory)


def finish_replacing(directory: Directory) -> None:
    """Finish a replacement of files that was killed; do nothing if there is none.

    Raises:
        DataError: files cannot be moved or written, or what is to be moved cannot be read.
    """
    data = directory.read(JOURNAL)
    if data is None:
        return
    try:
        journal = orjson.loads(data)
        moves, files, removes = list(journal["moves"]), dict(journal["files"]), list(journal.get("removes", ()))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{directory.path(JOURNAL)!r} is damaged; put it back from a copy") from error
    directory.take_over(_staged(directory), moves)
    directory.remove(removes)
    for name, text in files.items():
        directory.write(name, text.encode())
    directory.remove([JOURNAL])
    discard(directory)


def _staged(directory: Directory) -> Directory:
    return Directory(directory.path(_STAGED), directory.options)
