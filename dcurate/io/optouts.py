"""Documents that are to be taken out of outputs on request: what they are known by, and which rows they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.urls import domains_of, host_of, normal_host, normal_url
from dcurate.errors import DataError
from dcurate.frames.excerpts import id_column
from dcurate.fs.stores import Directory
from dcurate.io.receipts import OPTOUTS

#: What a document may be named by.
KINDS = ("url", "domain", "id", "text")
#: Why rows are left out of an output, see `dcurate.core.batch.Rejection`.
REASON = "removed by request"
#: How names of lists end.
_LIST = ".list"
_BYTES = 16
#: Column of the key of a sample.
_KEY = "__key__"

_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class DigestSet:
    """A set of values as digests of 128 bits, 16 bytes a value.

    Args:
        words: the digests in order, of shape (values, 2).

    Examples:
        >>> digests = DigestSet.of([digest_of("a"), digest_of("b")])
        >>> digests.places([digest_of("b"), digest_of("c")]).tolist() in ([0, -1], [1, -1])
        True
    """

    words: _Words = field(repr=False, default_factory=lambda: np.zeros((0, 2), np.uint64))

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> DigestSet:
        """Return the set of these digests."""
        words = _words(b"".join(digests))
        words = words[np.lexsort((words[:, 1], words[:, 0]))]
        new = np.ones(len(words), np.bool_)
        new[1:] = (words[1:] != words[:-1]).any(axis=1)
        return cls(words[new])

    def __len__(self) -> int:
        return len(self.words)

    def places(self, digests: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Return the number of each digest in the set; -1 for those that are not in it."""
        wanted = _words(b"".join(digests))
        places = np.full(len(wanted), -1, np.int64)
        if not len(self.words) or not len(wanted):
            return places
        first, last = (self.words[:, 0].searchsorted(wanted[:, 0], side) for side in ("left", "right"))
        for place in np.flatnonzero(last > first).tolist():
            equal = np.flatnonzero(self.words[first[place] : last[place], 1] == wanted[place, 1])
            if len(equal):
                places[place] = first[place] + equal[0]
        return places

    def tobytes(self) -> bytes:
        """Return the digests one after another."""
        return self.words.astype(">u8").tobytes()


class ComparedColumns(NamedTuple):
    """The columns that are compared.

    Args:
        url: column of URLs.
        id: column of ids; the first of those that usually hold them if None, else the key of a WebDataset.
        text: column of texts.
    """

    url: str = "url"
    id: str | None = None
    text: str = "text"

    def id_in(self, names: Sequence[str]) -> str | None:
        """Return the column of ids among these; None if there is none."""
        if self.id is not None:
            return self.id if self.id in names else None
        return id_column(names) or (_KEY if _KEY in names else None)


class Hit(NamedTuple):
    """A row that is to go: its number among those compared, what it is known by, and the number of that in the list."""

    row: int
    kind: str
    entry: int


