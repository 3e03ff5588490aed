"""`TokenWriter`: from documents to shards of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.batch import FileGroup
from dcurate.core.stage import BarrierStage, CompositeStage, Spec, Stage
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.io import output
from dcurate.io.opted_out import StandingLists
from dcurate.tokens.layout import Packing
from dcurate.tokens.plan import TokenShards, file_order, plan_shards
from dcurate.tokens.settings import TokenSettings
from dcurate.tokens.shard_writer import TokenShardWriter
from dcurate.tokens.special import SpecialInText
from dcurate.tokens.tokenize import TokenChunkWriter, TokenizeDocuments
from dcurate.tokens.tokenizer import TokenizerSource


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
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: when a later run with the same
            label ends, its rows have replaced these, and those of other labels stay.
        storage_options: for fsspec.
        tokenizer_kwargs: settings of ranks: ``pattern``, a regular expression or the name of an encoding (that of the
            file by default), and ``special_tokens`` with their ids.
        transformers_init_kwargs: more arguments of ``AutoTokenizer.from_pretrained``, which then loads the folder or
            the model of the hub.
        cache_dir: where files of the hub are kept.
        hf_token: for a model that is not public.
        special_in_text: what becomes of a special token that is spelled in a document, such as ``</s>``, with any
            kind of tokenizer. ``"text"``: its characters are text like others, and never its id, so that no document
            can forge the end of another. ``"token"``: its id, which you need if you put ``<|im_start|>`` and the like
            into texts yourself. ``"refuse"``: the document is left out, for the reason ``special_token``.
        fast: whether the library gigatoken tokenises (extra ``fast-tokens``; of a ``tokenizer.json``): the same ids for
            much less CPU. One of 512 documents is also tokenised by ``tokenizers``, and other ids are an error.
        name: name of the stage.

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
    fast: bool = False
    special_in_text: SpecialInText = "text"
    name: str = "token_writer"
    label: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.decompose()

    def decompose(self) -> list[Stage]:
        settings = self.token_settings()
        writer = TokenShardWriter(
            str(self.path),
            mode=self.mode,
            storage_options=self.storage_options,
            label=self.label,
            token_settings=settings,
            name=self.name,
        )
        return [
            TokenizeDocuments(settings, self._standing(), name=f"{self.name}_tokens"),
            TokenBarrier(settings, name=f"{self.name}_shards"),
            writer,
        ]

    def _standing(self) -> StandingLists:
        """The lists of documents that were removed from the folder."""
        return StandingLists([Directory(str(self.path), self.storage_options or {})], self.id_field)

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
            fast=self.fast,
            special_in_text=self.special_in_text,
            ends=tuple(end for end in (self.add_bos, self.add_eos) if isinstance(end, str)),
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

    def settings(self) -> dict[str, Any]:
        return self.token_settings.deciding()

    def inputs(self) -> Spec:
        return [], []

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [TokenChunkWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        plan = plan_shards(folder, file_order(folder, splits), self.token_settings.shard_tokens)
        shards = plan.finished()
        documents, tokens = sum(shard.documents for shard in shards), sum(shard.tokens for shard in shards)
        self._notices = [f"{documents:,} documents are {tokens:,} tokens, in shards: {len(shards):,}"]
        if plan.special_tokens:
            outcome = "became tokens" if self.token_settings.tokenizer.special_in_text == "token" else "stayed text"
            self._notices.append(
                f"special tokens are spelled in {plan.special_documents:,} documents: {plan.special_tokens:,} {outcome}"
            )
        return [TokenShards(shards, name=self.name)]

    def notices(self) -> list[str]:
        return self._notices
