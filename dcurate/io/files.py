"""The files of an input, and their names."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from fsspec import get_filesystem_class
from fsspec.core import has_magic
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError, PipelineError, listed, shown
from dcurate.fs.compression import ENDINGS
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import Entry, file_entry, walk
from dcurate.fs.paths import check_name, check_reachable, full_address, open_store, protocol_of, without_links
from dcurate.fs.stores import BESIDE, RECORD_FILES
from dcurate.io.tables import LOGS, live_files, table_at
from dcurate.redaction import without_secrets

#: Names of files about data that hold none.
_ABOUT = re.compile(r"(readme|licen[sc]e|notice|citation|changelog)\b|.*\.md$", re.IGNORECASE)

#: Alternatives in a path, such as ``{a,b}``, without others in them.
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_PATHS = 10_000


@dataclass(frozen=True)
class Format:
    """A kind of file, by its name's endings."""

    name: str
    suffixes: tuple[str, ...]
    compressed: bool

    def matches(self, path: str) -> bool:
        """Whether a file of this name is of the kind."""
        name = path.lower()
        endings = ENDINGS if self.compressed else ("",)
        return any(name.endswith(suffix + ending) for suffix in self.suffixes for ending in endings)

    @property
    def wanted(self) -> str:
        """The endings, for an error sentence."""
        also = f", each plain or with {' '.join(filter(None, ENDINGS))}" if self.compressed else ""
        return " ".join(self.suffixes) + also


JSONL = Format("JSONL", (".jsonl", ".json", ".ndjson"), compressed=True)
CSV = Format("CSV", (".csv", ".tsv"), compressed=True)
PARQUET = Format("Parquet", (".parquet", ".pq"), compressed=False)


@dataclass(frozen=True)
class Formats(Format):
    """Several kinds of file as one.

    Examples:
        >>> both = Formats.of(JSONL, PARQUET)
        >>> both.name, both.matches("a.jsonl.zst"), both.matches("a.parquet"), both.matches("a.parquet.zst")
        ('JSONL or Parquet', True, True, False)
    """

    kinds: tuple[Format, ...]

    @classmethod
    def of(cls, *kinds: Format) -> Self:
        """The kinds as one."""
        suffixes = tuple(suffix for kind in kinds for suffix in kind.suffixes)
        *names, last = (kind.name for kind in kinds)
        return cls(f"{', '.join(names)} or {last}", suffixes, compressed=False, kinds=kinds)

    def matches(self, path: str) -> bool:
        return any(kind.matches(path) for kind in self.kinds)

    @property
    def wanted(self) -> str:
        return "; ".join(kind.wanted for kind in self.kinds)


@dataclass(frozen=True)
class SourceFile(HidesSecrets):
    """A file of the input.

    Args:
        path: its full address.
        name: what it is called in split names and messages: the path below the directory that was given.
        size: in bytes.
        version: changes when its content does.
    """

    path: str
    name: str
    size: int
    version: str


def hidden(name: str) -> bool:
    """Whether a file or directory of this name is no data: ``out.dcurate``, ``_SUCCESS``, ``.git``."""
    return name.startswith((".", "_")) or name.endswith(BESIDE)


