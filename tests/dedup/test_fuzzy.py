"""Near-duplicates over a whole dataset."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    DaskExecutor,
    DocumentBatch,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    ProcessingStage,
    StageError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup import Bands, Highest, Shingles
from dcurate.run import Executor
from tests.groups.test_exact import write
from tests.places import records

pytestmark = pytest.mark.cluster

Row = dict[str, Any]
WORDS = ["".join(letters) for letters in itertools.product("bdfgklmnprst", "aeiou", "bdfgklmnprst")]


def shingles(text: str, size: int = 5) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + size]) for at in range(max(1, len(words) - size + 1))} if words else set()


def similarity(one: str, other: str) -> float:
    first, second = shingles(one), shingles(other)
    return len(first & second) / len(first | second) if first | second else 0.0


def documents(seed: int, originals: int = 12, copies: int = 40) -> list[str]:
    """Texts of random words, and copies of them in which up to a tenth of the words is another one."""
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(40, 200))) for _ in range(originals)]
    for _ in range(copies):
        words = draw.choice(texts).split()
        for _ in range(draw.choice([0, 0, 1, 2, len(words) // 10])):
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        texts.append(" ".join(words))
    draw.shuffle(texts)
    return texts


def groups_of(texts: list[str], threshold: float, first: int = 0) -> list[list[int]]:
    """Groups of two and more, by comparing all pairs but those of texts before the first."""
    parent = list(range(len(texts)))

    def root(place: int) -> int:
        while parent[place] != place:
            place = parent[place]
        return place

    for left, right in itertools.combinations(range(len(texts)), 2):
        if right >= first and similarity(texts[left], texts[right]) >= threshold:
            low, high = sorted((root(left), root(right)))
            parent[high] = low
    found: dict[int, list[int]] = {}
    for place in range(len(texts)):
        found.setdefault(root(place), []).append(place)
    return [group for group in found.values() if len(group) > 1]


def run(stage: FuzzyDuplicates, texts: list[str], size: int = 7) -> list[Row]:
    rows = [{"id": place, "text": text, "score": place % 5} for place, text in enumerate(texts)]
    batches = [
        DocumentBatch(data=pa.Table.from_pylist(rows[start : start + size])) for start in range(0, len(rows), size)
    ]
    result = Pipeline("test", stages=[stage]).run(InlineExecutor(), initial_tasks=batches)
    return [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]


#: Finds pairs at the threshold with a chance of 1 - 1e-9.
SURE: dict[str, Any] = {"bands": Bands(64, 4), "num_hashes": 256, "id_field": "id", "clustering": "connected"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_groups_are_those_that_comparing_all_pairs_gives(seed: int) -> None:
    texts = documents(seed)
    found = run(FuzzyDuplicates(action="identify", **SURE), texts)
    groups: dict[int, list[int]] = {}
    for row in found:
        groups.setdefault(row["group_id"], []).append(row["id"])
        assert row["similarity"] == pytest.approx(similarity(texts[row["id"]], texts[row["kept_id"]]), abs=1e-3)
        assert row["kept"] == (row["id"] == row["kept_id"])
    assert sorted(map(sorted, groups.values())) == sorted(groups_of(texts, 0.8))
    assert {row["group_size"] == len(groups[row["group_id"]]) for row in found} == {True}


@pytest.mark.parametrize(
    ("keep", "cost"),
    [
        ("first", lambda texts, place: place),
        ("longest", lambda texts, place: -len(texts[place])),
        (Highest("score"), lambda texts, place: -(place % 5)),
    ],
)
def test_of_each_group_the_best_stays(keep: Any, cost: Callable[[list[str], int], float]) -> None:
    texts = documents(4)
    gone = set()
    for group in groups_of(texts, 0.8):
        gone |= set(group) - {min(group, key=lambda place: (cost(texts, place), place))}
    kept = [row["id"] for row in run(FuzzyDuplicates(keep=keep, **SURE), texts)]
    assert kept == [place for place in range(len(texts)) if place not in gone]


@settings(deadline=None, max_examples=6)
@given(st.integers(1, 60), st.sampled_from(["connected", "star"]), st.sampled_from(["exact", "estimated", "none"]))
def test_the_result_does_not_depend_on_how_rows_are_cut_into_batches(
    size: int, clustering: Any, verification: Any
) -> None:
    texts = documents(5, 8, 20)
    stage = FuzzyDuplicates(clustering=clustering, verification=verification, action="identify", id_field="id")
    whole, cut = (sorted(run(stage, texts, length), key=itemgetter("id")) for length in (1000, size))
    assert repr(cut) == repr(whole)


def test_with_stars_each_that_goes_is_a_duplicate_of_the_one_that_stays() -> None:
    words = WORDS[:100]
    chain = []
    for step in range(12):
        words = [*words[4:], *WORDS[100 + 4 * step : 104 + 4 * step]]
        chain.append(" ".join(words))
    assert similarity(chain[0], chain[1]) > 0.8
    connected = run(FuzzyDuplicates(action="identify", **SURE), chain)
    assert {row["group_size"] for row in connected} == {12}
    assert min(row["similarity"] for row in connected) < 0.5
    stars = run(FuzzyDuplicates(action="identify", **{**SURE, "clustering": "star"}), chain)
    assert min(row["similarity"] for row in stars) >= 0.8
    assert (
        len(run(FuzzyDuplicates(**{**SURE, "clustering": "star"}), chain))
        > len(run(FuzzyDuplicates(**SURE), chain))
        == 1
    )


def test_removing_duplicates_twice_is_removing_them_once() -> None:
    once = run(FuzzyDuplicates(**SURE), documents(6))
    assert [row["text"] for row in run(FuzzyDuplicates(**SURE), [row["text"] for row in once])] == [
        row["text"] for row in once
    ]


def test_texts_without_a_word_are_nobody_s_duplicates_and_short_ones_are_compared_as_a_whole() -> None:
    texts = ["", "!!!", "", "?", "Hello", "hello!", "hello you", " \n"]
    assert [row["id"] for row in run(FuzzyDuplicates(), texts)] == [0, 1, 2, 3, 4, 6, 7]


def test_copies_cost_a_comparison_each_and_near_copies_not_many_more() -> None:
    def found(texts: list[str]) -> dict[str, int]:
        batch = DocumentBatch(data=pa.table({"text": texts}))
        result = Pipeline("test", stages=[FuzzyDuplicates()]).run(InlineExecutor(), initial_tasks=[batch])
        assert sum(batch.num_items for batch in result) == 1
        return result.report.stages[-1].found

    text = " ".join(WORDS[:40])
    assert found([text] * 3000)["pairs compared"] == 2999
    near = found([f"{text} {word}" for word in WORDS[:700]] * 3)
    assert near["large buckets"] > 0
    assert near["pairs compared"] < 150 * 2100  # of two million


def test_a_dataset_without_duplicates_or_without_documents_stays_as_it_is() -> None:
    texts = [" ".join(random.Random(seed).choices(WORDS, k=50)) for seed in range(20)]
    assert [row["text"] for row in run(FuzzyDuplicates(), texts)] == texts
    assert run(FuzzyDuplicates(action="identify"), texts) == []
    assert run(FuzzyDuplicates(), [""]) == [{"id": 0, "text": "", "score": 0}]


@pytest.mark.parametrize("action", ["drop", "identify"])
def test_many_files_are_merged_and_many_forests_level_by_level(action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = documents(7)
    stage = FuzzyDuplicates(action=action, **SURE)
    before = run(stage, texts)
    monkeypatch.setattr("dcurate.groups.labels.FEW_EDGES", 0)
    monkeypatch.setattr("dcurate.groups.labels.FAN_IN", 2)
    monkeypatch.setattr("dcurate.groups.near_stage._BLOCK", 2000)
    monkeypatch.setattr("dcurate.groups.verify._BLOCK", 5000)
    monkeypatch.setattr("dcurate.shuffle.merge.MOST_READS", 0)
    monkeypatch.setattr("dcurate.shuffle.merge.MERGED_BYTES", 20_000)
    assert sorted(map(repr, run(stage, texts))) == sorted(map(repr, before))


def test_characters_find_what_words_do_not() -> None:
    text = "".join(WORDS[:60])
    changed = text[:90] + "X" + text[90:]
    texts = [text, changed]
    assert len(run(FuzzyDuplicates(threshold=0.7), texts)) == 2
    assert len(run(FuzzyDuplicates(threshold=0.7, shingles=Shingles(10, "characters")), texts)) == 1


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_real_processes_give_what_one_process_gives(mode: str, cluster: LocalCluster, tmp_path: Path) -> None:
    texts: list[str | None] = [*documents(8)]
    source = write(tmp_path / "in", [texts[:20], texts[20:25], texts[25:]])
    outputs = []
    executors: list[Executor] = [InlineExecutor(), DaskExecutor({"execution_mode": mode}, cluster)]
    for number, executor in enumerate(executors):
        output, groups = tmp_path / f"out-{number}", tmp_path / f"groups-{number}"
        stages: list[AnyStage] = [
            JsonlReader(source),
            FuzzyDuplicates(report_path=str(groups), id_field="id"),
            JsonlWriter(str(output)),
        ]
        report = Pipeline("test", stages=stages).run(executor).report
        rows = pyarrow.parquet.read_table(sorted(groups.glob("*.parquet"))).to_pylist()
        outputs.append(
            (
                {path.name: path.read_bytes() for path in output.glob("*.jsonl")},
                sorted(map(repr, rows)),
                report.stages[1].dropped,
                report.stages[1].found,
            )
        )
        assert not (records(output) / "rounds").exists()
    assert outputs[0] == outputs[1]
    assert outputs[0][2]["fuzzy_duplicate"] > 10


def test_a_group_that_is_too_large_to_be_believed_is_reported_with_what_it_says(tmp_path: Path) -> None:
    page = "Please enable JavaScript in your browser in order to read this page of ours, and come back"
    texts: list[str | None] = [*documents(9, 30, 0), *[f"{page} {word}" for word in WORDS[:150]]]
    source = write(tmp_path / "in", [texts[:90], texts[90:]])
    stages: list[AnyStage] = [JsonlReader(source), FuzzyDuplicates(), JsonlWriter(str(tmp_path / "out"))]
    report = Pipeline("test", stages=stages).run(InlineExecutor()).report
    assert [notice[:99] for notice in report.notices] == [
        "fuzzy_duplicates: group 30 holds 150 documents, 83.3 % of all; are these duplicates? 'Please enable"
    ]
    assert report.stages[1].found["pairs of duplicates"] >= 149


def test_a_group_that_holds_too_much_of_one_source_is_reported_with_its_name(tmp_path: Path) -> None:
    menu = "home about us contact terms of use privacy news shop cart log in sign up help"
    texts = [f"{menu} {word}" for word in WORDS[:100]] + documents(11, 1500, 0)
    rows = [{"text": text, "site": "shop" if place < 400 else "press"} for place, text in enumerate(texts)]
    batches = [DocumentBatch(data=pa.Table.from_pylist(rows[start : start + 500])) for start in range(0, 1600, 500)]
    stage = FuzzyDuplicates(source_field="site")
    report = Pipeline("test", stages=[stage]).run(InlineExecutor(), initial_tasks=batches).report
    assert [notice[:75] for notice in report.notices] == [
        "fuzzy_duplicates: group 0 holds 100 documents, 25 % of source 'shop'; are t",
        "fuzzy_duplicates: group 0 holds 100 documents, 6.25 % of all; are these dup",
    ]


def days(tmp_path: Path) -> list[list[str]]:
    """Three days of documents, each in files of its own, some of which repeat those of days before."""
    texts = documents(10, 15, 75)
    cut = [texts[:30], texts[30:50], texts[50:]]
    for day, part in enumerate(cut):
        write(tmp_path / f"day-{day}", [[*part[:9]], [*part[9:]]])
    return cut


def rows_in(folder: Path) -> list[Row]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def curate(tmp_path: Path, day: int, **settings: Any) -> list[str]:
    """The documents kept of a day."""
    output = tmp_path / f"clean-{day}"
    stages: list[AnyStage] = [
        JsonlReader(str(tmp_path / f"day-{day}")),
        FuzzyDuplicates(index_path=str(tmp_path / "seen"), **{**SURE, **settings}),
        JsonlWriter(str(output), mode="overwrite"),
    ]
    Pipeline("daily", stages=stages).run(InlineExecutor())
    return [row["text"] for row in rows_in(output)]


def left_of(today: list[str], seen: list[str]) -> list[str]:
    """The documents kept of a day, by comparing each of its texts with all."""
    texts = [*seen, *today]
    groups = groups_of(texts, 0.8, len(seen))
    gone = {place for group in groups for place in group if place != group[0] and place >= len(seen)}
    return [text for place, text in enumerate(texts) if place >= len(seen) and place not in gone]


def test_each_day_is_compared_with_all_days_before_without_their_texts(tmp_path: Path) -> None:
    seen: list[str] = []
    for day, today in enumerate(days(tmp_path)):
        assert curate(tmp_path, day) == left_of(today, seen)
        shutil.rmtree(tmp_path / f"day-{day}")
        seen += today


class FailsOnce(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises while a file is there, and removes it."""

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if Path(self.flag).exists():
            Path(self.flag).unlink()
            raise ValueError("not today")
        return task


