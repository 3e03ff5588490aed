"""`TrainNgrams`: trains an n-gram model on texts, with memory that does not grow with them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from dcurate.core.stage import BarrierStage, Spec, Stage
from dcurate.errors import DataError, PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.learn.ngram_rounds import (
    COUNTS,
    NGRAMS,
    WORDS,
    AdjustCounts,
    CountWriter,
    InterpolateNgrams,
    NgramWriter,
    NormalizeContexts,
    SectionWriter,
    SelectSentences,
    WriteNgrams,
    sums_of_notes,
)
from dcurate.learn.ngram_rows import HASH, KEY, Discounts, VocabularyFile
from dcurate.learn.training import check_whole
from dcurate.shuffle.keys import equal_edges
from dcurate.shuffle.ranges import ShuffleIndex, ShufflePartitions, file_names
from dcurate.shuffle.writer import ShuffleWriter

#: Endings of the files that are written: text, and KenLM's binary format with probing tables.
ENDINGS = ".arpa", ".binary"
#: Target bytes of the n-grams in one task.
_BLOCK = 2**24
Splits = Sequence[tuple[str, Sequence[str]]]


@dataclass
class TrainNgrams(BarrierStage[DocumentBatch]):
    """Train an n-gram model with interpolated modified Kneser-Ney smoothing, as KenLM's ``lmplz`` does.

    N-grams are counted by batch, sorted into ranges on disk, and merged there (Heafield et al., 2013): a task holds
    one range. Words and the probabilities of 1-grams must fit into the memory of a worker. The model depends on the
    texts and the settings alone: it is the same to the bit for any number of workers, files, batches and kills.

    `dcurate.text.PerplexityFilter` scores texts with the model, and so does KenLM. Words are what ASCII whitespace
    separates, after the tokenizer; ``<s>``, ``</s>`` and ``<unk>`` in a text are skipped. Texts without words are
    dropped and counted. Afterwards there is one row for each length of n-grams: how many are in the model, how many
    were pruned, and the discounts.

    Args:
        path: the file to write, local or a URL: ``.arpa``, or ``.binary`` for KenLM's format with probing tables, which
            loads at once and is made in memory.
        order: number of words of the longest n-grams, from 2 to 6.
        text_field: the column of texts.
        min_counts: the minimum number of occurrences of n-grams of 1 word, 2 words and so on; the last one is that of
            all longer ones. The first must be 1, and they must not descend. ``(1, 1, 2)`` is ``--prune 0 0 1``.
        by_line: whether each line that is not blank is a sentence, as in CCNet; else a text is one sentence.
        tokenizer: a SentencePiece model whose pieces are the words of the model, as in CCNet.
        mode: ``"error"`` refuses a file that is there, ``"overwrite"`` replaces it.
        storage_options: for fsspec.
        name: name of the stage.

    Raises:
        PipelineError: settings that cannot be.
        DataError: no document, or none with words; or the file is there.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> import pandas as pd
        >>> from dcurate import InlineExecutor, Pipeline
        >>> rows = pd.DataFrame({"text": ["the fox jumps over the dog", "the dog sleeps", "the fox sleeps"]})
        >>> with TemporaryDirectory() as folder:
        ...     train = Pipeline("train", stages=[TrainNgrams(f"{folder}/en.arpa", order=3)])
        ...     train.run(InlineExecutor(), initial_tasks=rows).to_pandas().ngrams.tolist()
        [9, 10, 11]
    """

    path: str | os.PathLike[str]
    order: int = 5
    text_field: str = "text"
    min_counts: Sequence[int] = (1,)
    by_line: bool = False
    tokenizer: str | os.PathLike[str] | None = None
    mode: Literal["error", "overwrite"] = "error"
    storage_options: dict[str, Any] | None = None
    name: str = "train_ngrams"

    uses_columns_again: ClassVar[bool] = False
    rounds: ClassVar[int] = 4

    def __post_init__(self) -> None:
        check_whole("order", self.order, 2, 6)
        if not os.fspath(self.path).endswith(ENDINGS):
            raise PipelineError(f"{self.name}: path={os.fspath(self.path)!r} must end in .arpa or .binary")
        counts = self.min_counts
        if not isinstance(counts, list | tuple) or not 1 <= len(counts) <= self.order:
            raise PipelineError(f"{self.name}: min_counts={counts!r} must be a list of 1 to {self.order} numbers")
        for least in counts:
            check_whole("min_counts", least, 1, 2**62)
        if counts[0] != 1 or list(counts) != sorted(counts):
            raise PipelineError(f"{self.name}: min_counts={list(counts)!r} must begin with 1, and not descend")
        if self.mode not in ("error", "overwrite"):
            raise PipelineError(f"{self.name}: mode={self.mode!r} is not one of ('error', 'overwrite')")

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "storage_options"}

    def inputs(self) -> Spec:
        return [], [self.text_field]

    @property
    def address(self) -> str:
        """The full address of the file to write."""
        return Directory(os.fspath(self.path), self.storage_options or {}).address

    def least_counts(self) -> tuple[int, ...]:
        """Return the minimum number of occurrences of n-grams of each length."""
        counts = tuple(self.min_counts)
        return counts + counts[-1:] * (self.order - len(counts))

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        if self.mode == "error" and Directory(self.address, self.storage_options or {}).is_file():
            raise DataError(f"{self.name}: {self.address!r} is there; use mode='overwrite', or another path")
        writer = NgramWriter(
            url,
            mode="overwrite",
            storage_options=dict(options),
            text_field=self.text_field,
            order=self.order,
            by_line=self.by_line,
            tokenizer=os.fspath(self.tokenizer) if self.tokenizer else None,
            name=f"{self.name}_to_disk",
        )
        # The report counts what it drops under the name of this stage.
        return [SelectSentences(text_field=self.text_field, name=self.name), writer]

    def reduce_stages(self, url: str, options: Mapping[str, Any], splits: Splits) -> list[Stage]:
        folder = Directory(url, options)
        ngrams, words = (ShuffleIndex.written(folder, splits, place) for place in (NGRAMS, WORDS))
        if not ngrams.rows:
            raise DataError(
                f"{self.name}: no words to train on: the input has no documents, or none of them has a word in column "
                f"{self.text_field!r}"
            )
        return [
            ngrams.reader(ngrams.partitions_for(_BLOCK), KEY, f"{self.name}_ngrams", ordered=False),
            AdjustCounts(self.least_counts(), name=f"{self.name}_adjust"),
            NgramContexts(self, _by_hash(words, f"{self.name}_words"), name=f"{self.name}_contexts"),
        ]


def _by_hash(words: ShuffleIndex, name: str) -> ShufflePartitions:
    """Rows of words by ranges of their hashes."""
    return words.partitions(equal_edges(words.partitions_for(_BLOCK)), HASH, name)


@dataclass
class NgramContexts(BarrierStage[DocumentBatch]):
    """The second round: n-grams of all lengths meet those of the same context.

    Args:
        training: the settings.
        words: the words of all texts.
    """

    rounds: ClassVar[int] = 3

    training: TrainNgrams
    words: ShufflePartitions
    name: str = "ngram_contexts"

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        order = self.training.order
        name = f"{self.name}_to_disk"
        return [CountWriter(url, mode="overwrite", storage_options=dict(options), by=KEY, order=order, name=name)]

    def reduce_stages(self, url: str, options: Mapping[str, Any], splits: Splits) -> list[Stage]:
        folder = Directory(url, options)
        index, words = (ShuffleIndex.written(folder, splits, place) for place in (NGRAMS, WORDS))
        of_words = _by_hash(words, f"{self.name}_words")
        counts = sums_of_notes([file.notes[COUNTS] for file in index.indexes])
        discounts = tuple(map(Discounts.of, counts[:, :4].tolist()))
        amounts = tuple(discount.amounts for discount in discounts)
        return [
            index.reader(index.partitions_for(_BLOCK), KEY, f"{self.name}_counts", ordered=False),
            NormalizeContexts(url, dict(options), amounts, self.words, of_words, name=f"{self.name}_normalize"),
            NgramSuffixes(
                self.training, url, discounts, tuple(counts[:, 4].tolist()), name=f"{self.training.name}_suffixes"
            ),
        ]


@dataclass
class NgramSuffixes(BarrierStage[DocumentBatch]):
    """The third round: n-grams of all lengths meet those that end with the same words.

    Args:
        training: the settings.
        vocabulary_url: the folder of the vocabulary.
        discounts: the discounts of each length from 0.
        counts: number of n-grams of each length from 0, with those that are not kept.
    """

    rounds: ClassVar[int] = 2

    training: TrainNgrams
    vocabulary_url: str
    discounts: tuple[Discounts, ...]
    counts: tuple[int, ...] = field(repr=False)
    name: str = "ngram_suffixes"

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        name = f"{self.name}_to_disk"
        return [ShuffleWriter(url, mode="overwrite", storage_options=dict(options), by=KEY, name=name)]

    def reduce_stages(self, url: str, options: Mapping[str, Any], splits: Splits) -> list[Stage]:
        index = ShuffleIndex.written(Directory(url, options), splits)
        vocabulary = VocabularyFile.written(Directory(self.vocabulary_url, options))
        return [
            index.reader(index.partitions_for(_BLOCK), KEY, f"{self.name}_parts", ordered=False),
            InterpolateNgrams(vocabulary, name=f"{self.name}_interpolate"),
            NgramSections(self, vocabulary, name=f"{self.training.name}_sections"),
        ]


@dataclass
class NgramSections(BarrierStage[DocumentBatch]):
    """The last round: the lines of all ranges become one file.

    Args:
        suffixes: the round before.
        vocabulary: the file of the words.
    """

    suffixes: NgramSuffixes
    vocabulary: VocabularyFile
    name: str = "ngram_sections"

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = SectionWriter(
            url,
            mode="overwrite",
            storage_options=dict(options),
            vocabulary=self.vocabulary,
            name=f"{self.name}_to_disk",
        )
        return [writer]

    def reduce_stages(self, url: str, options: Mapping[str, Any], splits: Splits) -> list[Stage]:
        training, discounts = self.suffixes.training, self.suffixes.discounts
        return [
            WriteNgrams(
                training.address,
                training.storage_options or {},
                url,
                dict(options),
                tuple(file_names(Directory(url, options), splits)),
                self.vocabulary,
                self.suffixes.counts,
                tuple(discount.amounts for discount in discounts),
                tuple(discount.fallback for discount in discounts),
                name=f"{training.name}_write",
            )
        ]