@dataclass(frozen=True)
class OptOuts:
    """What documents are known by that are to be taken out; digests of it, so that nothing can be read from them.

    Args:
        compared: the columns that are compared.
        digests: digests for each of `KINDS`.

    Examples:
        >>> optouts = OptOuts.of({"domain": ["example.com"], "id": ["7"]})
        >>> urls = ["http://a.example.com/x", "http://notexample.com", None]
        >>> [(hit.row, hit.kind) for hit in optouts.hits(urls, ["1", "2", 7], None)]
        [(0, 'domain'), (2, 'id')]
    """

    compared: ComparedColumns = field(default_factory=ComparedColumns)
    digests: Mapping[str, DigestSet] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, values: Mapping[str, Iterable[str]], compared: ComparedColumns | None = None) -> OptOuts:
        """Return the list of these values, by kind."""
        digests = {kind: DigestSet.of(map(digest_of, map(FORMS[kind], values[kind]))) for kind in values}
        return cls(compared or ComparedColumns(), digests)

    @classmethod
    def loads(cls, data: bytes) -> OptOuts:
        """Return the list that `dumps` made these bytes of.

        Raises:
            ValueError: they are damaged.
        """
        head, _, body = data.partition(b"\n")
        about = orjson.loads(head)
        digests, at = {}, 0
        for kind, count in about["counts"].items():
            digests[kind] = DigestSet(_words(body[at : at + count * _BYTES]))
            at += count * _BYTES
        if at != len(body) or not set(digests) <= set(KINDS):
            raise ValueError("the list was cut")
        return cls(ComparedColumns(**about["compared"]), digests)

    def dumps(self) -> bytes:
        """Return the list as bytes; equal lists give equal bytes."""
        present = {kind: self.digests[kind] for kind in KINDS if kind in self.digests}
        counts = {kind: len(digests) for kind, digests in present.items()}
        about = orjson.dumps({"compared": self.compared._asdict(), "counts": counts})
        return b"".join([about, b"\n", *(digests.tobytes() for digests in present.values())])

    @property
    def digest(self) -> str:
        """Identifies the list."""
        return hashlib.blake2b(self.dumps(), digest_size=_BYTES).hexdigest()

    def has(self, *kinds: str) -> bool:
        """Whether the list names documents by any of these."""
        return any(len(self.digests.get(kind, ())) for kind in kinds)

    def columns(
        self, names: Sequence[str], written: Sequence[str] | None = None
    ) -> tuple[str | None, str | None, str | None]:
        """Return the columns of URLs, ids and texts among these that the list must be compared with.

        Args:
            written: those that an output has; its ids were compared with the list. All if None.
        """
        url, text = (name if name in names else None for name in (self.compared.url, self.compared.text))
        return (
            url if self.has("url", "domain") else None,
            self.compared.id_in(written or ()) or self.compared.id_in(names) if self.has("id") else None,
            text if self.has("text") else None,
        )

    def hits(self, urls: Sequence[Any] | None, ids: Sequence[Any] | None, texts: Sequence[Any] | None) -> Iterator[Hit]:
        """Yield the rows that the list names, in the order of `KINDS`; a row may come several times.

        Args:
            urls, ids, texts: values of each row; None for a column that is not there.
        """
        for kind, values in (("url", urls), ("id", ids), ("text", texts)):
            if values is not None and self.has(kind):
                rows = [row for row, value in enumerate(values) if _compares(kind, value)]
                yield from self._of_kind(kind, rows, [FORMS[kind](str(values[row])) for row in rows])
            if kind == "url" and values is not None and self.has("domain"):
                named = [(row, value) for row, value in enumerate(values) if _compares(kind, value)]
                pairs = [(row, domain) for row, value in named for domain in domains_of(host_of(value))]
                yield from self._of_kind("domain", [row for row, _ in pairs], [domain for _, domain in pairs])

    def _of_kind(self, kind: str, rows: Sequence[int], forms: Sequence[str]) -> Iterator[Hit]:
        places = self.digests[kind].places([digest_of(form) for form in forms])
        for at in np.flatnonzero(places >= 0).tolist():
            yield Hit(rows[at], kind, int(places[at]))


def _domain(value: str) -> str:
    return host_of(value.strip().removeprefix("*").removeprefix(".")) or normal_host(value.strip())


#: The form of a value of each kind that is compared.
FORMS: dict[str, Callable[[str], str]] = {"url": normal_url, "domain": _domain, "id": str, "text": str}


def digest_of(value: str) -> bytes:
    """Return the digest of a value."""
    return hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=_BYTES).digest()


def standing(directory: Directory) -> list[OptOuts]:
    """Return the lists that were applied to an output: rows that they name are not written to it again.

    Raises:
        DataError: one is damaged.
    """
    lists = []
    for name in sorted(directory.files(OPTOUTS.rstrip("/"))):
        if name.endswith(_LIST):
            try:
                lists.append(OptOuts.loads(directory.read(name) or b""))
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"{directory.path(name)!r} is damaged; apply the list of documents to remove again, after it is "
                    "deleted"
                ) from error
    return lists


def list_name(optouts: OptOuts) -> str:
    """Return the name of the file of a list in an output."""
    return f"{OPTOUTS}{optouts.digest}{_LIST}"


def _words(data: bytes) -> _Words:
    return np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64)


def _compares(kind: str, value: Any) -> bool:
    """Whether a value of a row can be compared: ids may be numbers, and a blank is not a URL."""
    if kind == "id":
        return value is not None
    return isinstance(value, str) and (kind == "text" or bool(value.strip()))