@pytest.mark.parametrize("resume", [False, True])
def test_days_that_are_appended_to_one_output_are_compared_with_the_days_before(resume: bool, tmp_path: Path) -> None:
    def curate(day: int, *, resume: bool = False) -> None:
        stages: list[AnyStage] = [
            JsonlReader(str(tmp_path / f"day-{day}")),
            FuzzyDuplicates(index_path=str(tmp_path / "seen"), **SURE),
            FailsOnce(str(tmp_path / "flag")),
            JsonlWriter(str(tmp_path / "all"), mode="append"),
        ]
        Pipeline("daily", stages=stages).run(InlineExecutor(), resume=resume)

    copies = ["one two three four five six seven", "eight nine ten eleven twelve"]
    for day, own in enumerate(["a b c d e f g", "h i j k l m n", "o p q r s t u"]):
        write(tmp_path / f"day-{day}", [[*copies, own]])
    curate(0)
    (tmp_path / "flag").touch()
    with pytest.raises(StageError, match="not today"):
        curate(1)
    curate(1, resume=resume)
    curate(2)
    texts = [row["text"] for row in rows_in(tmp_path / "all")]
    assert sorted(texts) == sorted([*copies, "a b c d e f g", "h i j k l m n", "o p q r s t u"])


@pytest.mark.parametrize("verification", ["estimated", "none"])
def test_copies_of_days_before_are_found_in_every_way(verification: Any, tmp_path: Path) -> None:
    write(tmp_path / "day-0", [["one two three four five six seven"], ["eight nine ten"]])
    write(tmp_path / "day-1", [["", "Eight, nine, ten!"], ["nine ten eleven"]])
    assert len(curate(tmp_path, 0, verification=verification)) == 2
    assert curate(tmp_path, 1, verification=verification) == ["", "nine ten eleven"]


