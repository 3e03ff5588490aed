"""Recognize files that hold no lines of text by their first bytes."""

from __future__ import annotations

from dcurate.errors import DataError

_UTF16 = "UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8) and try again"
_OTHERS = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"{\0": _UTF16,
    b"\0{": _UTF16,
    b"PAR1": "a Parquet file; read it with ParquetReader or, named .parquet, with DocumentReader",
    b"ARROW1": "an Arrow file; write it as Parquet and read it with ParquetReader",
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"BZh": "compressed by bzip2; let its name end in .bz2",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; let its name end in .zst",
    b"\xfd7zXZ\0": "compressed by xz; let its name end in .xz",
    b"\x04\x22\x4d\x18": "compressed by lz4; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"WARC/1.": "a WARC file; read it with WarcReader",
}


def check_lines(data: bytes, name: str) -> None:
    """Refuse content that begins like another kind of file: none of its lines could be a row.

    Examples:
        >>> check_lines(b"BZh91AY", "a.jsonl")
        Traceback (most recent call last):
        dcurate.errors.DataError: a.jsonl is compressed by bzip2; let its name end in .bz2

    Raises:
        DataError: says what it is and what to do.
    """
    for beginning, kind in _OTHERS.items():
        if data.startswith(beginning):
            raise DataError(f"{name} is {kind}")
