"""Near-duplicate removal of a large dataset on paper: what each round reads, writes, computes and holds in memory.

Sums over a few measured constants; each says where it is from. Rounds are carried out one after the other. A round
takes as long as the slowest of: its CPU-seconds over the cores that it can use, its bytes over the network, its
requests to the store at the rate that it grants, and what tasks wait for small reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import NamedTuple

GB = 1e9
#: Of files of chunks, see `dcurate.shuffle.ranges`.
MOST_CHUNKS, LEAST_CHUNK = 1024, 2**14


def measured(value: float, source: str) -> float:
    """A constant of the model and where it is from."""
    made: float = field(default=value, metadata={"source": source})
    return made


@dataclass(frozen=True)
class PaperData:
    """The dataset and the index of it."""

    documents: float = measured(1e9, "asked")
    bytes_a_document: float = measured(5000, "asked: 5 TB of text")
    packed: float = measured(0.35, "zstd JSONL")
    staged: float = measured(0.5, "lz4 Arrow")
    blocksize: float = measured(2**27, "default: 128 MiB")
    range_bytes: float = measured(2**27, "default: 128 MiB of a range of keys")
    merged_bytes: float = measured(2**29, "default: files that are too many to be read in ranges are merged to this")
    most_reads: float = measured(2**20, "default: files times ranges that are too many")
    bands: float = measured(17, "default: 17 bands of 7 rows")
    entry_bytes: float = measured(16, "key, document, content")
    shingles_a_document: float = measured(600, "asked: of 4096 at most")


@dataclass(frozen=True)
class Graph:
    """How documents resemble each other; the simulation says."""

    in_pairs: float = measured(0.27, "simulation: share of documents")
    repeated_pairs: float = measured(7.49, "simulation: pairs a document, one that shares several buckets as often")
    pairs: float = measured(2.37, "simulation: different pairs a document")
    forest_edges: float = measured(2.03, "simulation: edges a document of all forests")
    members: float = measured(0.246, "simulation: share of documents in groups")
    removed: float = measured(0.19, "simulation: share of documents")
    largest_component: float = measured(1e6, "asked: documents of the largest candidate component")


@dataclass(frozen=True)
class Machines:
    """What it runs on."""

    nodes: float = measured(32, "asked")
    cores: float = measured(32, "asked: a node")
    busy: float = measured(0.85, "assumed: share of the cores' time that is work")
    network_gb_s: float = measured(2.0, "assumed: a node to and from the store, each way")
    requests_s: float = measured(5500, "S3: reads a second of one prefix")
    read_s: float = measured(0.03, "assumed: a small read takes")
    readers: float = measured(16, "reads that a task has on the way")
    task_gb_s: float = measured(0.5, "assumed: one task from the store")


@dataclass(frozen=True)
class Rates:
    """What the steps take of a core."""

    copy_mb_s: float = measured(248, "results/datasets: read and write JSONL")
    stage_mb_s: float = measured(500, "assumed: rows to lz4 and back, each way")
    sketch_mb_s: float = measured(257, "results/minhash: signatures")
    sets_mb_s: float = measured(212, "results/minhash: sets of shingles")
    read_ms: float = measured(0.1, "measured: to open and decode a chunk of 14 KB")
    order_us: float = measured(0.19, "simulation: an entry")
    candidates_us: float = measured(0.096, "simulation: an entry")
    once_us: float = measured(0.11, "simulation: a pair with repeats, to be written and found once")
    forest_us: float = measured(0.061, "simulation: a pair with repeats")
    root_us: float = measured(0.084, "simulation: an edge, alone")
    labels_us: float = measured(0.021, "simulation: a document, alone")
    jaccard_us: float = measured(5.7, "results/minhash: a pair")
    groups_us: float = measured(0.25, "simulation: a verified pair")


@dataclass(frozen=True)
class PaperRound:
    """One round: memory is of the largest task, all else of all tasks together."""

    name: str
    tasks: float
    read: float = 0.0
    written: float = 0.0
    reads: float = 0.0
    files: float = 0.0
    cpu_s: float = 0.0
    memory: float = 0.0

    def times(self, machines: Machines) -> dict[str, float]:
        """Seconds that it takes at least, by what holds it up."""
        slots = min(self.tasks, machines.nodes * machines.cores)
        waves = math.ceil(self.tasks / slots) / (self.tasks / slots)
        rate = min(min(self.tasks, machines.nodes) * machines.network_gb_s, self.tasks * machines.task_gb_s) * GB
        return {
            "cpu": self.cpu_s / (slots * machines.busy) * waves,
            "network": max(self.read, self.written) / rate,
            "requests": self.reads / machines.requests_s,
            "latency": self.reads * machines.read_s / (slots * machines.readers),
        }


class Exchange(NamedTuple):
    """How rows come from the tasks that wrote them to those that read them."""

    rounds: list[PaperRound]
    reads: float
    nbytes: float


@dataclass(frozen=True)
class Paper:
    """The whole of it."""

    data: PaperData = PaperData()
    graph: Graph = Graph()
    machines: Machines = Machines()
    rates: Rates = Rates()

    @property
    def text(self) -> float:
        return self.data.documents * self.data.bytes_a_document

    @property
    def batches(self) -> int:
        return math.ceil(self.text / self.data.blocksize)

    @property
    def entries(self) -> float:
        return self.data.documents * self.data.bands

    @property
    def pairs(self) -> float:
        """Candidate pairs with repeats."""
        return self.graph.repeated_pairs * self.data.documents

    @property
    def sets(self) -> float:
        """Bytes of the sets of candidates, and of their pairs."""
        candidates = self.graph.in_pairs * self.data.documents
        return candidates * (4 * self.data.shingles_a_document + 32) + 24 * self.graph.pairs * self.data.documents

    def parts(self, nbytes: float) -> int:
        """Into how many ranges so many bytes are cut."""
        return int(2 ** max(0, math.ceil(math.log2(max(1, nbytes / self.data.range_bytes)))))

    def spans(self, nbytes: float, files: float, ranges: float) -> tuple[float, float]:
        """Reads, and bytes of them, for every range of every file; a chunk is never read in part."""
        chunk = max(LEAST_CHUNK, nbytes / files / MOST_CHUNKS)
        return files * ranges, max(nbytes, files * ranges * min(chunk, nbytes / files))

    def exchanged(self, what: str, nbytes: float, rows: float, files: int, ranges: int) -> Exchange:
        """Rows in files that are read in ranges: the files are merged first if that would be too many reads."""
        groups = math.ceil(nbytes / self.data.merged_bytes)
        if files * ranges <= self.data.most_reads or groups >= files:
            return Exchange([], *self.spans(nbytes, files, ranges))
        held, cpu = 4 * nbytes / groups, rows * self.rates.order_us * 1e-6
        merge = PaperRound(f"  merge {what}", groups, nbytes, nbytes, files, groups, cpu, held)
        return Exchange([merge], *self.spans(nbytes, groups, ranges))

    def rounds(self) -> list[PaperRound]:
        """All rounds, in order."""
        members = self.graph.members * self.data.documents
        entries, parts = self.entries * self.data.entry_bytes, self.parts(self.entries * self.data.entry_bytes)
        bands = self.exchanged("bands", entries, self.entries, self.batches, parts)
        pairs = self.exchanged("pairs", 24 * self.pairs, self.pairs, parts, self.batches)
        candidates = self.graph.in_pairs * self.data.documents
        sets = self.exchanged("sets", self.sets, candidates, self.batches, self.parts(self.sets))
        groups = self.exchanged("groups", 45 * members, members, self.parts(self.sets), self.batches)
        found = [self.sketch(), *bands.rounds, self.candidates(parts, bands), *pairs.rounds, self.labels(parts)]
        return [*found, self.gather(pairs), *sets.rounds, self.verify(sets), *groups.rounds, self.drop(groups)]

    def sketch(self) -> PaperRound:
        """Read, sketch, write rows and entries."""
        rate = 1 / (2 * self.rates.copy_mb_s) + 1 / self.rates.stage_mb_s + 1 / self.rates.sketch_mb_s
        cpu = self.text / 1e6 * rate + self.entries * self.rates.order_us * 1e-6
        written = self.text * self.data.staged + self.entries * self.data.entry_bytes
        held = 5 * self.data.blocksize + 4 * self.entries / self.batches * self.data.entry_bytes
        read, files = self.text * self.data.packed, 2 * self.batches
        return PaperRound("1 sketch", self.batches, read, written, self.batches, files, cpu, held)

    def candidates(self, parts: int, bands: Exchange) -> PaperRound:
        """Pairs of each range of keys, written by their left document, and a forest of them."""
        written = 24 * self.pairs + 16 * self.graph.forest_edges * self.data.documents
        cpu = self.entries * (self.rates.order_us + self.rates.candidates_us) * 1e-6
        cpu += self.pairs * (self.rates.forest_us + self.rates.once_us) * 1e-6 + bands.reads * self.rates.read_ms * 1e-3
        held = (4 * self.entries * self.data.entry_bytes + 3 * 24 * self.pairs) / parts
        return PaperRound("2 pairs", parts, bands.nbytes, written, bands.reads, 2 * parts, cpu, held)

    def labels(self, files: int) -> PaperRound:
        """One task joins all forests, in a file of four bytes a document."""
        edges = self.graph.forest_edges * self.data.documents
        cpu = (edges * self.rates.root_us + self.data.documents * self.rates.labels_us) * 1e-6
        written, made = 24 * self.graph.in_pairs * self.data.documents, math.ceil(self.data.documents / 2**22)
        return PaperRound("3 labels", 1, 16 * edges, written, files, made, cpu, 4 * self.data.documents)

    def gather(self, pairs: Exchange) -> PaperRound:
        """Sets of shingles of what is in pairs, and each pair once, by component."""
        candidates = self.graph.in_pairs * self.data.documents
        cpu = self.text / 1e6 / (2 * self.rates.stage_mb_s)
        cpu += candidates * self.data.bytes_a_document / 1e6 / self.rates.sets_mb_s
        cpu += self.pairs * self.rates.once_us * 1e-6 + pairs.reads * self.rates.read_ms * 1e-3
        held = 3 * self.data.blocksize + 2 * self.sets / self.batches
        read = pairs.nbytes + self.text * self.data.staged + 24 * candidates
        return PaperRound(
            *("4 gather", self.batches, read, self.sets, pairs.reads + 2 * self.batches, 2 * self.batches, cpu, held)
        )

    def verify(self, sets: Exchange) -> PaperRound:
        """Jaccard, groups and choice in each range of components."""
        parts, pairs = self.parts(self.sets), self.graph.pairs * self.data.documents
        cpu = pairs * (self.rates.jaccard_us + self.rates.groups_us) * 1e-6 + sets.reads * self.rates.read_ms * 1e-3
        largest = 4 * self.data.shingles_a_document * self.graph.largest_component
        held, written = 2 * self.sets / parts + largest, 45 * self.graph.members * self.data.documents
        return PaperRound("5 groups", parts, sets.nbytes, written, sets.reads, parts, cpu, held)

    def drop(self, groups: Exchange) -> PaperRound:
        """Read the rows that wait, drop duplicates, write."""
        kept = 1 - self.graph.removed
        cpu = self.text / 1e6 * (1 / (2 * self.rates.stage_mb_s) + kept / (2 * self.rates.copy_mb_s))
        cpu += groups.reads * self.rates.read_ms * 1e-3
        read, written = groups.nbytes + self.text * self.data.staged, kept * self.text * self.data.packed
        reads, held = groups.reads + self.batches, 5 * self.data.blocksize
        return PaperRound("6 drop", self.batches, read, written, reads, self.batches, cpu, held)


def sources(part: PaperData | Graph | Machines | Rates) -> list[tuple[str, float, str]]:
    """Name, value and source of each constant."""
    return [(one.name, float(getattr(part, one.name)), str(one.metadata["source"])) for one in fields(part)]