def test_a_day_that_is_done_again_is_not_its_own_duplicate(tmp_path: Path) -> None:
    days(tmp_path)
    first = [curate(tmp_path, day) for day in range(2)]
    assert [curate(tmp_path, day) for day in (1, 1)] == [first[1], first[1]]
    (tmp_path / "day-1").rename(tmp_path / "day-3")
    assert curate(tmp_path, 3) == []


def test_a_day_that_is_done_again_after_later_ones_keeps_what_they_dropped_as_its_copies(tmp_path: Path) -> None:
    """A row that no day keeps is lost: the later one drops it as a copy, the earlier one as the later has seen it."""
    days(tmp_path)
    first = [curate(tmp_path, day) for day in range(3)]
    assert [curate(tmp_path, day) for day in (0, 2, 1, 0)] == [first[day] for day in (0, 2, 1, 0)]


def test_groups_name_documents_that_were_seen_before(tmp_path: Path) -> None:
    days(tmp_path)
    curate(tmp_path, 0)
    curate(tmp_path, 1, report_path=str(tmp_path / "groups"))
    rows = pyarrow.parquet.read_table(sorted((tmp_path / "groups").glob("*.parquet"))).to_pylist()
    seen = [row for row in rows if row["group_id"] < 30]
    assert {row["kept"] for row in seen} == {True, False}
    assert all(row["similarity"] == 1.0 for row in seen if row["kept"])
    assert {row["kept_id"] for row in seen} <= {row["id"] for row in rows_in(tmp_path / "day-0")}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"shingles": Shingles(7)}, "made with shingles='5 words' and not '7 words'"),
        ({"num_hashes": 512}, "made with num_hashes=256 and not 512"),
        ({"bands": Bands(32, 8)}, "made with bands='64 of 4' and not '32 of 8'"),
        ({"verification": "none"}, "made with verification='exact' and not 'none'"),
    ],
)
def test_an_index_that_was_made_with_other_settings_is_refused_by_name(
    settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    days(tmp_path)
    curate(tmp_path, 0)
    with pytest.raises(PipelineError, match=sentence):
        curate(tmp_path, 1, **settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"threshold": 0}, "threshold=0 "),
        ({"verification": "exct"}, "unknown verification='exct'; did you mean 'exact'"),
        ({"clustering": "stars"}, "no clustering 'stars'; did you mean 'star'"),
        ({"bands": Bands(50, 10)}, "50 bands of 10 need num_hashes of at least 500, not 128"),
        ({"keep": "best"}, "keep='best' is not a rule"),
        ({"action": "remove"}, "no action 'remove'"),
    ],
)
def test_settings_that_there_are_not_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        FuzzyDuplicates(**settings)
