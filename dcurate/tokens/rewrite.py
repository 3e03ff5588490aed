"""Merge folders of tokens, and convert them to other formats and packings, without the tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dcurate.core.stage import Stage
from dcurate.errors import DataError, PipelineError
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import READERS
from dcurate.tokens.documents import DocumentSource
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.plan import ShardPlan, TokenShard, TokenShards
from dcurate.tokens.settings import KINDS, TokenSettings
from dcurate.tokens.shard_writer import TokenShardWriter
from dcurate.tokens.stored import StoredDocuments, stored_part
from dcurate.tokens.tokenizer import SpecialIds, TokenizerSource

#: What folders must share to be merged, and how it is called.
_ALIKE = {
    "tokenizer": "tokenizers",
    "format": "formats",
    "dtype": "types of ids",
    "packing": "packings",
    "sequence_length": "sequence lengths",
    "unit": "units",
    "bos": "BOS tokens",
    "eos": "EOS tokens",
    "losses": "losses",
    "special_in_text": "settings special_in_text",
    "text_field": "columns of texts",
    "id_field": "columns of ids",
}
#: Those of these settings that pairs of other programs lack.
_NOT_OF_PAIRS = ("special_in_text", "text_field", "id_field")


@dataclass(frozen=True)
class KnownTokenizer(TokenizerSource):
    """The tokenizer that a folder of tokens was made with, which need not be here.

    Args:
        known: its digest.
    """

    known: str = ""

    def fetch(self) -> None:
        """Do nothing."""

    def digest(self) -> str:
        """Return the digest that the folder names."""
        return self.known


@dataclass
class StoredShards(TokenShards):
    """Shards made of documents that are in shards already.

    Args:
        file_paths: the folders of these, for the records of the run.
    """

    file_paths: list[str] = field(default_factory=list)
    name: str = "stored_shards"

    def roots(self) -> list[str]:
        return [Directory(url).address for url in self.file_paths]


@dataclass
class KnownShardWriter(TokenShardWriter):
    """Writes shards by the rules of a folder of tokens, without the tokenizer.

    Args:
        about: what the folder holds.
        kind: the type of ids.
    """

    about: Mapping[str, Any] = field(kw_only=True, repr=False)
    kind: str = field(kw_only=True)

    def settings(self) -> dict[str, Any]:
        return {**self.token_settings.deciding(), "dtype": self.kind}

    def _load_rules(self) -> None:
        self._rules = SpecialIds(*(self.about[name] for name in ("bos", "eos", "pad"))), self.kind


@dataclass
class StoredShardWriter(KnownShardWriter):
    """Writes shards of documents that are in shards already.

    Args:
        without: see `StoredDocuments`.
    """

    without: Mapping[str, frozenset[int]] = field(default_factory=dict, repr=False)

    def _documents(self, kind: str) -> DocumentSource:
        return StoredDocuments(self.about, self.storage_options or {}, kind, self.without)


@dataclass(frozen=True)
class Changes:
    """What shards that are written again do not share with those that are read; None for what stays.

    Args:
        format, packing, sequence_length, dtype: see `TokenWriter`.
        shard_tokens: tokens of a shard; each shard becomes one if None.
    """

    format: str | None = None
    packing: str | None = None
    sequence_length: int | None = None
    dtype: str | None = None
    shard_tokens: int | None = None


def rewrite(
    folders: Sequence[TokenFolder], output: str, changes: Changes, *, mode: Any = "error", asks: str = "rewrite"
) -> list[Stage]:
    """Return the stages that write the documents of folders of tokens, in order, to another folder.

    Args:
        folders: folders of one tokenizer, format and packing.
        output: the folder to write.
        changes: what is to be different.
        mode: see `TokenWriter`.
        asks: what asks for it, for errors.

    Raises:
        DataError: a folder is none of tokens, is damaged, or is not like the first.
        PipelineError: settings that cannot be, or the output is one of the folders.
    """
    about = alike(folders)
    if any(TokenFolder(output, folder.options).directory.address == folder.directory.address for folder in folders):
        raise PipelineError(f"{asks}: the output {output!r} is one of the folders that are read; name another")
    form, packing, window = changes.format or about["format"], changes.packing, changes.sequence_length
    if packing is None:
        packing, window = about["packing"], window or about["sequence_length"]
    if about["unit"] == "window" and (packing, window) != (about["packing"], about["sequence_length"]):
        raise PipelineError(
            f"{asks}: the windows of {folders[0].url!r} were shuffled, so its documents cannot be packed again; "
            "convert the folder that was shuffled"
        )
    most = changes.shard_tokens or max((shard["tokens"] for folder in folders for shard in folder.shards), default=1)
    most = max(most, window or 1)
    new = {"format": form, "packing": packing, "sequence_length": window, "dtype": changes.dtype, "shard_tokens": most}
    settings = settings_of(about, asks, **new)
    kind = changes.dtype or _kind(about["dtype"], form)
    small = {name: value for name, value in about.items() if name not in ("shards", "pairs")}
    options = dict(folders[0].options)
    shards = _shards(folders, StoredDocuments(small, options, kind), changes.shard_tokens, about)
    source = StoredShards(shards, file_paths=[folder.url for folder in folders])
    writer = StoredShardWriter(
        output, mode=mode, storage_options=options, token_settings=settings, about=small, kind=kind
    )
    return [source, writer]


def alike(folders: Sequence[TokenFolder]) -> dict[str, Any]:
    """Return what folders hold, which must be alike and whole.

    Raises:
        DataError: they are not.
    """
    named = [folder for folder in folders if not folder.about.get("pairs")]
    first = folders[0].about
    if named:
        first = {**first, **{name: named[0].about[name] for name in _NOT_OF_PAIRS}}
    for folder in folders:
        for kind, called in _ALIKE.items():
            if kind in _NOT_OF_PAIRS and folder not in named:
                continue
            ours, theirs = (
                about[kind]["digest"] if kind == "tokenizer" else about[kind] for about in (first, folder.about)
            )
            if kind == "tokenizer" and ours != theirs and not (ours and theirs):
                unknown = folder if ours else folders[0]
                raise DataError(
                    f"{unknown.url!r} has pairs of .bin and .idx alone, which do not say their tokenizer; name it with "
                    "--tokenizer"
                )
            if ours != theirs:
                both = first[kind], folder.about[kind]
                shown = (setting["name"] if kind == "tokenizer" else setting for setting in both)
                raise DataError(
                    f"{folders[0].url!r} and {folder.url!r} have different {called}, {' and '.join(map(repr, shown))}; "
                    "merge folders that are alike, or convert one first"
                )
        damage = next(folder.damage(), None)
        if damage is not None:
            raise DataError(f"{folder.url!r}: {damage}; write it again before it is read")
    return first if len(named) == len(folders) else {**first, "special_in_text": None}


def settings_of(about: Mapping[str, Any], asks: str, **new: Any) -> TokenSettings:
    """Return settings for shards of the documents of a folder.

    Args:
        about: what the folder holds.
        asks: what asks for it, for errors.
        new: settings that differ.
    """
    tokenizer = about["tokenizer"]
    same = {name: about[name] for name in ("format", "packing", "sequence_length", "unit")}
    return TokenSettings(
        tokenizer=KnownTokenizer(
            tokenizer["name"],
            asks=asks,
            special_in_text=about["special_in_text"] or "token",
            known=tokenizer["digest"],
        ),
        text_field=about["text_field"],
        id_field=about["id_field"],
        loss_ranges_field="losses" if about["losses"] else None,
        add_bos=about["bos"] is not None,
        add_eos=about["eos"] is not None,
        **{"dtype": None, **same, **new},
    )


def _kind(dtype: str, form: str) -> str:
    """The smallest type of a format that holds all of another."""
    return next((kind for kind in KINDS[form] if np.can_cast(dtype, kind)), KINDS[form][-1])


def _shards(
    folders: Sequence[TokenFolder], source: StoredDocuments, most: int | None, about: Mapping[str, Any]
) -> list[TokenShard]:
    parts = [(stored_part(folder, shard), shard) for folder in folders for shard in folder.shards]
    if most is None:
        return [
            TokenShard((part,), number=number, documents=shard["documents"], tokens=shard["tokens"])
            for number, (part, shard) in enumerate(parts)
        ]
    window = about["sequence_length"] if about["unit"] == "window" else 1
    plan = ShardPlan(max(most // window, 1) * window)
    with ThreadPoolExecutor(READERS) as pool:
        for (part, shard), lengths in zip(parts, pool.map(source.lengths, (part for part, _ in parts)), strict=True):
            longest = int(lengths.max(initial=0))
            if longest > plan.most:
                raise DataError(
                    f"shard {shard['shard']!r} has a document of {longest:,} tokens, more than "
                    f"shard_tokens={most:,}; give larger shards"
                )
            plan.add(replace(part, rows=None), lengths)
    return plan.finished()
