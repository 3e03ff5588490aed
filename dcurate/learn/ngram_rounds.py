"""The steps of `TrainNgrams` between its barriers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import NodeInfo, ProcessingStage, SourceStage, Spec, WorkerMetadata
from dcurate.frames.columns import numbers, rows_at, table_of, values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, column_of, from_text, text_column
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.hub.tokenizer_files import load_sentencepiece
from dcurate.kernels.ngram_counts import (
    END,
    UNKNOWN,
    has_words,
    keys_of_rows,
    list_ngrams,
    list_tokens,
    number_rows,
    take_spans,
)
from dcurate.kernels.ngram_lines import arpa_lines
from dcurate.learn.ngram_rows import (
    BACKOFF,
    CHANCE,
    COUNT,
    HASH,
    KEPT,
    KEY,
    PART,
    WORD,
    NgramWords,
    VocabularyFile,
    adjusted,
    interpolated,
    lengths_of,
    ngram_table,
    ngrams_of,
    normalized,
    suffix_keys,
    vocabulary_of,
)
from dcurate.shuffle.chunks import read_chunks, read_index
from dcurate.shuffle.ranges import ShufflePartitions
from dcurate.shuffle.writer import ChunkWriter, ShuffleWriter
from dcurate.text.filter_run import FilterRun, Verdict
from dcurate.text.ngram_models import NgramModel, split_pieces
from dcurate.text.signals import Needs

#: Folders of n-grams, and of words with their texts or counts, below those of the first two rounds.
NGRAMS, WORDS = "ngrams/", "words/"
#: Note of a file: for each length the number of n-grams that occur 1, 2, 3 and 4 times, of all, and of those kept.
COUNTS = "counts"
_LINES = "lines"
_PIECE = 2**24
#: Bytes of texts whose n-grams are counted at a time.
_TEXTS = 2**22
_UPPER_BITS = np.uint64(48)


@dataclass(kw_only=True)
class SelectSentences(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep rows whose texts have words."""

    text_field: str = "text"
    name: str = "select_sentences"

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        run = FilterRun(task, Needs())
        kept = has_words(*text_column(task.to_arrow(), self.text_field))
        run.drop(Verdict(kept, kept, self.text_field), self.name, "no_words")
        return run.result()


@dataclass
class NgramWriter(ChunkWriter):
    """Writes the different longest n-grams of the texts of a batch with their counts, and the different words."""

    text_field: str = "text"
    order: int = 5
    by_line: bool = False
    tokenizer: str | None = None
    name: str = "ngram_writer"
    _pieces: Any = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pieces": None}

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def requires(self) -> dict[str, str]:
        return {**super().requires(), **({"sentencepiece": "tokens"} if self.tokenizer else {})}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._tables(column_of([b"one line"]))

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if self.tokenizer and self._pieces is None:
            self._pieces = load_sentencepiece(self.tokenizer, self.name)

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        column = text_column(table, self.text_field)
        if self.tokenizer:
            self.setup()
            texts = (column.data[begin:end].tobytes() for begin, end in pairwise(column.offsets.tolist()))
            column = split_pieces(self._pieces, texts)
        offsets = column.offsets
        edges = np.searchsorted(offsets, np.arange(offsets[0], offsets[-1], _TEXTS))
        for piece, (first, last) in enumerate(pairwise([*np.unique(edges).tolist(), len(column)])):
            ngrams, words = self._tables(TextColumn(offsets[first : last + 1], column.data))
            yield self.ranges(ngrams, key, KEY, f"{NGRAMS}{piece}-")
            yield self.ranges(words, key, HASH, f"{WORDS}{piece}-")

    def _tables(self, column: TextColumn) -> tuple[Any, Any]:
        """The n-grams and the words of texts."""
        tokens = list_tokens(*column, self.by_line)
        ngrams = list_ngrams(tokens.hashes, self.order)
        groups, firsts = number_rows(ngrams, 0, self.order)
        ngrams, counts = ngrams[firsts], np.bincount(groups, minlength=len(firsts))
        _, firsts = number_rows(tokens.hashes.reshape(-1, 1), 0, 1)
        firsts = firsts[tokens.begins[firsts] < tokens.ends[firsts]]
        texts = from_text(*take_spans(column.data, tokens.begins[firsts], tokens.ends[firsts]))
        words = table_of({HASH: tokens.hashes[firsts], WORD: texts})
        return ngram_table(ngrams, suffix_keys(ngrams), **{COUNT: counts}), words


