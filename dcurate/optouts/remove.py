"""Take the documents of a list out of outputs, each whole or not at all."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from dcurate.core.stage import Stage
from dcurate.errors import DataError, PipelineError
from dcurate.fs.stores import Directory, output_of
from dcurate.io.lock import OutputLock
from dcurate.io.optouts import DigestSet, OptOuts, digest_of, list_name
from dcurate.io.receipts import OPTOUTS, receipts, removal_sentence
from dcurate.io.replacing import JOURNAL, discard, finish_replacing, replace_files, staging
from dcurate.optouts.copies import DroppedCopies
from dcurate.optouts.listing import OptOutList
from dcurate.optouts.near import NearCopies
from dcurate.optouts.products import FolderProduct, TokenProduct, products_of
from dcurate.optouts.search import ELSEWHERE, NEAR, OptOutMatches, OptOutSearch, copies_of
from dcurate.optouts.summaries import reports_after
from dcurate.runs.load import RecordedRun, read_run
from dcurate.tokens import drop
from dcurate.tokens.folder import TokenFolder

#: Carries out stages that write files of tokens.
Runner = Callable[[list[Stage]], None]


@dataclass
class OptOutRemoval:
    """What a list takes out of outputs.

    Use it in a ``with`` statement: the outputs are locked until its end. First `find`, then `commit`.

    Args:
        wanted: the list.
        outputs: addresses of outputs, of folders of tokens and of indexes of duplicates of one corpus.
        reason: why, for the receipts.
        near: similarity from which near-copies go, too; None to leave them.

    Attributes:
        matches: the documents, once they were looked for.
    """

    wanted: OptOutList
    outputs: Sequence[str]
    reason: str = ""
    near: float | None = None
    matches: list[OptOutMatches] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.near is not None and not 0 < self.near <= 1:
            raise PipelineError(f"near={self.near!r} is not a similarity; it must lie above 0 and at most at 1")
        self._begun = time.monotonic()
        self._locks = ExitStack()
        self._directories = _directories(self.outputs)
        # Where their runs kept what they dropped; later ones read the list in their output.
        self._runs, self._unseen = _rejected(self._directories)
        self._rejected = [rejected for _, rejected, _ in self._runs]
        self._directories += self._rejected
        self._known: dict[str, set[str]] = {}  # ids of documents that the list has taken out before, by output
        self._search = OptOutSearch(self.wanted, None if self.near is None else NearCopies(self.near))
        self._copies = self._bytes = 0
        self._put: dict[str, list[dict[str, str]]] = {}

    def __enter__(self) -> OptOutRemoval:
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    def lock(self) -> None:
        """Keep runs out of all outputs, and finish what an earlier removal was killed at.

        Raises:
            DataError: a run writes to one, or it cannot be written.
        """
        for directory in self._directories:
            self._locks.enter_context(lock := OutputLock("opt-out"))
            lock.acquire(directory)
            finish_replacing(directory)
            drop.finish(TokenFolder(directory.url, directory.options))

    def find(self) -> None:
        """Look for the documents; nothing is written but what was begun before.

        Raises:
            DataError: an output cannot be read, or not be compared with the list.
        """
        products = [product for directory in self._directories for product in products_of(directory)]
        digest = self.wanted.optouts.digest
        self._known = {directory.address: set(_ids_before(directory, digest)) for directory in self._directories}
        self.matches = self._search.run(products, self._known)
        ids = set[str]().union(*(matches.ids for matches in self.matches))
        self._copies = copies_of(self.matches, self._search, ids)
        for output, rejected, run in self._runs:
            self._put_back(output, rejected, run)

    def commit(self, run: Runner) -> None:
        """Write the files that hold any of the documents again, and put them in their places, output by output.

        Args:
            run: carries out the stages that write files of tokens.

        Raises:
            DataError: files cannot be read, written or moved; no output is left between old and new.
        """
        gone = set[str]().union(*self._known.values(), *(matches.ids for matches in self.matches))
        for directory in self._directories:
            parts = [matches for matches in self.matches if matches.product.directory is directory]
            for matches in parts:
                if isinstance(matches.product, TokenProduct):
                    _drop(matches.product, matches, self.reason, run)
            self._replace(directory, parts, gone)

    def _put_back(self, output: Directory, rejected: Directory, run: RecordedRun) -> None:
        """Put copies in the places of documents for which a run dropped them."""
        here = [matches for matches in self.matches if matches.product.directory is output and matches.product.whole]
        # The files of dropped copies are not kept.
        rows = [matches for matches in here if not isinstance(matches.product, FolderProduct)]
        [dropped] = [matches for matches in self.matches if matches.product.directory is rejected]
        places = {match.id: match for matches in rows for match in matches.all() if match.id is not None}
        before = {copy["of"]: copy["id"] for receipt in receipts(output) for copy in receipt.get("put_back", ())}
        files = {doc: match.file for doc, match in places.items()}
        copies = DroppedCopies(rejected, run)
        copies.find(files, before, dropped.files)
        for of, copy in copies.put_back.items():
            match = places[of]
            [matches] = [matches for matches in rows if match.file in matches.files]
            matches.lines.setdefault(match.file, {})[match.row] = copy.line
            self._put.setdefault(output.address, []).append({"id": copy.id, "of": of, "file": match.file})
        dropped.lines = copies.lines
        self._copies -= copies.groups

    def _replace(self, directory: Directory, parts: Sequence[OptOutMatches], gone: set[str]) -> None:
        """Replace the files of one output, and leave its receipt and the list there."""
        staged = staging(directory)
        moves, removes = list[str](), list[str]()
        nbytes = 0
        try:
            for matches in parts:
                for name, rows in () if isinstance(matches.product, TokenProduct) else matches.written().items():
                    names, written = matches.product.write(name, rows, staged)
                    moves, nbytes = [*moves, *names], nbytes + written
                    removes += matches.product.removes(name, rows)
            standing = _with_ids(self.wanted.optouts, gone - self._known_by_columns(directory, parts))
            kinds = (isinstance(matches.product, TokenProduct) or matches.product.whole for matches in parts)
            is_written_to = directory not in self._rejected and any(kinds)
            if is_written_to and not directory.has(list_name(standing)):
                staged.write(list_name(standing), standing.dumps())
                moves.append(list_name(standing))
            if not moves and not any(matches.files for matches in parts):
                discard(directory)
                return
            receipt = self._receipt(directory, parts, nbytes)
            files = {}
            if receipt["removed"]:
                files = reports_after(directory, self.wanted.optouts, gone, removal_sentence(receipt))
            self._bytes += nbytes
            files[_receipt_name(directory, receipt)] = orjson.dumps(receipt)
            replace_files(directory, moves, files, removes)
        except DataError as error:
            if not directory.has(JOURNAL):
                discard(directory)
            raise DataError(str(error).replace("run again with resume=True", "run this again")) from error

    def _known_by_columns(self, directory: Directory, parts: Sequence[OptOutMatches]) -> set[str]:
        """The ids of documents that later runs know by their URL or text: other documents may have these ids, too."""
        before = [receipt for receipt in receipts(directory) if receipt["list"] == self.wanted.optouts.digest]
        entries = [entry for receipt in before for entry in receipt["removed"]]
        entries += [match._asdict() for matches in parts for match in matches.all()]
        by_id = ("id", ELSEWHERE, NEAR)
        return {entry["id"] for entry in entries if entry["by"] not in by_id and entry["id"] is not None}

    def _receipt(self, directory: Directory, parts: Sequence[OptOutMatches], nbytes: int) -> dict[str, Any]:
        return {
            **self._about(),
            "output": directory.address,
            "products": [_counts(matches) for matches in parts],
            "bytes_written": nbytes,
            "put_back": self._put.get(directory.address, []),
            "removed": [match._asdict() for matches in parts for match in matches.all()],
        }

    def _about(self) -> dict[str, Any]:
        """When, why and by what list documents were removed."""
        return {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "why": self.reason,
            "list": self.wanted.optouts.digest,
            "asked": dict(self.wanted.entries),
            "compared": self.wanted.optouts.compared._asdict(),
            "near": self.near,
        }

    def receipt(self) -> dict[str, Any]:
        """Return the receipt of all outputs; those in their records name each document."""
        products = [{"output": m.product.directory.address, **_counts(m)} for m in self.matches]
        return {
            **self._about(),
            "ignored_columns": list(self.wanted.ignored),
            "named": self._search.entries,
            "unseen": self._unseen,
            "documents": sum(product["documents"] for product in products),
            "near_copies": sum(product["by"].get(NEAR, 0) for product in products),
            "put_back": sum(map(len, self._put.values())),
            "dropped_copies": self._copies,
            "bytes_written": self._bytes,
            "seconds": round(time.monotonic() - self._begun, 3),
            "products": products,
        }


def _counts(matches: OptOutMatches) -> dict[str, Any]:
    by_id = isinstance(matches.product, TokenProduct)  # whose documents may be in several places
    places = {match.id if by_id else (match.file, match.row) for match in matches.all()}
    return {
        "product": matches.product.kind,
        "files": len(matches.product.names()),
        "written": len(matches.files),
        "documents": len(places) - matches.further,
        "by": dict(Counter(match.by for match in matches.all())),
    }


def _directories(outputs: Sequence[str]) -> list[Directory]:
    """The outputs, each once.

    Raises:
        DataError: one is a link, whose records would not be those of the output.
    """
    for url in outputs:
        if "://" not in url and os.path.islink(path := url.rstrip("/")):
            raise DataError(
                f"{path!r} is a link to {os.path.realpath(path)!r}; name that, where runs keep their records"
            )
    addresses = [Directory(output_of(url)).address.rstrip("/") for url in outputs]
    return [Directory(address) for address in dict.fromkeys(addresses)]


def _rejected(directories: Sequence[Directory]) -> tuple[list[tuple[Directory, Directory, RecordedRun]], list[str]]:
    """The outputs whose runs kept what they dropped in a folder elsewhere, that folder, and the run; each once.

    Also the folders in which nothing is any more.
    """
    known = {directory.address.rstrip("/") for directory in directories}
    folders, unseen = [], list[str]()
    for directory in directories:
        try:
            run = read_run(directory.address)
        except DataError:  # no run has ended there
            continue
        path = run.report.rejected_path
        rejected = None if path is None else Directory(Directory(path).address.rstrip("/"))
        inside = rejected is not None and f"{rejected.address}/".startswith(f"{directory.address.rstrip('/')}/")
        if rejected is None or inside or rejected.address in known:
            continue
        known.add(rejected.address)
        if rejected.files():
            folders.append((directory, rejected, run))
        elif any(stage.dropped for stage in run.report.stages):
            unseen.append(rejected.address)
    return folders, unseen


def _ids_before(directory: Directory, digest: str) -> Iterator[str]:
    """The ids of documents that a list has taken out of an output before."""
    for receipt in receipts(directory):
        if receipt.get("list") == digest:
            yield from (match["id"] for match in receipt.get("removed", ()) if match["id"] is not None)


def _with_ids(optouts: OptOuts, ids: set[str]) -> OptOuts:
    """The list with the ids of all documents that it took out, for outputs without the columns that it names."""
    if not ids:
        return optouts
    packed = [optouts.digests["id"].tobytes()] if "id" in optouts.digests else []
    digests = {**optouts.digests, "id": DigestSet.of([*packed, *map(digest_of, sorted(ids))])}
    return OptOuts(optouts.compared, digests)


def _drop(product: TokenProduct, matches: OptOutMatches, reason: str, run: Runner) -> None:
    ids = [match.id for match in matches.all() if match.id is not None]
    if ids:
        todo = drop.Drop(product.folder, ids, reason)
        stages = todo.stages()
        if stages:
            run(stages)
        todo.commit()


def _receipt_name(directory: Directory, receipt: Mapping[str, Any]) -> str:
    """The name of a receipt; it begins with how many came before, as rows are numbered as these left them."""
    digest = hashlib.blake2b(orjson.dumps(receipt), digest_size=4).hexdigest()
    return f"{OPTOUTS}{len(receipts(directory)):06}-{receipt['when'].replace(':', '')}-{digest}.json"
