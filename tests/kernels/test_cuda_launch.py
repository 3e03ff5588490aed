"""How kernels for a GPU are compiled, given memory and launched, where there is no GPU to launch them on."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from dcurate import DocumentBatch, Pipeline, ResourceError, Resources, ScoreFilter
from dcurate.dedup import MinHash
from dcurate.dedup.fuzzy import BandWriter
from dcurate.dedup.span_shuffle import SpanWriter
from dcurate.dedup.spans import UnitFinder
from dcurate.dedup.substrings import AnchorFinder
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels import (
    cleaning,
    cuda,
    cuda_cleaning,
    cuda_compiler,
    cuda_copies,
    cuda_dedup,
    cuda_minhash,
    cuda_scratch,
    hashing,
    xxh3,
)
from dcurate.kernels.anchors import new_anchor_scratch
from dcurate.kernels.characters import measure_characters
from dcurate.kernels.cleaning import LineRules
from dcurate.kernels.cuda_compiler import identity, numba_refuses
from dcurate.kernels.cuda_scratch import Scratch, arrays, as_allocated, bytes_of, own_scratch, planned, size_of_thread
from dcurate.kernels.signal import SINGLE, signal
from dcurate.kernels.units import SpanLimits
from dcurate.text import PiiFilter, RepeatedLinesFilter, WordCountFilter
from dcurate_testing.native_cuda import Launches, NativeCuda


@njit
def _measure(data: Any, span: Any, tables: Any, scratch: Any, out: Any) -> None:
    out[0] = span[1] - span[0]


@signal(_measure, SINGLE)
def sizes_of() -> int:
    return 0


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeCuda]:
    native = NativeCuda(guard=False)
    monkeypatch.setattr(cuda, "_cuda", lambda: native)
    cuda._compiled.cache_clear()
    yield native
    cuda._compiled.cache_clear()


def test_slots_that_begin_together_share_one_kernel(monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda) -> None:
    made: list[Any] = []
    at_once, running = [0], [0]

    class Jitted:
        def __getitem__(self, grid: Any) -> Any:
            return self

        def __call__(self, *given: Any) -> None:
            running[0] += 1
            at_once[0] = max(at_once[0], running[0])
            time.sleep(0.01)
            running[0] -= 1

    def jit(function: Any) -> Any:
        time.sleep(0.05)  # time for the others to come, too
        made.append(function)
        return Jitted()

    monkeypatch.setattr(stand_in, "jit", jit, raising=False)
    barrier = threading.Barrier(4)
    kernels = []

    def slot() -> None:
        barrier.wait()
        kernel = cuda.compiled(measure_characters, None, as_allocated)
        kernel.launch(1)
        kernels.append(kernel)

    threads = [threading.Thread(target=slot) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (len(made), len(kernels), len({*map(id, kernels)})) == (1, 4, 1)
    assert at_once == [1]  # numba would compile in each of those that come before the first has done so


_SCRATCH = Scratch(lambda most: (np.empty(most, np.int32), (np.empty((most // 2 + 1, 2)), np.empty(3, np.uint8))))


@pytest.fixture(scope="module")
def own() -> Iterator[Any]:
    """What a kernel calls for the scratch of its thread, as Python."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cuda_scratch, "njit", lambda **_: lambda function: function)
        own_scratch.cache_clear()
        yield own_scratch(((tuple, None, (tuple, None, None)),))
    own_scratch.cache_clear()