@dataclass
class AdjustCounts(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Gives the n-grams of all lengths with their adjusted counts, with keys of their contexts.

    Args:
        min_counts: minimum count of kept n-grams of each length.
    """

    min_counts: tuple[int, ...] = ()
    name: str = "adjust_counts"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        levels = adjusted(ngrams_of(table), numbers(table, COUNT))
        words, befores = (np.concatenate([level[at] for level in levels]) for at in (0, 1))
        kept = [times >= least for (_, _, times), least in zip(levels[:-1], reversed(self.min_counts), strict=False)]
        kept.append(np.ones(len(levels[-1][0]), np.bool_))
        columns = {COUNT: befores, KEPT: np.concatenate(kept)}
        return task.with_data(ngram_table(words, keys_of_rows(words[:, :-1]), **columns))


@dataclass
class CountWriter(ShuffleWriter):
    """Writes n-grams by their contexts, with the counts of their counts, and the counts of words.

    The words that end sentences stay among the n-grams, so that their batch makes the vocabulary.
    """

    order: int = 5
    name: str = "count_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        words, counts, kept = ngrams_of(table), numbers(table, COUNT), numbers(table, KEPT)
        lengths = lengths_of(words)
        notes = np.zeros((self.order + 1, 6), np.int64)
        for times in (1, 2, 3, 4):
            notes[:, times - 1] = np.bincount(lengths[counts == times], minlength=self.order + 1)
        notes[:, 4] = np.bincount(lengths, minlength=self.order + 1)
        notes[:, 5] = np.bincount(lengths[kept], minlength=self.order + 1)
        single = lengths == 1
        stays = np.flatnonzero(~single | (words[:, -1] == END))
        yield self.ranges(rows_at(table, stays), key, self.by, NGRAMS, counts=notes)
        yield self.ranges(table_of({HASH: words[single, -1], COUNT: counts[single]}), key, HASH, WORDS)


@dataclass
class NormalizeContexts(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Gives the discounted parts of probabilities, and the backoffs of contexts, with keys of the last two words.

    The batch with the end of sentences writes the vocabulary.

    Args:
        url: the folder of the round, for the vocabulary.
        options: fsspec's ``storage_options`` for it.
        amounts: for each length from 0 the discounts of counts 0 to 3.
        words: the words of all texts.
        counts: the counts of words.
    """

    url: str
    options: dict[str, Any]
    amounts: tuple[tuple[float, float, float, float], ...]
    words: ShufflePartitions
    counts: ShufflePartitions
    name: str = "normalize_contexts"

    def settings(self) -> dict[str, Any]:
        return {"amounts": self.amounts}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        words, counts, kept = ngrams_of(table), numbers(table, COUNT), numbers(table, KEPT)
        single = lengths_of(words) == 1
        done = normalized(words[~single], counts[~single], kept[~single], np.array(self.amounts))
        contexts, backoffs = done.contexts, done.context_backoffs
        if single.any():
            self._write_vocabulary()
            without = np.zeros((2, words.shape[1]), np.uint64)  # what no word is after
            without[:, -1] = END, UNKNOWN
            contexts, backoffs = np.concatenate([contexts, without]), np.concatenate([backoffs, np.ones(2)])
        ngrams = np.concatenate([done.words, contexts])
        parts = np.concatenate([done.parts, np.full(len(contexts), np.nan)])
        columns = {PART: parts, BACKOFF: np.concatenate([done.backoffs, backoffs])}
        return task.with_data(ngram_table(ngrams, suffix_keys(ngrams), **columns))

    def _write_vocabulary(self) -> None:
        words = [self._words(number) for number, size in enumerate(self.words.partition_bytes) if size]
        tables = (self.counts.read(number, ordered=False) for number in range(len(self.counts.partition_bytes)))
        counts = ((numbers(table, HASH), numbers(table, COUNT)) for table in tables if table.num_rows)
        VocabularyFile(Directory(self.url, self.options)).save(vocabulary_of(words, counts))

    def _words(self, partition: int) -> NgramWords:
        """The different words of a partition."""
        table = self.words.read(partition, ordered=False)
        return NgramWords.of(numbers(table, HASH), *text_column(table, WORD))


@dataclass
class InterpolateNgrams(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Gives the probabilities of n-grams, and the backoffs after them.

    Args:
        vocabulary: the file of the words.
    """

    vocabulary: VocabularyFile
    name: str = "interpolate_ngrams"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        vocabulary = self.vocabulary.load()
        words, chances, after = interpolated(
            ngrams_of(table), numbers(table, PART), numbers(table, BACKOFF), vocabulary
        )
        return task.with_data(ngram_table(words, suffix_keys(words), **{CHANCE: chances, BACKOFF: after}))


@dataclass
class SectionWriter(ChunkWriter):
    """Writes the lines of an ARPA file of a range of n-grams, a chunk for each length.

    Args:
        vocabulary: the file of the words.
    """

    vocabulary: VocabularyFile = field(kw_only=True)
    name: str = "section_writer"

    def settings(self) -> dict[str, Any]:
        return {}

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        vocabulary = self.vocabulary.load()
        words, keys = ngrams_of(table), numbers(table, KEY)
        order, chances, after = words.shape[1], numbers(table, CHANCE), numbers(table, BACKOFF)
        # The upper bits of the key, by whose ranges the files are made, and then a key of all words.
        places, checks = (keys >> _UPPER_BITS).astype(np.uint16), keys_of_rows(words)
        lengths = lengths_of(words)
        tables = []
        for length in range(1, order + 1):
            rows = np.flatnonzero(lengths == length)
            rows = rows[np.lexsort((checks[rows], places[rows]))]
            names = vocabulary.places(words[rows, order - length :])
            ends = None if length == order else after[rows]
            lines = arpa_lines(chances[rows], names, (vocabulary.offsets, vocabulary.data), ends)
            tables.append(table_of({_LINES: [lines[at : at + _PIECE] for at in range(0, len(lines), _PIECE)]}))
        counts = np.bincount(lengths, minlength=order + 1)
        yield self.chunks(tables, key, folder, counts=counts)


@dataclass
class WriteNgrams(SourceStage[FileGroup, DocumentBatch]):
    """Writes the model of the lines of all files in one task; gives a row for each length.

    Args:
        target: address of the file to write.
        target_options: fsspec's ``storage_options`` for it.
        url: the folder of the files.
        options: fsspec's ``storage_options`` for it.
        files: their names.
        vocabulary: the file of the words.
        counts: number of n-grams of each length from 0, with those that are not kept.
        amounts: for each length from 0 the discounts of counts 0 to 3.
        fallback: whether counts of counts did not allow to estimate them.
    """

    lists_ahead: ClassVar[bool] = True
    target: str
    target_options: dict[str, Any]
    url: str
    options: dict[str, Any]
    files: tuple[str, ...] = field(repr=False)
    vocabulary: VocabularyFile
    counts: tuple[int, ...]
    amounts: tuple[tuple[float, float, float, float], ...]
    fallback: tuple[bool, ...]
    name: str = "write_ngrams"

    def settings(self) -> dict[str, Any]:
        return {}

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        entries = folder.files()
        sizes = [(name, entries[name].size, entries[name].version) for name in self.files]
        parts = tuple(FilePart(folder.path(name), 0, size, size, version, size) for name, size, version in sizes)
        yield FileGroup(key=BatchKey(f"{self.name}-00000"), parts=parts)

    def process(self, task: FileGroup) -> DocumentBatch:
        folder, name = self.target.rsplit("/", 1)
        written = self._counts()
        with Directory(folder or "/", self.target_options).writing(name, scratch="") as file:
            if name.endswith(".arpa"):
                self._write(file, written)
            else:
                with scratch_folder() as scratch:
                    paths = [os.path.join(scratch, ending) for ending in ("arpa", "binary")]
                    with open(paths[0], "wb") as arpa:
                        self._write(arpa, written)
                    NgramModel.load(paths[0]).save(paths[1])
                    with open(paths[1], "rb") as binary:
                        while piece := binary.read(_PIECE):
                            file.write(piece)
        return DocumentBatch(data=self._figures(written), key=task.key)

    def _counts(self) -> list[int]:
        """Number of n-grams of each length."""
        folder = Directory(self.url, self.options)
        notes = [read_index(folder, name).notes[COUNTS] for name in self.files]
        return [int(count) for count in sums_of_notes(notes)[1:]]

    def _write(self, file: Any, counts: list[int]) -> None:
        folder = Directory(self.url, self.options)
        file.write(b"\\data\\\n")
        file.writelines(b"ngram %d=%d\n" % pair for pair in enumerate(counts, 1))
        for length in range(1, len(counts) + 1):
            file.write(b"\n\\%d-grams:\n" % length)
            for name in self.files:
                bounds = read_index(folder, name).bounds
                start, stop = int(bounds[length - 1]), int(bounds[length])
                for table in read_chunks(folder.path(name), self.options, start, stop):
                    file.writelines(values(table, _LINES))
        file.write(b"\n\\end\\\n")

    def _figures(self, written: list[int]) -> Any:
        vocabulary = self.vocabulary.load()
        amounts = np.array([vocabulary.amounts, *self.amounts[2:]])
        pruned = [every - kept for every, kept in zip(self.counts[2:], written[1:], strict=True)]
        return table_of(
            {
                "order": np.arange(1, len(written) + 1),
                "ngrams": np.array(written),
                "pruned": np.array([0, *pruned]),
                **{f"discount_{times}": amounts[:, times] for times in (1, 2, 3)},
                "fallback": np.array([bool(vocabulary.fallback[0]), *self.fallback[2:]]),
            }
        )


def sums_of_notes(notes: list[Any]) -> Any:
    """Return the sum of arrays of equal shape."""
    return np.sum(notes, axis=0, dtype=np.int64)
