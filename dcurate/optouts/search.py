"""Find the documents that a list names in all that was made of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dcurate.errors import DataError, listed
from dcurate.io.optouts import KINDS, OptOuts
from dcurate.io.row_removal import ComparedRows
from dcurate.optouts.listing import OptOutList
from dcurate.optouts.near import NearCopies
from dcurate.optouts.products import CorpusProduct, has_rows

#: How documents are called that another output of the corpus names, and near-copies.
ELSEWHERE, NEAR = "id elsewhere", "near-copy"


class OptOutMatch(NamedTuple):
    """A document that is to go.

    Args:
        file: file that holds it, and ``row`` the number in that.
        id: its id; None if it has none.
        by: what it is known by: one of `KINDS`, ``"id elsewhere"`` or ``"near-copy"``.
        of: id of the document that it is a near-copy of.
        similarity: how similar it is to that.
    """

    file: str
    row: int
    id: str | None
    by: str
    of: str = ""
    similarity: float | None = None


@dataclass
class OptOutMatches:
    """The documents to take out of a product.

    Args:
        product: the product.
        files: the documents, by file and row.
        compared: what its documents are known by.
        lines: lines in the place of rows, by file and row, see `dcurate.optouts.copies`.
        further: rows of documents besides the first of each.
    """

    product: CorpusProduct
    files: dict[str, dict[int, OptOutMatch]] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    lines: dict[str, dict[int, bytes]] = field(default_factory=dict)
    further: int = 0

    def add(self, match: OptOutMatch) -> None:
        """Add a document, if it is not known yet."""
        self.files.setdefault(match.file, {}).setdefault(match.row, match)

    def add_samples(self) -> None:
        """Add the other rows of documents that have several.

        Raises:
            DataError: a file cannot be read.
        """
        for name in list(self.files):
            samples = self.product.samples(name) or ()
            gone = {samples[row]: match for row, match in self.files[name].items()} if samples else {}
            for row, sample in enumerate(samples):
                if sample in gone:
                    self.add(gone[sample]._replace(row=row))
            self.further += len(self.files[name]) - len(gone) if samples else 0

    def all(self) -> Iterator[OptOutMatch]:
        """Yield the documents in the order of files and rows."""
        for name in sorted(self.files):
            yield from (self.files[name][row] for row in sorted(self.files[name]))

    def written(self) -> dict[str, dict[int, bytes]]:
        """Return the files that are written again, and what takes the place of rows in each."""
        names = sorted({*self.files, *self.lines})
        return {name: {**dict.fromkeys(self.files.get(name, ()), b""), **self.lines.get(name, {})} for name in names}

    @property
    def ids(self) -> set[str]:
        """Their ids."""
        return {match.id for match in self.all() if match.id is not None}


@dataclass
class OptOutSearch:
    """A search for the documents of a list; each file is read a part at a time.

    Args:
        wanted: the list.
        near: the near-copies to look for; None for none.
    """

    wanted: OptOutList
    near: NearCopies | None = None

    def __post_init__(self) -> None:
        digests = self.wanted.optouts.digests
        self._seen = {kind: np.zeros(len(digests[kind]), np.bool_) for kind in digests}
        if self.near is not None:
            texts = self.wanted.texts
            self.near.add(texts, [f"text {number} of the list" for number in range(1, len(texts) + 1)])

    @property
    def entries(self) -> dict[str, int]:
        """How many values of the list name a document, by kind."""
        return {kind: int(seen.sum()) for kind, seen in self._seen.items()}

    def run(self, products: Sequence[CorpusProduct], known: Mapping[str, set[str]]) -> list[OptOutMatches]:
        """Return the documents to take out of each product.

        Ids name the same document in all products: what goes from one for its URL or text goes from the others, too.

        Args:
            known: ids of documents that the same list has taken out before, by the address of the output.

        Raises:
            DataError: a file cannot be read, or a product has nothing that the list can be compared with.
        """
        made = [OptOutMatches(product) for product in products]
        whole = [matches for matches in made if matches.product.whole]
        for matches in made:
            self._named(matches)
        if self.near is not None:
            for matches in whole:
                self._near(matches)
        for matches in made:
            here = matches.product.directory.address
            before = (known[output] for output in known if output != here)
            ids = set[str]().union(*before, *(product.ids for product in made if product is not matches))
            self._elsewhere(matches, ids - matches.ids)
        for matches in made:
            matches.add_samples()
            self._check(matches, alone=len(made) == 1 and not any(known.values()))
        return made

    def _named(self, matches: OptOutMatches) -> None:
        """Look for what the list names."""
        optouts, product = self.wanted.optouts, matches.product
        near = self.near if product.whole else None
        for name in product.names():
            for rows in product.rows(name, optouts.compared, texts=optouts.has("text") or near is not None):
                matches.compared |= _kinds(rows)
                for hit in optouts.hits(rows.urls, rows.ids, rows.texts):
                    self._seen[hit.kind][hit.entry] = True
                    match = OptOutMatch(name, rows.numbers[hit.row], _id(rows, hit.row), hit.kind)
                    matches.add(match)
                    if near is not None and rows.texts is not None and isinstance(rows.texts[hit.row], str):
                        near.add([rows.texts[hit.row]], [match.id or f"{name}, row {match.row}"])

    def _near(self, matches: OptOutMatches) -> None:
        """Look for near-copies of all that the list names in any product."""
        assert self.near is not None
        product = matches.product
        for name in product.names():
            for rows in product.rows(name, self.wanted.optouts.compared, texts=True):
                for copy in self.near.copies_in(rows.texts or []):
                    row = rows.numbers[copy.row]
                    matches.add(OptOutMatch(name, row, _id(rows, copy.row), NEAR, copy.of, round(copy.similarity, 4)))

    def _elsewhere(self, matches: OptOutMatches, ids: set[str]) -> None:
        """Look for documents that other products had to give away."""
        if not ids:
            return
        compared, product = self.wanted.optouts.compared, matches.product
        optouts = OptOuts.of({"id": sorted(ids)}, compared)
        for name in product.names():
            for rows in product.rows(name, compared, texts=False):
                for hit in optouts.hits(None, rows.ids, None):
                    matches.add(OptOutMatch(name, rows.numbers[hit.row], _id(rows, hit.row), ELSEWHERE))

    def _check(self, matches: OptOutMatches, *, alone: bool) -> None:
        """Refuse a product that the list cannot be compared with."""
        optouts, product = self.wanted.optouts, matches.product
        comparable = {"url": "url", "domain": "url", "id": "id", "text": "text"}
        wanted = {comparable[kind] for kind in KINDS if optouts.has(kind)}
        if (
            matches.compared & wanted
            or (not alone and "id" in matches.compared)
            or not has_rows(product)
            or self.near is not None
        ):
            return
        names = {"url": optouts.compared.url, "id": optouts.compared.id or "of ids", "text": optouts.compared.text}
        hint = "name them with --url-field, --id-field or --text-field, or leave the output out"
        raise DataError(
            f"the {product.kind} in {product.directory.url!r} have no column {listed(names[kind] for kind in wanted)} "
            f"to compare with {self.wanted.path!r}; {hint}"
        )


def copies_of(all_matches: Iterable[OptOutMatches], search: OptOutSearch, ids: set[str]) -> int:
    """Count the rows that are kept as dropped copies of documents that go, and do not go themselves.

    Raises:
        DataError: a file cannot be read.
    """
    count = 0
    for matches in all_matches:
        for name in matches.product.names() if matches.product.whole and ids else ():
            going = matches.files.get(name, {})
            for rows in matches.product.rows(name, search.wanted.optouts.compared, texts=False):
                pairs = zip(rows.numbers, rows.copies_of or (), strict=rows.copies_of is not None)
                count += sum(str(of) in ids and number not in going for number, of in pairs)
    return count


def _kinds(rows: ComparedRows) -> set[str]:
    present: dict[str, Any] = {"url": rows.urls, "id": rows.ids, "text": rows.texts}
    return {kind for kind, values in present.items() if values is not None and any(v is not None for v in values)}


def _id(rows: ComparedRows, row: int) -> str | None:
    value = None if rows.ids is None else rows.ids[row]
    return None if value is None else str(value)
