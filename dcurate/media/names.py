"""What names of files and of members of containers say (compression, container, sample), and first bytes of files."""

from __future__ import annotations

import codecs
import os
import re
from functools import lru_cache

from dcurate.fs.compression import ENDINGS, ending_of
from dcurate.fs.paths import is_address

#: Endings of files by kind of media.
KINDS = {
    "image": (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic"),
        *(".heif", ".jp2", ".jxl", ".ico", ".ppm", ".pgm", ".pbm", ".tga"),
    ),
    "pdf": (".pdf",),
    "office": (".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods", ".epub", ".rtf", ".doc", ".ppt", ".xls"),
    "audio": (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac"),
    "video": (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"),
}
#: Endings of containers, which may be followed by one of compression.
TAR, ZIP, WARC, LINES = (".tar",), (".zip",), (".warc", ".arc"), (".jsonl", ".ndjson")

_SHORT = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_SAMPLE = re.compile(r"((?:.*/)?[^/.]+)\.([^/]*)")
#: A backslash that would be taken for one of an escape, and escapes.
_ESCAPE, _ESCAPED = re.compile(r"\\(?=x(?:5c|[89a-f][0-9a-f]))"), re.compile(rb"\\x(5c|[89a-f][0-9a-f])")
_DRIVE = re.compile(r"[A-Za-z]:")
#: First bytes of a file by which it is said to be text.
_TEXT = 512


@lru_cache(maxsize=1024)
def compression_of(path: str) -> str:
    """The ending that says how a file is compressed, empty for plain.

    Examples:
        >>> [compression_of(path) for path in ("a.tar.zst", "a.TGZ", "a.tar")]
        ['.zst', '.gz', '']
    """
    return _SHORT.get(os.path.splitext(path.lower())[1], "") or ending_of(path)


@lru_cache(maxsize=1024)
def container_of(path: str) -> str:
    """The kind of container that a name means: ``"tar"``, ``"zip"``, ``"warc"``, ``"lines"``; empty for another file.

    Examples:
        >>> [container_of(path) for path in ("a.tar.gz", "a.tgz", "CC.warc.gz", "a.jsonl.zst", "a.ZIP", "a.png")]
        ['tar', 'tar', 'warc', 'lines', 'zip', '']
    """
    lower = path.lower()
    if os.path.splitext(lower)[1] in _SHORT:
        return "tar"
    name = lower.removesuffix(ending_of(lower)).removesuffix(".lz4")
    for kind, endings in (("tar", TAR), ("warc", WARC), ("lines", LINES)):
        if name.endswith(endings):
            return kind
    return "zip" if lower.endswith(ZIP) else ""


def container_endings(lines: tuple[str, ...] = LINES) -> tuple[str, ...]:
    """All endings of containers, with those of compression."""
    packed = [name + ending for name in (*TAR, *WARC, *lines) for ending in ENDINGS]
    return (*packed, *_SHORT, *ZIP, *(f"{name}.lz4" for name in WARC))


def shown(name: str) -> str:
    r"""The name of a member as valid text: each byte that is no UTF-8 as ``\xff``; see `stored`.

    Args:
        name: decoded with ``surrogateescape``.

    Examples:
        >>> shown(b"caf\xe9.png".decode("utf-8", "surrogateescape")), shown(r"a\b.png"), shown(r"a\xe9.png")
        ('caf\\xe9.png', 'a\\b.png', 'a\\x5cxe9.png')
    """
    return _ESCAPE.sub(r"\\x5c", name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def stored(name: str) -> str:
    r"""The name that `shown` gave, as it was.

    Examples:
        >>> stored(r"caf\xe9.png").encode("utf-8", "surrogateescape"), stored(r"a\x5cxe9.png")
        (b'caf\xe9.png', 'a\\xe9.png')
    """
    if "\\x" not in name:
        return name
    data = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), name.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def is_climbing(name: str) -> bool:
    """Whether a member's name would lead out of the folder that it is unpacked to.

    Examples:
        >>> [is_climbing(name) for name in ("a/b.png", "../b.png", "/etc/b.png", "a/../../b.png", "C:/b.png")]
        [False, True, True, True, True]
    """
    parts = name.replace("\\", "/").split("/")
    return parts[0] == "" or ".." in parts or _DRIVE.match(name) is not None


def is_hidden(name: str) -> bool:
    """Whether a member is none of the data: of macOS, or with a name that begins with a dot.

    Examples:
        >>> [is_hidden(name) for name in ("__MACOSX/._a.jpg", ".DS_Store", "a/.x.jpg", "./a.jpg")]
        [True, True, True, False]
    """
    base = name.rpartition("/")[2]
    return base.startswith(".") or name.startswith("__MACOSX/") or (base[:2] == "__" and base[-2:] == "__")


def sample_of(name: str) -> tuple[str, str]:
    """The sample of a WebDataset shard to which a member belongs, and its suffix: all after its first dot.

    Examples:
        >>> sample_of("a.b/000.left.png"), sample_of("README")
        (('a.b/000', 'left.png'), ('README', ''))
    """
    match = _SAMPLE.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def kind_of(name: str) -> str:
    """The kind of media of a name, empty for another.

    Examples:
        >>> [kind_of(name) for name in ("a.JPG", "a.left.png", "a.pdf", "a.txt")]
        ['image', 'image', 'pdf', '']
    """
    ending = os.path.splitext(name.lower())[1]
    return next((kind for kind, endings in KINDS.items() if ending in endings), "")


def within(root: str | None, path: str) -> str | None:
    """The full address of a file that must lie in a folder; None if it lies elsewhere.

    Args:
        root: folder or address; None if there is none, so that no file lies in it.
        path: an address below it, or a path that is relative to it.

    Examples:
        >>> within("/data", "a/b.wav"), within("/data", "/data/b.wav"), within("s3://sounds/", "b.wav")
        ('/data/a/b.wav', '/data/b.wav', 's3://sounds/b.wav')
        >>> within("/data", "../etc/passwd"), within("/data", "/etc/passwd"), within(None, "b.wav")
        (None, None, None)
    """
    if root is None:
        return None
    if "://" in root:
        base = root.rstrip("/") + "/"
        inner = path.removeprefix(base)
        outside = is_address(inner) or {"..", "%2e%2e"} & set(inner.lower().split("/"))
        return None if outside else base + inner
    folder = os.path.abspath(root)
    file = os.path.normpath(os.path.join(folder, path))
    inside = os.path.commonpath([folder, file]) == folder and "://" not in path and "\0" not in path
    return file if inside else None


def described(head: bytes) -> str:
    r"""What a file is by its first bytes, for the fault of a file that is not of the format that a stage reads.

    Examples:
        >>> [described(head) for head in (b"<!DOCTYPE html>", b"%PDF-1.7", b"PK\x03\x04", b"Not found.", b"RIFF\0")]
        ['HTML or XML', 'PDF', 'zip', 'text', 'unknown format']
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    known = {b"<": "HTML or XML", b"%PDF": "PDF", b"PK\x03\x04": "zip", b"\x1f\x8b": "gzip", b"%!PS": "PostScript"}
    named = next((name for mark, name in known.items() if start.startswith(mark)), None)
    return named or ("text" if _is_text(head[:_TEXT]) else "unknown format")


def _is_text(head: bytes) -> bool:
    """Whether bytes are UTF-8 without control characters; a character may be cut at the end."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return bool(text) and all(letter.isprintable() or letter in "\t\r\n\ufeff" for letter in text)