@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=40))
def test_each_thread_has_scratch_for_its_text_and_shares_it_with_none(own: Any, lengths: list[int]) -> None:
    ordered = np.array(sorted(lengths, reverse=True), np.int64)
    plan = planned(ordered, _SCRATCH)
    first, second, third = whole = [np.zeros(items, np.int64) for items in plan.items]
    for thread, length in enumerate(ordered.tolist()):
        (mine,) = own(((first, (second, third)),), (plan.sizes, size_of_thread(plan.sizes, thread), thread))
        for part, need in zip(arrays(mine), arrays(_SCRATCH.new(length)), strict=True):
            assert len(part) >= len(need)
            part[...] += 1
    assert all((held == 1).all() for held in whole)
    used = sum(items * one[:1].nbytes for items, one in zip(plan.items, arrays(plan.like), strict=True))
    assert used == sum(bytes_of(ordered, _SCRATCH)) <= sum(_bytes(_SCRATCH.new(size * 9 // 8 + 1)) for size in lengths)


def _bytes(scratch: Any) -> int:
    return sum(array.nbytes for array in arrays(scratch))


def test_one_long_text_does_not_multiply_the_scratch_of_the_others() -> None:
    scratch = Scratch(lambda most: new_anchor_scratch(most, 50))
    plan = planned(np.array([1_000_000, *[1000] * 999]), scratch)
    used = sum(items * one[:1].nbytes for items, one in zip(plan.items, arrays(plan.like), strict=True))
    assert used < 2.5 * _bytes(scratch.new(1_000_000))


def test_a_core_measures_the_longest_texts_while_the_gpu_measures_the_others(
    monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda
) -> None:
    lengths = np.array([5, 2_000_000, 70_000, 0, 100_000, 40, 90_000])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    column = cuda.on_gpu(offsets, np.zeros(offsets[-1], np.uint8))
    launched: list[int] = []

    def run(measure: Any, layout: Any, rows: Any, memory: Any, reset: Any) -> None:
        launched.extend(rows.tolist())
        memory.out[:, 0] = lengths[rows]

    monkeypatch.setattr(cuda, "run", run)
    assert sizes_of.gpu(column, np.arange(7)).tolist() == lengths.tolist()
    assert sorted(launched) == [0, 3, 5]
    launched.clear()
    assert sizes_of.gpu(column._replace(host=None), np.arange(7)).tolist() == lengths.tolist()
    assert sorted(launched) == list(range(7))


@pytest.fixture
def few_and_long() -> TextColumn:
    """Texts of which a core takes two or three, where those above 64 bytes are long."""
    line = "One line that ends, and has some words. Jo wrote it.\n"
    return column_of([text.encode() for text in ("", line * 40, "so", line * 2, "x " * 999, line, line * 30 + "y")])


@pytest.mark.parametrize(
    "find",
    [
        lambda column: UnitFinder("line", SpanLimits(1, 0, 0), ("case", "whitespace")).spans(column),
        lambda column: UnitFinder("sentence", SpanLimits(2, 0, 0), ("unicode",)).spans(column),
        lambda column: AnchorFinder(20, 10, "words").spans(column),
        lambda column: MinHash().sets(column, np.arange(7)),
    ],
    ids=["lines", "sentences", "anchors", "shingles"],
)
def test_a_core_finds_the_spans_and_sets_of_the_longest_texts_meanwhile(
    monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda, few_and_long: TextColumn, find: Callable[[Any], Any]
) -> None:
    launched: list[int] = []

    def by_gpu(passes: Any, column: Any, rows: Any, given: Any, meanwhile: Any) -> Any:
        meanwhile()
        launched.extend(rows.tolist())
        return passes.on_cpu(rows)

    monkeypatch.setattr(cuda_dedup, "_both_passes", by_gpu)
    monkeypatch.setattr(cuda, "LONG", 64)
    wanted = [array.tolist() for array in find(few_and_long)]
    gpu = cuda.on_gpu(*few_and_long)
    assert [array.tolist() for array in find(gpu)] == wanted
    assert {0, 2, 5} <= set(launched) < set(range(7))
    launched.clear()
    monkeypatch.setattr(cuda, "LONG", 2**16)
    assert [array.tolist() for array in find(gpu)] == wanted
    assert sorted(launched) == list(range(7))


def test_a_core_cleans_and_hashes_the_longest_texts_meanwhile(
    monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda, few_and_long: TextColumn
) -> None:
    rules, launched, rows = LineRules(min_words=3), [0], np.arange(7)[::-1]

    def by_gpu(measure: Any, layout: Any, rows: Any, memory: Any, reset: Any) -> None:
        launched[0] += len(rows)
        offsets, data = few_and_long
        if measure is cuda_cleaning._clean:
            left = cleaning.clean_lines(offsets, data, rows, rules)
            memory.out[:] = np.stack([np.diff(left.offsets), left.outcome, left.lines, left.ragged], axis=1)
            for place, row in enumerate(rows):
                part = left.data[left.offsets[place] : left.offsets[place + 1]]
                memory.tables[1][offsets[row] : offsets[row] + len(part)] = part
        else:
            found = xxh3.text_digests if memory.out.shape[1] == 2 else hashing.text_hashes
            memory.out[:] = found(offsets, data)[rows].reshape(memory.out.shape)

    monkeypatch.setattr(cuda, "run", by_gpu)
    monkeypatch.setattr(cuda, "LONG", 64)
    gpu = cuda.on_gpu(*few_and_long)
    wanted = cleaning.clean_lines(*few_and_long, rows, rules)
    assert [one.tolist() for one in cuda_cleaning.clean_lines(gpu, rows, rules)] == [one.tolist() for one in wanted]
    assert cuda_minhash.text_hashes(gpu, rows).tolist() == hashing.text_hashes(*few_and_long)[rows].tolist()
    assert cuda_minhash.text_digests(gpu, rows).tolist() == xxh3.text_digests(*few_and_long)[rows].tolist()
    assert 3 * 3 <= launched[0] < 3 * 7


class Late:
    """A GPU that copies when it is waited for, and from the host's memory as it is then."""

    def __init__(self) -> None:
        self.queue: list[Any] = []

    def stream(self) -> Any:
        return SimpleNamespace(synchronize=lambda: self._done(len(self.queue)))

    def event(self) -> Any:
        event = SimpleNamespace(number=0)
        event.record = lambda stream: setattr(event, "number", len(self.queue))
        event.synchronize = lambda: self._done(event.number)
        return event

    def _done(self, number: int) -> None:
        for place in range(number):
            copy, self.queue[place] = self.queue[place], None
            if copy is not None:
                copy[0][...] = copy[1]

    def pinned_array(self, shape: int, dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def device_array(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype).view(_late(self))


def _late(gpu: Late) -> Any:
    class Array(np.ndarray[Any, Any]):
        def copy_to_device(self, array: Any, stream: Any) -> None:
            gpu.queue.append((self, array))

    return Array


def test_a_pinned_buffer_is_filled_again_when_its_last_copy_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_copies, "STAGED", 64)
    gpu, data = Late(), np.arange(100, dtype=np.int64)
    for times in (1, 2):
        assert cuda_copies.to_gpu(gpu, data * times).tolist() == (data * times).tolist()
    assert len(gpu.queue) == 2 * -(-data.nbytes // 64)


def test_each_thread_has_a_stream_of_its_own(stand_in: NativeCuda) -> None:
    streams = [cuda_copies.lane(stand_in).stream]
    for _ in range(2):
        thread = threading.Thread(target=lambda: streams.append(cuda_copies.lane(stand_in).stream))
        thread.start()
        thread.join()
    assert len({*map(id, streams)}) == 3
    assert cuda_copies.lane(stand_in).stream is streams[0]


def test_the_key_of_a_stored_kernel_is_the_same_in_every_process_and_has_all_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = identity(measure_characters, (tuple, None), as_allocated)
    code = (
        "from dcurate.kernels.characters import measure_characters as one\n"
        "from dcurate.kernels.cuda_compiler import identity\n"
        "from dcurate.kernels.cuda_scratch import as_allocated\n"
        "print(identity(one, (tuple, None), as_allocated))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == key
    others = {identity(measure_characters, None, as_allocated), identity(_measure, (tuple, None), as_allocated)}
    monkeypatch.setattr(cuda_compiler, "sources", lambda: "of another release")
    assert len({key, *others, identity(measure_characters, (tuple, None), as_allocated)}) == 4


def test_a_numpy_that_numba_cuda_cannot_compile_with_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda
) -> None:
    monkeypatch.setattr(cuda_compiler, "version", lambda name: "0.30.4")
    monkeypatch.setattr(np, "__version__", "2.4.6")
    assert numba_refuses() == ""
    assert cuda.usable()
    monkeypatch.setattr(np, "__version__", "2.5.2")
    with pytest.raises(
        ResourceError, match=r"^numba-cuda 0\.30\.4 cannot compile with NumPy 2\.5\.2; install NumPy bel"
    ):
        cuda.usable()


def test_kernels_are_compiled_in_set_up_and_none_in_the_first_batch(
    monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda, tmp_path: Path
) -> None:
    made: list[str] = []

    def jit(function: Any) -> Any:
        made.append(function.__name__)
        return Launches(function, lambda *given: given[3][-1].fill(0))

    monkeypatch.setattr(stand_in, "jit", jit, raising=False)
    gpu = Resources(cpus=1, gpus=0.25)
    batch = DocumentBatch(data=pa.table({"text": ["one two three four five six", "so it goes"]}))
    stages: list[tuple[Any, list[str]]] = [
        (
            ScoreFilter([PiiFilter(), RepeatedLinesFilter()], score_field=["p", "r"]),
            ["steps_count_phones", "steps_count_accounts", "steps_count_signs", "lines_measure_lines"],
        ),
        (BandWriter(str(tmp_path)), ["minhash_sign_text", "cuda_minhash__hash"]),
        (
            SpanWriter(str(tmp_path), finder=UnitFinder("line", SpanLimits(1, 0, 0), ())),
            ["cuda_dedup_spans__units", "cuda_dedup_spans__write_units"],
        ),
    ]
    for stage, kernels in stages:
        for prepared in (stage.with_(resources=gpu), stage):
            made.clear()
            cuda._compiled.cache_clear()
            prepared.setup_on_node()
            prepared.setup()
            assert sorted(made) == (sorted(kernels) if prepared is not stage else [])
            assert prepared.cheap_setup
    made.clear()
    scored = stages[0][0].with_(resources=gpu)
    scored.setup()
    assert sorted(made) == sorted(stages[0][1])
    scored.process(batch)
    assert len(made) == len(stages[0][1])


def test_text_on_the_host_is_not_copied_to_a_gpu_for_filters_that_it_cannot_speed_up(
    monkeypatch: pytest.MonkeyPatch, stand_in: NativeCuda
) -> None:
    launched: list[str] = []
    monkeypatch.setattr(stand_in, "jit", lambda function: Launches(function, lambda *_: launched.append("")), False)
    batch = DocumentBatch(data=pa.table({"text": ["one two three four five six", "so it goes"]}))
    cheap = ScoreFilter(WordCountFilter(min_words=5), score_field="words").with_(resources=Resources(cpus=1, gpus=0.25))
    left = cheap.process(batch)
    assert (left.to_arrow()["words"].to_pylist(), launched) == ([6], [])
    assert "as a GPU could not win" in Pipeline("cheap", stages=[cheap]).describe()
    both = ScoreFilter([PiiFilter(), WordCountFilter()]).with_(resources=Resources(cpus=1, gpus=0.25))
    both.process(batch)
    assert len(launched) == 4
    assert "could not win" not in Pipeline("both", stages=[both]).describe()
