"""`Mixture`: several datasets as one, in numbers of tokens."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FileGroup, Rejection
from dcurate.core.stage import CompositeStage, NodeInfo, ProcessingStage, RowNeeds, Spec, Stage, WorkerMetadata
from dcurate.datasets.blend import Readers
from dcurate.datasets.shuffle import KeyedBarrier, check_seed
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import column_of, numbers, rows_at, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.rows import Keys
from dcurate.fs.stores import Directory
from dcurate.hub.shared import SHARED
from dcurate.rows import with_epochs
from dcurate.shuffle.chunks import read_indexes
from dcurate.shuffle.keyed import DATASET, HIGH, LOW, KeyedFile, KeyedWriter, StreamReader, keys_in
from dcurate.tokens.draws import Drawn, drawn, draws_of
from dcurate.tokens.shares import Ask, asked, taken, tokens_of
from dcurate.tokens.sources import source_of
from dcurate.tokens.special import SpecialInText
from dcurate.tokens.tokenize import NO_TOKENS, without_refused
from dcurate.tokens.tokenizer import TextEncoder, TokenizerSource

#: The column of the tokens of each document, until it is drawn.
TOKENS = "_dcurate_tokens"
#: Documents of each source that are tokenised for a plan.
_TRIED = 200
_DRAWS, _COUNTS = "draws", "tokens"


@dataclass
class Mixture(CompositeStage[FileGroup, DocumentBatch]):
    """Start a pipeline with documents of several sources, in numbers of tokens, shuffled.

    All documents are read and counted first; then each source gives its number of tokens to within half a document.
    Documents are drawn by the seed without replacement. A source that is to give more than it has comes several times:
    every document as often as the others, or once more; ``epoch`` in the spans of `TokenWriter` says which time it is.
    Sources are interleaved evenly. The documents and their order depend on the seed and the rows alone.

    The report says for each source how many tokens were requested and drawn, in how many epochs, and how many are left.

    Args:
        sources: a `Source` for each name, or its arguments.
        budget: number of tokens of all together, such as ``"1.5B"``.
        tokenizer: tokenizer that counts the tokens, as in `TokenWriter`; not needed with ``tokens_field``.
        tokens_field: a column with the tokens of each document; they are counted if None.
        special_tokens: tokens that the writer adds to each document, which count, too: 1 for the EOS. Not with
            ``tokens_field``.
        text_field: the column of texts.
        seed: other seeds draw other documents, in another order.
        id_field: the column that identifies documents of one source, see `Shuffle`; all columns if None.
        npartitions: number of batches; by default one for each ``blocksize``.
        blocksize: target bytes of a batch in memory.
        tokenizer_kwargs: see `TokenWriter`.
        fast: see `TokenWriter`.
        special_in_text: the same as of the `TokenWriter` that follows: it decides which documents come, and how many
            tokens they have.
        name: name of the stage.

    Raises:
        PipelineError: settings that cannot be, or shares that are not the budget.
        DataError: a source without documents.

    Examples:
        >>> from dcurate.tokens import Source
        >>> mixture = Mixture(
        ...     {"web": Source("web", weight=1), "books": {"input": "books", "share": 0.2}}, "1B", "tokenizer.json"
        ... )
        >>> [stage.name for stage in mixture.decompose()]
        ['mixture_readers', 'mixture_counts', 'mixture']
    """

    sources: dict[str, Any]
    budget: int | str
    tokenizer: str | None = None
    tokens_field: str | None = None
    special_tokens: int = 1
    text_field: str = "text"
    seed: int = 0
    id_field: str | None = None
    npartitions: int | None = None
    blocksize: int | str = "128MiB"
    tokenizer_kwargs: dict[str, Any] | None = None
    fast: bool = False
    special_in_text: SpecialInText = "text"
    name: str = "mixture"

    def __post_init__(self) -> None:
        check_seed(self.name, self.seed)
        if (self.tokenizer is None) == (self.tokens_field is None):
            raise PipelineError(f"{self.name}: give a tokenizer=, by which tokens are counted, or a tokens_field=")
        if self.tokenizer is None and self.special_in_text != "text":
            raise PipelineError(
                f"{self.name}: with tokens_field= texts are not looked at; give "
                f"special_in_text={self.special_in_text!r} to the TokenWriter"
            )
        if not self.sources:
            raise PipelineError(f"{self.name}: no sources are given; name at least one")
        self.decompose()

    def decompose(self) -> list[Stage]:
        sources = {str(name): source_of(self.name, str(name), source) for name, source in self.sources.items()}
        asks = {name: source.ask for name, source in sources.items()}
        budget = tokens_of(self.budget, f"{self.name}: budget")
        asked(asks, budget)
        tokenizer = None
        if self.tokenizer is not None:
            settings = self.tokenizer_kwargs or {}
            tokenizer = TokenizerSource(
                str(self.tokenizer), settings, asks=self.name, fast=self.fast, special_in_text=self.special_in_text
            )
        counts = CountMixtureTokens(
            tokenizer, self.tokens_field, self.special_tokens, self.text_field, name=f"{self.name}_counts"
        )
        readers = MixtureReaders([source.reader for source in sources.values()], name=f"{self.name}_readers")
        readers.counts, readers.asks, readers.budget = counts, asks, budget
        drawn = DrawTokens(
            asks=asks,
            budget=budget,
            log_weights=tuple(source.log_weights_field for source in sources.values()),
            seed=self.seed,
            id_field=self.id_field,
            npartitions=self.npartitions,
            blocksize=self.blocksize,
            name=self.name,
        )
        return [readers, counts, drawn]


@dataclass
class MixtureReaders(Readers):
    """The readers of the sources, as one."""

    name: str = "mixture_readers"
    counts: Any = field(default=None, init=False, repr=False, compare=False)
    asks: Mapping[str, Ask] = field(default_factory=dict, init=False, repr=False, compare=False)
    budget: int = field(default=0, init=False, repr=False, compare=False)

    def settings(self) -> dict[str, Any]:
        return {"readers": self.readers}

    def forecast(self) -> list[str]:
        """Return what is to come of each source, from a few documents of each and the sizes of the files.

        Raises:
            DataError: a source cannot be read.
        """
        self.counts.setup()
        try:
            sizes = dict(zip(self.asks, map(self._estimate, range(len(self.readers))), strict=True))
        finally:
            self.counts.teardown()
        gets, wanted = taken(self.asks, self.budget, sizes), asked(self.asks, self.budget)
        sentences = [_sentence(name, wanted[name], gets[name], sizes[name], "about ") for name in self.asks]
        return [f"{self.name.removesuffix('_readers')}: {self.budget:,} tokens", *sentences]

    def _estimate(self, number: int) -> int:
        """About how many tokens a source has."""
        reader = self.readers[number]
        tokens = rows = looked = total = 0
        for split in reader.splits():
            size = sum(part.nbytes for part in split.parts)
            total += size
            if rows >= _TRIED:
                continue
            looked += size
            batch = reader.process(split)
            if isinstance(batch, DocumentBatch) and batch.num_items:
                tried = batch.rows(0, min(batch.num_items, _TRIED))
                assert tried is not None
                counted = self.counts.process(tried)
                tokens += int(numbers(counted.to_arrow(), TOKENS).sum()) * batch.num_items // tried.num_items
                rows += batch.num_items
        return tokens * total // max(looked, 1)


def _sentence(name: str, wanted: int, gets: int, available: int, about: str = "") -> str:
    epochs = gets / available if available else 0
    unused = max(available - gets, 0)
    return (
        f"{name}: {wanted:,} tokens requested, {about}{gets:,} drawn, in {epochs:.2f} epochs of {about}{available:,}; "
        f"{about}{unused:,} are left"
    )


@dataclass
class CountMixtureTokens(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds the number of tokens of each document; drops the same documents as `TokenWriter`."""

    tokenizer: TokenizerSource | None
    tokens_field: str | None = None
    special_tokens: int = 1
    text_field: str = "text"
    name: str = "mixture_counts"

    _loaded: TextEncoder | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_loaded": None}

    def settings(self) -> dict[str, Any]:
        digest = None if self.tokenizer is None else self.tokenizer.digest()
        arguments = {name: getattr(self, name) for name in ("tokens_field", "special_tokens", "text_field")}
        special = None if self.tokenizer is None else self.tokenizer.special_in_text
        return {**arguments, "tokenizer": digest, "special_in_text": special}

    @property
    def _key(self) -> Hashable:
        assert self.tokenizer is not None
        return type(self), self.tokenizer.key

    def inputs(self) -> Spec:
        return [], [self.tokens_field or self.text_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the tokenizer to this host, if it is not here."""
        if self.tokenizer is not None:
            self.tokenizer.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the tokenizer, unless another slot of this process has."""
        if self.tokenizer is not None:
            self._loaded = SHARED.hold(self._key, self.tokenizer.load)

    def teardown(self) -> None:
        """Release the tokenizer."""
        if self._loaded is not None:
            self._loaded = None
            SHARED.release(self._key)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents with their tokens in a column.

        Raises:
            DataError: a number of tokens is missing or negative.
        """
        refused: tuple[Rejection, ...] = ()
        if self.tokenizer is not None:
            assert self._loaded is not None
            task, _ = without_refused(task, self.name, self.text_field, self._loaded, self.tokenizer)
            refused = task.rejections
        table = task.to_arrow()
        if self.tokens_field is not None:
            token_counts = numbers(table, self.tokens_field)
            if not (np.isfinite(token_counts) & (token_counts >= 0)).all():
                raise DataError(f"{self.name}: column {self.tokens_field!r} has a null or a negative number of tokens")
            counts = token_counts.astype(np.int64)
        else:
            assert self._loaded is not None
            texts = column_of(table, self.text_field, text=True).fill_null("").to_pylist()
            counts = np.array([len(ids) for ids in self._loaded.encode(texts)], np.int64)
            counts += np.where(counts > 0, self.special_tokens, 0)
        kept = task.with_data(with_column(table, TOKENS, counts)).keep(counts > 0, self.name, NO_TOKENS)
        kept.rejections = (*refused, *kept.rejections)
        return kept


@dataclass
class DrawWriter(KeyedWriter):
    """Writes documents in the order of their keys, with draws and tokens in the index.

    Args:
        log_weights: the column of each source.
    """

    log_weights: tuple[str | None, ...] = ()
    name: str = "draw_writer"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [*super().inputs()[1], *(name for name in self.log_weights if name is not None)]

    def notes(self, table: Any, keys: Keys, dataset: int) -> dict[str, npt.NDArray[Any]]:
        counts = numbers(table, TOKENS).astype(np.int64)
        return {_DRAWS: _draws(table, keys, self.log_weights[dataset]), _COUNTS: counts}


def _draws(table: Any, keys: Keys, column: str | None) -> npt.NDArray[np.float64]:
    if column is None:
        return draws_of(keys)
    weights = numbers(table, column).astype(np.float64)
    if not np.isfinite(weights).all():
        raise DataError(f"column {column!r} of logarithms of weights has a null or a number that is not finite")
    return draws_of(keys, weights)


@dataclass
class DrawReader(StreamReader):
    """Reads documents as often as they were drawn.

    Args:
        drawn: what comes of each source.
        log_weights: the column of each source.
        marks_rows: whether rows get a column that says which time it is.
    """

    drawn: tuple[Drawn, ...] = ()
    log_weights: tuple[str | None, ...] = ()
    marks_rows: bool = False
    name: str = "draw_reader"

    def _interleaved(self, table: Any, part: int) -> Any:
        keys, datasets = keys_in(table), numbers(table, DATASET)
        rows, positions, epochs = [], [], []
        for dataset, own_drawn in enumerate(self.drawn):
            dataset_rows = np.flatnonzero(datasets == dataset)
            draws = _draws(rows_at(table, dataset_rows), keys[dataset_rows], self.log_weights[dataset])
            placed = own_drawn.placed(keys[dataset_rows], draws, part, self.batches)
            rows.append(dataset_rows[placed.rows])
            positions.append(placed.positions)
            epochs.append(placed.copies)
        every = np.concatenate(rows)
        order = np.lexsort((keys[every, 1], keys[every, 0], np.concatenate(positions)))
        made = rows_at(table.drop_columns([HIGH, LOW, DATASET, TOKENS]), every[order])
        return with_epochs(made, np.concatenate(epochs)[order]) if self.marks_rows else made


@dataclass
class DrawTokens(KeyedBarrier):
    """Draws documents of marked sources, in the numbers of tokens that are asked."""

    asks: dict[str, Ask]
    budget: int
    log_weights: tuple[str | None, ...] = ()
    name: str = field(default="mixture", kw_only=True)
    _marks_rows: bool = field(default=False, init=False, repr=False, compare=False)
    _notices: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    uses_columns_again: ClassVar[bool] = False

    def adapted(self, needs: RowNeeds) -> Self:
        """Return the stage that adds a column which says how often a document came before, if that is needed."""
        stage = copy.copy(self)
        stage._marks_rows = needs.origins
        return stage

    def inputs(self) -> Spec:
        return [], [*super().inputs()[1], *dict.fromkeys(name for name in self.log_weights if name is not None)]

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if not name.startswith("_")}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            DrawWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                id_field=self.id_field,
                seed=self.seed,
                log_weights=self.log_weights,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        [reader] = super().reduce_stages(url, options, splits)
        assert isinstance(reader, StreamReader)
        made = {name: value for name, value in vars(reader).items() if name in StreamReader.__dataclass_fields__}
        drawn: Any = made["streams"]
        return [DrawReader(**made, drawn=drawn, log_weights=self.log_weights, marks_rows=self._marks_rows)]

    def streams(self, folder: Directory, files: Sequence[KeyedFile]) -> tuple[Any, ...]:
        """Return what comes of each source."""
        file_names = [[file.name for file in files if file.dataset == number] for number in range(len(self.asks))]
        available = {name: self._tokens(folder, names) for name, names in zip(self.asks, file_names, strict=True)}
        wanted = asked(self.asks, self.budget)
        for name, count in available.items():
            if wanted[name] and not count:
                raise DataError(f"{self.name}: source {name!r} has no tokens, and is asked for {wanted[name]:,}")
        gets = taken(self.asks, self.budget, available)
        streams = tuple(
            drawn(partial(_notes_of, folder, names), gets[name])
            for name, names in zip(self.asks, file_names, strict=True)
        )
        self._notices = [
            _sentence(name, wanted[name], stream.tokens, available[name])
            for name, stream in zip(self.asks, streams, strict=True)
        ]
        return streams

    def notices(self) -> list[str]:
        return self._notices

    @staticmethod
    def _tokens(folder: Directory, names: Sequence[str]) -> int:
        return sum(int(counts.sum()) for _, counts in _notes_of(folder, names))


def _notes_of(folder: Directory, names: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    for index in read_indexes(folder, names):
        yield index.notes[_DRAWS], index.notes[_COUNTS]
