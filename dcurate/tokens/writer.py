"""`TokenWriter`: from documents to shards of tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import BarrierStage, CompositeStage, Spec, Stage
from dcurate.errors import DataError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.io import output
from dcurate.io.sink import FileWriter
from dcurate.shuffle.chunks import READERS
from dcurate.tokens.content import ShardContent
from dcurate.tokens.folder import ABOUT
from dcurate.tokens.formats import FORMATS, ShardFiles, litdata_config, mds_config, npy_header
from dcurate.tokens.layout import Packing
from dcurate.tokens.plan import TokenShard, TokenShards, file_order, plan_shards
from dcurate.tokens.settings import TokenSettings
from dcurate.tokens.spans import SPANS, SpanWriter, shard_notes
from dcurate.tokens.tokenize import TokenChunkWriter, TokenizeDocuments
from dcurate.tokens.tokenizer import SpecialIds, TokenizerSource

_INDEX = "index.json"


@dataclass
class TokenWriter(CompositeStage[DocumentBatch, FileGroup]):
    """Write documents as tokens, in files that a trainer reads: Megatron, datatrove, MosaicML, litdata and others.

    Documents are tokenised as they come, and then written in the order of the source, in shards of ``shard_tokens``
    tokens: the same bytes for any number of workers, and after any number of kills. A document is never in two shards.
    Beside the shards, in ``spans/``, is a table that says for each piece of a shard which document it is of; ``dcurate
    trace --token`` reads it. A document without text is left out, for the reason ``no_tokens``.

    Args:
        path: the directory to write to, local or a URL.
        tokenizer: a ``tokenizer.json``, a SentencePiece ``.model``, ranks such as ``cl100k_base.tiktoken``, a folder
            with one of these, or the id of a model at the Hugging Face hub. It adds no special tokens of its own.
        format: ``"megatron"`` (``.bin`` and ``.idx``), ``"ds"`` (datatrove), ``"memmap"`` (raw ids in ``.npy``, with
            the ``.csv.gz`` of dolma), ``"npy"`` (with a header), ``"mds"`` (MosaicML), ``"litdata"`` or ``"parquet"``.
        text_field: the column of texts.
        id_field: the column that names documents in the table of spans; the first of ``id``, ``doc_id``, ``url`` and
            the like by default, or an id that is made of the place of the row.
        shard_tokens: tokens of a shard at most, without padding.
        add_bos: whether each document begins with the BOS token; or the name of a token that it begins with.
        add_eos: the same for the end of each document, and the EOS token.
        packing: ``"none"``: a sequence for each document. ``"concat"``: documents follow one another and are cut into
            windows of ``sequence_length``; the last window of a shard is padded. ``"best_fit"``: each document is put
            into the window with the least space that holds it, and cut only if it is longer than a window.
        sequence_length: tokens of a window.
        dtype: type of the ids; by default ``uint16`` where the vocabulary with all added tokens fits, else the next
            larger one that the format has.
        loss_ranges_field: a column with lists of ``[first, one past the last]`` character: tokens outside of these
            do not count for the loss. A null counts all of the text.
        mode: what to do about existing files: ``"error"``, ``"overwrite"``, ``"ignore"`` or ``"append"``.
        storage_options: for fsspec.
        tokenizer_kwargs: of ranks: ``pattern``, a regular expression or the name of an encoding (that of the file by
            default), and ``special_tokens`` with their ids.
        transformers_init_kwargs: more arguments of ``AutoTokenizer.from_pretrained``, which then loads the folder or
            the model of the hub.
        cache_dir: where files of the hub are kept.
        hf_token: for a model that is not public.
        name: of the stage.

    Raises:
        PipelineError: settings that cannot be; or, before anything is written, a tokenizer that does not have the EOS
            or BOS token, or whose ids do not fit the type.
        DataError: a document is longer than a shard.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import pandas as pd
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> words = Tokenizer(models.WordLevel({"one": 0, "two": 1, "</s>": 2}, unk_token="one"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> folder = tempfile.TemporaryDirectory()
        >>> words.save(f"{folder.name}/tokenizer.json")
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one two", "two"]}))
        >>> writer = TokenWriter(f"{folder.name}/out", f"{folder.name}/tokenizer.json", add_eos="</s>")
        >>> _ = Pipeline("tokens", stages=[writer]).run(InlineExecutor(), [rows], observers=[])
        >>> sorted(path.name for path in Path(folder.name, "out").glob("*.*"))
        ['tokens-00000.bin', 'tokens-00000.idx', 'tokens.json']
        >>> np.fromfile(f"{folder.name}/out/tokens-00000.bin", np.uint16).tolist()
        [0, 1, 2, 1, 2]
        >>> folder.cleanup()
    """

    path: str
    tokenizer: str
    format: str = "megatron"
    text_field: str = "text"
    id_field: str | None = None
    shard_tokens: int = 2**27
    add_bos: bool | str = False
    add_eos: bool | str = True
    packing: Packing = "none"
    sequence_length: int | None = None
    dtype: str | None = None
    loss_ranges_field: str | None = None
    mode: output.Mode = "error"
    storage_options: dict[str, Any] | None = None
    tokenizer_kwargs: dict[str, Any] | None = None
    transformers_init_kwargs: dict[str, Any] | None = None
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    name: str = "token_writer"

    def __post_init__(self) -> None:
        self.decompose()

    def decompose(self) -> list[Stage]:
        settings = self.token_settings()
        writer = TokenShardWriter(
            str(self.path),
            mode=self.mode,
            storage_options=self.storage_options,
            token_settings=settings,
            name=self.name,
        )
        return [
            TokenizeDocuments(settings, name=f"{self.name}_tokens"),
            TokenBarrier(settings, name=f"{self.name}_shards"),
            writer,
        ]

    def token_settings(self) -> TokenSettings:
        """Return what decides the bytes.

        Raises:
            PipelineError: settings that cannot be.
        """
        source = TokenizerSource(
            identifier=str(self.tokenizer),
            settings=self.tokenizer_kwargs or {},
            init_kwargs=self.transformers_init_kwargs or {},
            asks=self.name,
            cache_dir=self.cache_dir,
            hf_token=self.hf_token,
        )
        return TokenSettings(
            tokenizer=source,
            format=self.format,
            text_field=self.text_field,
            id_field=self.id_field,
            loss_ranges_field=self.loss_ranges_field,
            shard_tokens=self.shard_tokens,
            add_bos=self.add_bos,
            add_eos=self.add_eos,
            packing=self.packing,
            sequence_length=self.sequence_length,
            dtype=self.dtype,
        )


@dataclass
class TokenBarrier(BarrierStage[DocumentBatch]):
    """Collects the tokens of all documents, and plans the shards."""

    token_settings: TokenSettings
    name: str = "token_barrier"
    _notices: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    uses_only_named_columns = True

    def settings(self) -> dict[str, Any]:
        return self.token_settings.deciding()

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [TokenChunkWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        shards = plan_shards(folder, file_order(folder, splits), self.token_settings.shard_tokens)
        documents, tokens = sum(one.documents for one in shards), sum(one.tokens for one in shards)
        self._notices = [f"{documents:,} documents are {tokens:,} tokens, in shards: {len(shards):,}"]
        return [TokenShards(shards, name=self.name)]

    def notices(self) -> list[str]:
        return self._notices


@dataclass
class TokenShardWriter(FileWriter):
    """Writes shards of tokens; see `TokenWriter`."""

    token_settings: TokenSettings = field(kw_only=True)
    name: str = "token_shard_writer"
    _rules: tuple[SpecialIds, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def uses_only_named_columns(self) -> bool:  # type: ignore[override]
        """Whether the column of ids is named; else all columns are looked at."""
        return self.token_settings.id_field is not None

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

    def process(self, task: Any) -> FileGroup:
        """Write the files of a shard, the table of its spans last.

        Raises:
            DataError: they cannot be written.
        """
        assert isinstance(task, TokenShard)
        assert task.key is not None
        assert self._rules is not None, "prepare() of the writer comes first"
        own, form = self.token_settings, FORMATS[self.token_settings.format]
        special, kind = self._rules
        content = ShardContent(
            shard=task,
            options=self.storage_options or {},
            packing=own.packing,
            window=own.sequence_length,
            pad=special.pad,
            kind=kind,
            with_loss=own.loss_ranges_field is not None,
        )
        files = ShardFiles(self.directory, self._shard_name(task), own.tokenizer.identifier)
        with files.writing(".parquet", f"{SPANS}/") as file:
            spans = SpanWriter(file, files.name, content.layout)
            content.seen.append(spans.add)
            with ExitStack() as stack:
                if not form.columns:
                    self._open_sidecars(content, files, stack)
                form.write(content, files)
            about = {
                "shard": files.name,
                "documents": task.documents,
                "sequences": len(content.layout.sequences),
                "tokens": content.layout.tokens,
                "padding": content.layout.padding,
                "files": {part.path.rpartition("/")[2]: part.size for part in files.parts},
            }
            spans.close(about)
        self._log_metrics({"tokens": content.layout.tokens, "padding": content.layout.padding})
        return FileGroup(key=task.key, parts=tuple(files.parts))

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        raise NotImplementedError

    def complete(self) -> None:
        """Write what says which shards there are: ``tokens.json``, and the ``index.json`` of MDS and litdata."""
        directory = self.directory
        names = sorted(name for name in directory.files(SPANS) if name.endswith(".parquet"))
        with ThreadPoolExecutor(READERS) as pool:
            shards = list(pool.map(lambda name: shard_notes(directory, name), names))
        assert self._rules is not None
        own, (special, kind) = self.token_settings, self._rules
        files: dict[str, bytes] = {}
        if own.format == "mds":
            config = mds_config(kind, own.sequence_length, own.loss_ranges_field is not None)
            index: dict[str, Any] = {"version": 2, "shards": [_mds_shard(config, one) for one in shards]}
            files[_INDEX] = json.dumps(index, sort_keys=True).encode()
        elif own.format == "litdata":
            index = {"chunks": list(map(_litdata_chunk, shards)), "config": litdata_config(kind), "updated_at": "0"}
            files[_INDEX] = json.dumps(index, sort_keys=True).encode()
        about = {**self._about(), "dtype": kind, "bos": special.bos, "eos": special.eos, "pad": special.pad}
        about |= {"text_field": own.text_field, "id_field": own.id_field, "losses": own.loss_ranges_field is not None}
        for name in ("documents", "sequences", "tokens", "padding"):
            about[name] = sum(one[name] for one in shards)
        files[ABOUT] = json.dumps({**about, "shards": shards}, indent=1).encode()
        output.write_completed(directory, files)

    def _about(self) -> dict[str, Any]:
        """What shards of one folder must share."""
        own = self.token_settings
        tokenizer = {"name": own.tokenizer.identifier, "digest": own.tokenizer.digest()}
        same = {name: getattr(own, name) for name in ("format", "packing", "sequence_length")}
        return {**same, "tokenizer": tokenizer}

    def _check_same(self) -> None:
        data = self.directory.read(ABOUT)
        there = json.loads(data) if data is not None else {}
        about = self._about()
        differing = [name for name in about if there and there.get(name) != about[name]]
        if "tokenizer" in differing and there["tokenizer"].get("digest") == about["tokenizer"]["digest"]:
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
        if self._generation is None:
            self._generation = output.generation(self.directory) if self.mode == "append" else 0
        mark = f"-g{self._generation}" if self._generation else ""
        return f"tokens{mark}-{shard.number:05}"

    def _open_sidecars(self, content: ShardContent, files: ShardFiles, stack: ExitStack) -> None:
        """Have losses written beside the tokens, and boundaries, where the format has no place for them."""
        own = self.token_settings
        if own.format == "npy" or own.packing != "none":
            boundaries = content.layout.boundaries
            with files.writing(".cu_seqlens.npy", f"{SPANS}/") as file:
                file.write(npy_header("int64", (len(boundaries),)))
                file.write(boundaries.astype("<i8").tobytes())
        if not content.with_loss:
            return
        if own.format == "ds":
            losses = stack.enter_context(files.writing(".ds.loss"))
        else:
            losses = stack.enter_context(files.writing(".loss.npy", f"{SPANS}/"))
            losses.write(npy_header("uint8", (content.layout.tokens,)))
        content.seen.append(lambda piece: losses.write(piece.loss.data))


def _mds_shard(config: Mapping[str, Any], shard: Mapping[str, Any]) -> dict[str, Any]:
    [(name, size)] = _with_ending(shard, ".mds")
    raw = {"basename": name, "bytes": size, "hashes": {}}
    return {**config, "raw_data": raw, "zip_data": None, "samples": shard["sequences"]}


def _litdata_chunk(shard: Mapping[str, Any]) -> dict[str, Any]:
    [(name, size)] = _with_ending(shard, ".bin")
    return {"chunk_bytes": size, "chunk_size": shard["sequences"], "dim": shard["tokens"], "filename": name}


def _with_ending(shard: Mapping[str, Any], ending: str) -> list[tuple[str, int]]:
    return [(name, size) for name, size in shard["files"].items() if name.endswith(ending)]