def is_names(value: object) -> bool:
    """Whether it is a list of at least one column name."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(name, str) for name in value)


def as_list(file_paths: str | list[str]) -> list[str]:
    """One path or many, as a list of text.

    Raises:
        PipelineError: no path at all, or something that is not a path.
    """
    many = isinstance(file_paths, Iterable) and not isinstance(file_paths, str | bytes | os.PathLike | Mapping)
    paths: list[Any] = list(file_paths) if many else [file_paths]
    for path in paths:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise PipelineError(f"file_paths: {shown(path)} is not a path; give files, directories or globs as text")
    if not paths:
        raise PipelineError("file_paths is an empty list; give at least one file, directory or glob")
    return [alternative for path in paths for alternative in _alternatives(os.fspath(path))]


def _alternatives(path: str) -> list[str]:
    """The paths that a path with alternatives in braces expands to; the name of a local file is left as it is.

    Raises:
        PipelineError: they are too many.

    Examples:
        >>> sorted(_alternatives("s3://crawl/{2024-{05,06},2025-01}/*.jsonl"))
        ['s3://crawl/2024-05/*.jsonl', 's3://crawl/2024-06/*.jsonl', 's3://crawl/2025-01/*.jsonl']
        >>> _alternatives("crawl/{all}.jsonl")
        ['crawl/{all}.jsonl']
    """
    if not _BRACES.search(path) or (protocol_of(path) == "file" and os.path.exists(path)):
        return [path]
    paths = [path]
    while any(map(_BRACES.search, paths)):
        expanded: list[str] = []
        for alternative in paths:
            match = _BRACES.search(alternative)
            if match is None:
                expanded.append(alternative)
                continue
            before, after = alternative[: match.start()], alternative[match.end() :]
            expanded += [f"{before}{choice}{after}" for choice in match[1].split(",")]
        if len(expanded) > _MOST_PATHS:
            raise PipelineError(f"file_paths: {shown(path)} expands to more than {_MOST_PATHS:,} paths; give a glob")
        paths = expanded
    return list(dict.fromkeys(paths))


@dataclass(frozen=True)
class Listing:
    """The files at the given paths.

    Args:
        files: those of the kind that was asked for, sorted by name, each once.
        others: the names of files in the same directories that are of another kind, but for those about the data.
    """

    files: list[SourceFile]
    others: list[str]


def listing(file_paths: str | list[str], kind: Format, options: Mapping[str, Any] | None = None) -> Listing:
    """All files of a kind at the given paths, and the others there.

    Args:
        file_paths: files (with any name), directories (searched recursively) and globs.
        kind: format of the files wanted from a directory.
        options: fsspec's ``storage_options``.

    Raises:
        DataError: there is nothing at a path, or no file of the kind.
    """
    files: dict[str, SourceFile] = {}
    unmatched: dict[str, None] = {}
    for path in as_list(file_paths):
        here = _at(path, kind, options)
        for file in here.files:
            files.setdefault(file.path, file)
        unmatched.update(dict.fromkeys(here.others))
    return Listing(sorted(_distinct(list(files.values())), key=lambda file: file.name), list(unmatched))


def list_files(file_paths: str | list[str], kind: Format, options: Mapping[str, Any] | None = None) -> list[SourceFile]:
    """The files of a kind at the given paths, as `listing` finds them."""
    return listing(file_paths, kind, options).files


def shown_name(path: str, file_paths: str | list[str]) -> str:
    """Return the name of a file in messages: its path below the directory or glob that matched."""
    for prefix in _prefixes(tuple(as_list(file_paths))):
        if path.startswith(prefix):
            return _below(path, prefix)
    return without_secrets(path).rpartition("/")[2]


def roots(file_paths: str | list[str]) -> list[str]:
    """Return the addresses of the given files and directories; for a glob, the directory above its matches."""
    return [without_links(_prefixes((path,))[0].rstrip("/") or "/") for path in as_list(file_paths)]


def is_listed(path: str, file_paths: str | list[str], kind: Format) -> bool:
    """Whether `listing` would find a new file of a given address.

    Examples:
        >>> [is_listed("/in/out/a.jsonl", paths, JSONL) for paths in ("/in", "/in/*", "/in/*.jsonl", "/in/out.dcurate")]
        [True, True, False, False]
    """
    if not kind.matches(path):
        return False
    path = without_links(path)
    for address, root in zip(as_list(file_paths), roots(file_paths), strict=True):
        inner = path.removeprefix(f"{root}/")
        if inner == path or any(map(hidden, inner.split("/"))):
            continue
        if not has_magic(address):
            return True
        pattern = re.compile(
            glob_translate(f"{root}/{address.rstrip('/').removeprefix(_fixed_prefix(address)).lstrip('/')}")
        )
        parts = inner.split("/")
        if any(pattern.match("/".join([root, *parts[:length]])) for length in range(1, len(parts) + 1)):
            return True
    return False


@lru_cache(maxsize=16)
def _prefixes(file_paths: tuple[str, ...]) -> tuple[str, ...]:
    prefixes = []
    for path in file_paths:
        store = get_filesystem_class(protocol_of(path))
        root = store._strip_protocol(path)
        protocol = store.protocol if isinstance(store.protocol, str) else store.protocol[0]
        address = root if issubclass(store, LocalFileSystem) else f"{protocol}://{root}"
        prefixes.append((_fixed_prefix(address) if has_magic(address) else address).rstrip("/") + "/")
    return tuple(dict.fromkeys(prefixes))


def _at(path: str, kind: Format, options: Mapping[str, Any] | None) -> Listing:
    check_reachable(path)
    store, root = open_store(path, options)
    with storage_errors("list", path):
        store.invalidate_cache()
        logs: set[str] = set()

        def skip(name: str) -> bool:
            if name in LOGS:
                logs.add(name)
            return hidden(name)

        if has_magic(root) and not store.exists(root):
            prefix = _fixed_prefix(root)
            entries = list(_globbed(store, root, prefix, skip))
        elif store.isfile(root):
            file = file_entry(store, root)
            name = without_secrets(root).rpartition("/")[2]
            return Listing([SourceFile(full_address(store, root), name, file.size, file.version)], [])
        else:
            if path == "-" or (isinstance(store, LocalFileSystem) and _is_special(root)):
                raise DataError(f"{path!r} is a pipe, which cannot be read twice; write it into a file and name that")
            prefix = root.rstrip("/")
            _check_not_records(store, prefix, path)
            entries = list(walk(store, prefix, skip))
        table = table_at(store, prefix, logs, [entry.path for entry in entries]) if entries else ""
        exists = bool(entries) or (not has_magic(root) and store.exists(root))
    for entry in entries:
        check_name(entry.path)
    matching = [entry for entry in entries if kind.matches(entry.path)]
    if table and matching:
        live = live_files(store, prefix, table, path)
        matching = [entry for entry in matching if os.path.realpath(entry.path) in live]
        gone = live - {os.path.realpath(entry.path) for entry in matching} if not has_magic(root) else None
        if gone:
            raise DataError(f"{path!r} is a table without its file {min(gone)!r}; restore it, or read another version")
    unmatched = [entry.path for entry in entries if not kind.matches(entry.path)]
    data = [entry_path for entry_path in unmatched if not _ABOUT.match(entry_path.rpartition("/")[2])]
    if not matching:
        raise DataError(_nothing(path, kind, unmatched, exists, has_magic(root)))
    files = [
        SourceFile(
            full_address(store, entry.path),
            _below(entry.path, prefix).lstrip("/"),
            entry.size,
            entry.version,
        )
        for entry in matching
    ]
    return Listing(files, [_below(entry_path, prefix).lstrip("/") for entry_path in data])


def _check_not_records(store: Any, folder: str, path: str) -> None:
    """Refuse the folder with the records of a run, which is beside the output and named like it.

    Raises:
        DataError: a path names it.
    """
    if not folder.endswith(BESIDE) or not any(store.exists(f"{folder}/{name}") for name in RECORD_FILES):
        return
    records = without_secrets(path).rstrip("/")
    output = records.removesuffix(BESIDE)
    raise DataError(
        f"{records!r} holds the records of the run that wrote {output!r}, and not its rows; read {output!r}, or show "
        f"the run with dcurate report {output}"
    )


def _below(path: str, prefix: str) -> str:
    """Return the rest of a path after a prefix, without secrets."""
    return without_secrets(path)[len(without_secrets(prefix)) :]


def _is_special(path: str) -> bool:
    """Whether a local path is neither a file nor a directory."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _globbed(store: Any, pattern: str, prefix: str, skip: Callable[[str], bool]) -> Iterator[Entry]:
    for match, info in sorted(store.glob(pattern, detail=True).items()):
        if any(map(skip, match[len(prefix) :].strip("/").split("/"))):
            continue
        if info["type"] == "directory":
            yield from walk(store, match, skip)
        else:
            yield file_entry(store, match)


