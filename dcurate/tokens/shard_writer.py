"""Write shards of tokens, and what says which shards there are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import Spec
from dcurate.errors import DataError, listed
from dcurate.io import output
from dcurate.io.labels import superseded
from dcurate.io.sink import FileWriter
from dcurate.shuffle.chunks import READERS
from dcurate.tokens.content import ShardContent
from dcurate.tokens.documents import ChunkedDocuments, DocumentSource
from dcurate.tokens.folder import ABOUT, about_of
from dcurate.tokens.formats import FORMATS, ShardFiles, litdata_config, mds_config, npy_header
from dcurate.tokens.plan import TokenShard
from dcurate.tokens.settings import TokenSettings
from dcurate.tokens.spans import SPANS, SpanFileWriter, shard_notes
from dcurate.tokens.tokenizer import SpecialIds

_INDEX = "index.json"


@dataclass
class TokenShardWriter(FileWriter):
    """Writes shards of tokens; see `TokenWriter`."""

    token_settings: TokenSettings = field(kw_only=True)
    name: str = "token_shard_writer"
    endings: ClassVar[tuple[str, ...]] = (".parquet",)
    takes_label: ClassVar[bool] = True
    _rules: tuple[SpecialIds, str] | None = field(default=None, init=False, repr=False, compare=False)

    def columns_read(self) -> list[str] | None:
        """None of tokens; any of documents without a column of ids, as these are then made of all columns."""
        return None if self.token_settings.id_field is None else []

    def settings(self) -> dict[str, Any]:
        return self.token_settings.deciding()

    def inputs(self) -> Spec:
        return [], []

    def check(self) -> None:
        self._load_rules()
        super().check()

    def prepare(self, resume: bool) -> None:
        self._load_rules()
        if self.mode in ("append", "ignore"):
            self._check_same()
        super().prepare(resume)
        left_out = superseded(self.directory)
        if left_out and self.directory.has(ABOUT):  # a run that died may have removed shards of it
            self._write_index(left_out)

    def process(self, task: Any) -> FileGroup:
        """Write the files of a shard, the table of its spans last.

        Raises:
            DataError: they cannot be written.
        """
        assert isinstance(task, TokenShard)
        assert task.key is not None
        assert self._rules is not None, "prepare() of the writer comes first"
        settings, form = self.token_settings, FORMATS[self.token_settings.format]
        special, kind = self._rules
        content = ShardContent(
            shard=task,
            source=self._documents(kind),
            packing=settings.packing,
            window=settings.sequence_length,
            pad=special.pad,
            kind=kind,
            with_loss=settings.loss_ranges_field is not None,
        )
        files = ShardFiles(self.directory, self._shard_name(task), settings.tokenizer.identifier)
        with files.writing(".parquet", f"{SPANS}/") as file:
            spans = SpanFileWriter(file, files.name, content.layout)
            content.seen.append(spans.add)
            with ExitStack() as stack:
                if not form.columns:
                    self._open_sidecars(content, files, stack)
                form.write(content, files)
            about: dict[str, Any] = {
                "shard": files.name,
                "documents": spans.documents,
                "sequences": len(content.layout.sequences),
                "tokens": content.layout.tokens,
                "padding": content.layout.tokens - spans.tokens,
                "files": {part.path.rpartition("/")[2]: part.size for part in files.parts},
                "digests": dict(files.digests),
            }
            spans.close(about)
        self._log_metrics({"tokens": about["tokens"], "padding": about["padding"]})
        return FileGroup(key=task.key, parts=tuple(files.parts))

    def _documents(self, kind: str) -> DocumentSource:
        """Where documents are read."""
        return ChunkedDocuments(self.storage_options or {}, self.token_settings.loss_ranges_field is not None)

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        raise NotImplementedError

    def complete(self, written: Sequence[str]) -> None:
        """Write what says which shards there are: ``tokens.json``, and the ``index.json`` of MDS and litdata."""
        if self.label is not None:
            output.complete_label(self.directory)
        self._write_index(superseded(self.directory))
        super().complete(written)

    def _write_index(self, left_out: Collection[int]) -> None:
        """Write which shards there are, without those of some runs."""
        directory, hidden = self.directory, set(output.files_of_runs(self.directory, left_out))
        names = sorted(name for name in directory.files(SPANS) if name.endswith(".parquet") and name not in hidden)
        with ThreadPoolExecutor(READERS) as pool:
            shards = list(pool.map(lambda name: shard_notes(directory, name), names))
        output.write_completed(directory, index_files(self._about(), shards))

    def _about(self) -> dict[str, Any]:
        """What shards of one folder must share."""
        assert self._rules is not None
        settings, (special, kind) = self.token_settings, self._rules
        tokenizer = {"name": settings.tokenizer.identifier, "digest": settings.tokenizer.digest()}
        shared = {name: getattr(settings, name) for name in ("format", "packing", "sequence_length", "unit")}
        about = {**shared, "tokenizer": tokenizer, **asdict(special), "dtype": kind}
        about |= {
            "text_field": settings.text_field,
            "id_field": settings.id_field,
            "losses": settings.loss_ranges_field is not None,
        }
        return {**about, "special_in_text": settings.tokenizer.special_in_text}

    def _check_same(self) -> None:
        data = self.directory.read(ABOUT)
        existing = {} if data is None else about_of(data, self.directory.url)
        about = self._about()
        differing = [name for name in about if existing and existing.get(name) != about[name]]
        if "tokenizer" in differing and existing["tokenizer"].get("digest") == about["tokenizer"]["digest"]:
            differing.remove("tokenizer")
        if differing:
            raise DataError(
                f"{self.directory.url!r} holds tokens of another {listed(differing)}; shards in one folder must be "
                "alike, so name another folder, or use mode='overwrite'"
            )

    def _load_rules(self) -> None:
        """Refuse a tokenizer that cannot do what is asked, before anything is written."""
        if self._rules is None:
            tokenizer = self.token_settings.tokenizer
            tokenizer.fetch()
            self._rules = self.token_settings.rules(tokenizer.load())

    def _shard_name(self, shard: TokenShard) -> str:
        if shard.label:
            return shard.label
        if self._generation is None:
            self._generation = output.generation(self.directory) if self.mode == "append" else 0
        mark = f"-g{self._generation}" if self._generation else ""
        return f"tokens{mark}-{shard.number:05}"

    def _open_sidecars(self, content: ShardContent, files: ShardFiles, stack: ExitStack) -> None:
        """Have losses written beside the tokens, and boundaries, where the format has no place for them."""
        settings = self.token_settings
        if settings.format == "npy" or settings.packing != "none":
            boundaries = content.layout.boundaries
            with files.writing(".cu_seqlens.npy", f"{SPANS}/") as file:
                file.write(npy_header("int64", (len(boundaries),)))
                file.write(boundaries.astype("<i8").tobytes())
        if not content.with_loss:
            return
        if settings.format == "ds":
            losses = stack.enter_context(files.writing(".ds.loss"))
        else:
            losses = stack.enter_context(files.writing(".loss.npy", f"{SPANS}/"))
            losses.write(npy_header("uint8", (content.layout.tokens,)))
        content.seen.append(lambda piece: losses.write(piece.loss.data))


def index_files(about: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Return the files that say which shards a folder has, by name.

    Args:
        about: what the shards share.
        shards: information about each.
    """
    files: dict[str, bytes] = {}
    kind = about["dtype"]
    if about["format"] == "mds":
        config = mds_config(kind, about["sequence_length"], about["losses"])
        index: dict[str, Any] = {"version": 2, "shards": [_mds_shard(config, shard) for shard in shards]}
        files[_INDEX] = json.dumps(index, sort_keys=True).encode()
    elif about["format"] == "litdata":
        index = {"chunks": list(map(_litdata_chunk, shards)), "config": litdata_config(kind), "updated_at": "0"}
        files[_INDEX] = json.dumps(index, sort_keys=True).encode()
    totals = {name: sum(shard[name] for shard in shards) for name in ("documents", "sequences", "tokens", "padding")}
    files[ABOUT] = json.dumps({**about, **totals, "shards": shards}, indent=1).encode()
    return files


def _mds_shard(config: Mapping[str, Any], shard: Mapping[str, Any]) -> dict[str, Any]:
    [(name, size)] = _with_ending(shard, ".mds")
    raw = {"basename": name, "bytes": size, "hashes": {}}
    return {**config, "raw_data": raw, "zip_data": None, "samples": shard["sequences"]}


def _litdata_chunk(shard: Mapping[str, Any]) -> dict[str, Any]:
    [(name, size)] = _with_ending(shard, ".bin")
    return {"chunk_bytes": size, "chunk_size": shard["sequences"], "dim": shard["tokens"], "filename": name}


def _with_ending(shard: Mapping[str, Any], ending: str) -> list[tuple[str, int]]:
    return [(name, size) for name, size in shard["files"].items() if name.endswith(ending)]
