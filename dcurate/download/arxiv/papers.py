"""Read the papers in a source archive, each with its TeX files."""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import IO, Any

from dcurate.download.extract import Skipped
from dcurate.download.iterate import DocumentIterator

#: A paper whose files together are larger than this is passed over, and counted.
LARGEST_PAPER = 2**28

_BLOCK = 512
_TEX = (".tex", ".ltx", ".latex")
_ENDINGS = re.compile(r"\.(tar\.gz|tgz|tar|gz|pdf|tex|ps|html|txt|docx)$", re.IGNORECASE)
_ID = re.compile(r"([A-Za-z-]*)([\d.]+)")
_ENCODING = re.compile(rb"\\usepackage\s*\[([A-Za-z0-9-]+)\]\s*\{inputenc\}")
_CODECS = {
    "applemac": "mac_roman",
    "ansinew": "cp1252",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1252": "cp1252",
    "koi8-r": "koi8_r",
    "koi8-ru": "koi8_u",
    "koi8-u": "koi8_u",
    "latin1": "latin_1",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin9": "iso8859_15",
}


class ArxivIterator(DocumentIterator):
    """Read the papers of a source archive.

    A paper is a packed archive of its own, or one packed TeX file. Its record holds the texts of its TeX files. Nothing
    is written to the disk. Papers of which only a PDF is there are counted, and so are those that are damaged, or whose
    files would go to another directory than their own.

    TeX files are UTF-8, else of the encoding that they name (``inputenc``), else Latin-1.

    Args:
        log_frequency: accepted for compatibility; the run reports progress.
        extract_tmp_dir: accepted for compatibility; nothing is unpacked to a disk.

    Examples:
        >>> ArxivIterator().output_columns()
        ['id', 'source_id', 'content']
    """

    def __init__(self, log_frequency: int = 1000, extract_tmp_dir: str | None = None) -> None:
        """The records have neither."""

    def output_columns(self) -> list[str]:
        return ["id", "source_id", "content"]

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped]:
        """The papers of an archive.

        Raises:
            tarfile.TarError: it is no archive, or is cut short; the papers before that were given.
        """
        name = os.path.basename(file_path)
        with open(file_path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                content = _found(archive, member)
                if isinstance(content, Skipped):
                    yield content
                else:
                    yield {"id": arxiv_id(member.name), "source_id": name, "content": content}
            _check_end(file, archive.offset)


def arxiv_id(path: str) -> str:
    """The identifier of a paper, from the name of its file.

    Examples:
        >>> arxiv_id("0001/hep-th0001001.gz"), arxiv_id("2101/2101.00001.gz")
        ('hep-th/0001001', '2101.00001')
    """
    name = _ENDINGS.sub("", path.rpartition("/")[2])
    match = _ID.fullmatch(name)
    if not match:
        return name
    return f"{match[1]}/{match[2]}" if match[1] else match[2]


def _found(archive: tarfile.TarFile, member: tarfile.TarInfo) -> list[str] | Skipped:
    """Return the TeX files of a paper, or the reason for their absence."""
    which = arxiv_id(member.name)
    if not _is_safe(member):
        return Skipped("unsafe path", True, which, repr(member.name))
    try:
        data = _read(archive, member, LARGEST_PAPER)
        data = _unpacked(data, LARGEST_PAPER)
        if data.startswith(b"%PDF") or member.name.lower().endswith(".pdf"):
            return Skipped("pdf only", id=which)
        files = _tex_files(data)
    except _UnsafeError as error:
        return Skipped("unsafe path", True, which, str(error))
    except (tarfile.TarError, zlib.error, EOFError, _TooLargeError, ValueError, OverflowError) as error:
        # ValueError, OverflowError: numbers in headers that tarfile does not check
        return Skipped("damaged", True, which, str(error) or type(error).__name__)
    return files or Skipped("no TeX source", id=which)


def _tex_files(data: bytes) -> list[str]:
    if data.startswith(b"%!"):  # PostScript
        return []
    if not tarfile.is_tarfile(BytesIO(data)):
        return [_decoded(data)] if b"\\" in data and b"\0" not in data else []
    with BytesIO(data) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        texts = _members(archive)
        file.seek(archive.offset)
        if file.read(_BLOCK).strip(b"\0"):
            raise tarfile.ReadError(f"the data after byte {archive.offset} of its archive is damaged")
    return texts


def _members(archive: tarfile.TarFile) -> list[str]:
    texts, remaining = [], LARGEST_PAPER
    for member in archive:
        if not member.name.lower().endswith(_TEX) or member.isdir():
            continue
        if not _is_safe(member):
            raise _UnsafeError(repr(member.name))
        text = _read(archive, member, remaining)
        remaining -= len(text)
        texts.append(_decoded(text))
    return texts


def _is_safe(member: tarfile.TarInfo) -> bool:
    """Whether it is a file with a name that stays within its directory."""
    return member.isfile() and not member.name.startswith("/") and ".." not in member.name.split("/")


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo, remaining: int) -> bytes:
    if member.size > remaining:
        raise _TooLargeError(f"{member.name!r} is larger than {remaining:,} bytes")
    file = archive.extractfile(member)
    data = file.read() if file else b""
    if len(data) != member.size:
        raise EOFError(f"{member.name!r} is cut short")
    return data


def _unpacked(data: bytes, remaining: int) -> bytes:
    """The content of a gzip file, or the data itself if it is not gzip.

    Each member is given to its unpacker in growing pieces: what follows its end is copied, so that many small members
    would otherwise take the square of their number.
    """
    pieces: list[bytes] = []
    view, at = memoryview(data), 0
    while data.startswith(b"\x1f\x8b", at):
        unpacker, size = zlib.decompressobj(wbits=31), _BLOCK
        while not unpacker.eof:
            packed = view[at : at + size]
            if not packed:
                raise EOFError("the compressed file is cut short")
            pieces.append(unpacker.decompress(packed, remaining))
            remaining -= len(pieces[-1])
            if remaining <= 0:
                raise _TooLargeError("it is larger than the limit when decompressed")
            at, size = at + len(packed), 2 * size
        at -= len(unpacker.unused_data)
    return b"".join(pieces) if at else data


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        named = _ENCODING.search(data)
        codec = _CODECS.get(named[1].decode().lower(), "latin_1") if named else "latin_1"
        return data.decode(codec, "replace")


def _check_end(file: IO[bytes], offset: int) -> None:
    """Raise if the archive is longer than its last member, which tarfile takes for its end."""
    file.seek(offset)
    if file.read(_BLOCK) != b"\0" * _BLOCK:
        raise tarfile.ReadError(f"the data after byte {offset} is damaged or missing")


class _UnsafeError(Exception):
    """A file of a paper would be written to another directory."""


class _TooLargeError(Exception):
    """A paper is larger than the limit."""