def _fixed_prefix(pattern: str) -> str:
    """The directory above the first part of a glob that is not fixed.

    Examples:
        >>> _fixed_prefix("/data/2024-*/part-?.jsonl")
        '/data'
    """
    parts = pattern.split("/")
    first = next(place for place, part in enumerate(parts) if has_magic(part))
    return "/".join(parts[:first])


def _nothing(path: str, kind: Format, unmatched: list[str], exists: bool, glob: bool) -> str:
    if not exists:
        problem = "no file matches" if glob else "there is nothing at"
        return f"{problem} {path!r}{_where(path)}; check the path (names that begin with '_' or '.' are left out)"
    if not unmatched:
        return f"the directory {path!r} is empty (names that begin with '_' or '.' are left out); name another"
    return (
        f"no {kind.name} file at {path!r} (looked for {kind.wanted}), only {len(unmatched)} of {_endings(unmatched)}; "
        f"name the files themselves or use the reader for their format"
    )


def _where(path: str) -> str:
    """What a path that leads nowhere may be meant to be relative to, or to hold."""
    if re.search(r"\$\{?[A-Za-z_]", path):
        return ", where $NAME is not replaced: write os.environ['NAME'], or let the shell do it"
    return "" if "://" in path or os.path.isabs(path) else f" in {os.getcwd()!r}"


def _endings(names: list[str]) -> str:
    counts = Counter(os.path.splitext(name)[1] or os.path.basename(name) for name in names)
    return listed(ending for ending, _ in counts.most_common(3))


def left_out(others: list[str], kind: Format) -> str:
    """A sentence on files of another kind in the input.

    Examples:
        >>> left_out(["a.md", "b.md", "c.txt"], JSONL)
        "left out 3 files whose names are not those of JSONL files, of '.md', '.txt'"
        >>> left_out(["a.csv"], JSONL)
        "left out 'a.csv', whose name is not that of a JSONL file; DocumentReader reads JSONL, Parquet and CSV together"
    """
    together = (JSONL, PARQUET, CSV)
    known = kind in together and any(readable.matches(name) for readable in together for name in others)
    advice = "; DocumentReader reads JSONL, Parquet and CSV together" if known else ""
    if len(others) == 1:
        return f"left out {others[0]!r}, whose name is not that of a {kind.name} file{advice}"
    return (
        f"left out {len(others):,} files whose names are not those of {kind.name} files, of {_endings(others)}{advice}"
    )


def _distinct(files: list[SourceFile]) -> list[SourceFile]:
    """Return the files with unique names: equal names are extended by parents."""
    while True:
        counts = Counter(file.name for file in files)
        if all(count == 1 for count in counts.values()):
            return files
        files = [replace(file, name=_longer(file)) if counts[file.name] > 1 else file for file in files]


def _longer(file: SourceFile) -> str:
    path = without_secrets(file.path)
    parts = path.split("/")
    longer = "/".join(parts[-(file.name.count("/") + 2) :]).lstrip("/")
    if longer != file.name != path:
        return longer
    return f"{path}#{hashlib.blake2b(file.path.encode(), digest_size=8).hexdigest()}" if file.name == path else path
