"""Take documents out of a folder of tokens, with a receipt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from dcurate.core.stage import Stage
from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io.rows import is_readable, rows_with
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.plan import TokenShard
from dcurate.tokens.rewrite import StoredShards, StoredShardWriter, settings_of
from dcurate.tokens.shard_writer import index_files
from dcurate.tokens.spans import SPANS, Span
from dcurate.tokens.stored import stored_part

#: Where shards are written before they replace those that are there, and what has yet to be moved.
_STAGED, _JOURNAL = f"{META_DIR}/drop", f"{META_DIR}/drop.json"
_RECEIPTS = f"{META_DIR}/receipts"


class Drop:
    """Documents to take out of a folder of tokens.

    The shards that hold them are written again beside the folder, and moved into it when all are there, under the names
    that they had. A drop that was killed while files were moved is finished by the next one.

    Args:
        folder: folder of tokens.
        ids: ids of the documents.
        reason: why, for the receipt.
        copies_of: the documents that are near-copies, by id, and which of the others each is a copy of.

    Raises:
        DataError: it is no folder of tokens, or damaged.
    """

    def __init__(
        self, folder: TokenFolder, ids: Iterable[str], reason: str, copies_of: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.reason = folder, reason
        self.ids, self.copies_of = dict.fromkeys(ids), dict(copies_of or {})
        finish(folder)
        folder.__dict__.pop("about", None)
        damage = next(folder.damage(), None)
        if damage is not None:
            raise DataError(f"{folder.url!r}: {damage}; write it again before documents are dropped")
        self.spans = _spans_of(folder, {**self.ids, **dict.fromkeys(self.copies_of)})
        self.without = {name: frozenset(span.document for span in spans) for name, spans in self.spans.items()}

    @property
    def _window(self) -> bool:
        return bool(self.folder.about["unit"] == "window")

    @property
    def rewritten(self) -> list[dict[str, Any]]:
        """Shards of which documents stay."""
        affected = (shard for shard in self.folder.shards if shard["shard"] in self.without)
        return [shard for shard in affected if self._window or len(self.without[shard["shard"]]) < shard["documents"]]

    @property
    def staged(self) -> str:
        """The folder to which they are written."""
        return self.folder.directory.path(_STAGED)

    def stages(self) -> list[Stage]:
        """Return the stages that write these shards without the documents; none if there are no such shards."""
        about = {name: value for name, value in self.folder.about.items() if name != "shards"}
        rewritten = self.rewritten
        if not rewritten:
            return []
        most = max(*(shard["tokens"] for shard in rewritten), about["sequence_length"] or 1, 1)
        settings = settings_of(about, "dcurate tokens drop", shard_tokens=most)
        shards = [
            TokenShard((stored_part(self.folder, shard),), number, shard["documents"], shard["tokens"], shard["shard"])
            for number, shard in enumerate(rewritten)
        ]
        writer = StoredShardWriter(
            self.staged,
            mode="overwrite",
            storage_options=dict(self.folder.options),
            token_settings=settings,
            about=about,
            kind=about["dtype"],
            without=self.without,
        )
        return [StoredShards(shards, file_paths=[self.folder.url]), writer]

    def commit(self) -> dict[str, Any]:
        """Put the shards that were written in the place of the old ones; return the receipt.

        Raises:
            DataError: files cannot be moved.
        """
        folder = self.folder
        rewritten = {shard["shard"] for shard in self.rewritten}
        made = TokenFolder(self.staged, folder.options).shards if rewritten else []
        new = {shard["shard"]: shard for shard in made}
        if set(new) != rewritten:
            raise DataError(f"{self.staged!r} does not hold the shards that were to be written; drop again")
        old = {shard["shard"]: shard for shard in folder.shards if shard["shard"] in self.without}
        shards = [
            new.get(shard["shard"], shard) for shard in folder.shards if shard["shard"] not in old.keys() - rewritten
        ]
        files = {name: data.decode() for name, data in index_files({**folder.about}, shards).items()}
        receipt = self.receipt(new)
        name = f"{_RECEIPTS}/drop-{receipt['when'].replace(':', '')}-{_digest(json.dumps(receipt).encode())}.json"
        receipt["receipt"] = folder.directory.path(name)
        staged = Directory(self.staged, folder.options).files()
        moves = [name for name in staged if name not in files]
        removes = [name for name in folder.directory.files() if _shard_of(name) in old and name not in moves]
        journal = {"moves": moves, "removes": removes, "files": files, "name": name, "receipt": receipt}
        if old:
            folder.directory.write(_JOURNAL, json.dumps(journal).encode())
            finish(folder)
        else:
            folder.directory.write(name, json.dumps(receipt, indent=1).encode())
        return receipt

    def receipt(self, new: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what is dropped, where, when and why.

        Args:
            new: information about the shards that were written, by name.
        """
        places = [span for spans in self.spans.values() for span in spans]
        docs = {span.doc for span in places}
        return {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "why": self.reason,
            "folder": self.folder.directory.address,
            "asked": len(self.ids),
            "documents": len({(span.shard, span.document) for span in places}),
            "tokens": sum(span.end - span.start for span in places),
            "not_found": [doc for doc in self.ids if doc not in docs],
            "near_copies": {duplicate: of for duplicate, of in self.copies_of.items() if duplicate in docs},
            "places": [asdict(span) for span in places],
            "shards": {
                shard["shard"]: {"before": shard, "after": (new or {}).get(shard["shard"])}
                for shard in self.folder.shards
                if shard["shard"] in self.without
            },
        }


def finish(folder: TokenFolder) -> None:
    """Finish a drop that was killed while its files were moved; do nothing if there is none.

    Raises:
        DataError: files cannot be moved.
    """
    directory = folder.directory
    data = directory.read(_JOURNAL)
    if data is None:
        return
    journal = json.loads(data)
    staged = Directory(directory.path(_STAGED), folder.options)
    directory.take_over(staged, journal["moves"])
    directory.remove(journal["removes"])
    for name, text in journal["files"].items():
        directory.write(name, text.encode())
    directory.write(journal["name"], json.dumps(journal["receipt"], indent=1).encode())
    directory.remove([_JOURNAL])
    staged.clear()


def near_copies(groups: Directory, ids: Iterable[str]) -> dict[str, str]:
    """Return the documents that share a group of duplicates with any of these, and one of these that each is with.

    Args:
        groups: what `dcurate.FuzzyDuplicates` and others write to ``report_path``.

    Raises:
        DataError: the groups cannot be read.
    """
    wanted = dict.fromkeys(ids)
    names = [name for name in groups.files() if is_readable(name)]
    asked: dict[str, str] = {}
    for row in (row for name in names for row in rows_with(groups, name, "id", wanted)):
        asked.setdefault(str(row.values["group_id"]), str(row.values["id"]))
    rows = (row for name in names for row in rows_with(groups, name, "group_id", asked))
    copies = {str(row.values["id"]): asked[str(row.values["group_id"])] for row in rows}
    return {duplicate: of for duplicate, of in copies.items() if duplicate not in wanted}


def _spans_of(folder: TokenFolder, ids: Mapping[str, None]) -> dict[str, list[Span]]:
    """The spans of documents, by shard."""
    by_shard: dict[str, list[Span]] = {}
    for shard in folder.shards:
        rows = rows_with(folder.directory, f"{SPANS}/{shard['shard']}.parquet", "doc", ids)
        spans = [Span(**row.values) for row in rows]
        if spans:
            by_shard[shard["shard"]] = sorted(spans, key=lambda span: span.start)
    return by_shard


def _shard_of(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=4).hexdigest()
