"""What is made of segments is what NeMo Curator makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from dcurate import DataError, DocumentBatch, PipelineError
from dcurate.audio import (
    DropOverlappingSegments,
    DropRepetitiveSnippets,
    FlagOverlaps,
    JoinSplits,
    PlanSnippets,
    SegmentRows,
    SelectWindows,
    SpeechWindows,
    SplitAtPauses,
    WordsToSegments,
)
from dcurate.audio.overlaps import shared_seconds
from dcurate.audio.segments import overlapping
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage
from tests.growth import assert_linear

_FILE = Path(__file__).parent / "nemo" / "segments.jsonl"
#: Segments, drawn at random, and what the stages of NeMo Curator 1.4.0 make of them.
CASES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]

WORD = pa.struct([("word", pa.string()), ("start", pa.float64()), ("end", pa.float64())])
SEGMENT = pa.struct(
    [
        ("start", pa.float64()),
        ("end", pa.float64()),
        ("speaker", pa.string()),
        ("text", pa.string()),
        ("words", pa.list_(WORD)),
        ("metrics", pa.struct([("bandwidth", pa.int64())])),
    ]
)
TURN = pa.struct([("start", pa.float64()), ("end", pa.float64()), ("speaker", pa.string())])


def batch(rows: list[Any], kind: pa.DataType = SEGMENT, **columns: Any) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"segments": pa.array(rows, pa.list_(kind)), **columns}))


def row_of(stage: Any, task: DocumentBatch) -> dict[str, Any]:
    (row,) = stage.process(task).to_arrow().to_pylist()
    return dict(row)


@pytest.mark.parametrize("case", CASES)
def test_windows_are_those_of_nemo(case: dict[str, Any]) -> None:
    settings = case["windows"]["settings"]
    stage = SpeechWindows(
        target_duration_s=settings["target_window_duration"],
        tolerance_ratio=settings["tolerance"],
        min_speakers=settings["min_speakers"],
        max_speakers=settings["max_speakers"],
        truncate=settings["truncation"],
    )
    row = row_of(stage, batch([case["segments"]], audio_sample_rate=[case["rate"]]))
    assert row["windows"] == case["windows"]["windows"]
    assert {name: row["window_losses"][name] for name in case["windows"]["losses"]} == case["windows"]["losses"]
    assert row["truncations"] == case["windows"]["cuts"]
    if row["windows"]:
        select = SelectWindows(
            min_overlap_ratio=case["selected"]["percent"] / 100, target_duration_s=settings["target_window_duration"]
        )
        selected = row_of(select, DocumentBatch(data=pa.table({"windows": [row["windows"]]})))
        assert selected["selected_windows"] == case["selected"]["windows"]


def test_the_cases_have_all_that_can_happen() -> None:
    assert sum(bool(case["windows"]["cuts"]) for case in CASES) > 3
    assert sum(len(case["selected"]["windows"]) < len(case["windows"]["windows"]) for case in CASES) > 3
    assert all(any(case["windows"]["losses"][name] for case in CASES) for name in CASES[0]["windows"]["losses"])
    assert all(any(case["snippets"]["losses"][name] for case in CASES) for name in ("too_long", "too_short"))
    assert sum(len(case["splits"]["offsets"]) > 1 for case in CASES) > 3


@pytest.mark.parametrize("case", CASES)
def test_segments_and_snippets_are_those_of_nemo(case: dict[str, Any]) -> None:
    stage = DropOverlappingSegments(min_overlap_s=case["separate"]["min_overlap_s"])
    row = row_of(stage, batch([case["segments"]]))
    assert row["separate_segments"] == case["separate"]["segments"]
    settings = case["snippets"]["settings"]
    plan = PlanSnippets(
        "separate",
        max_duration_s=settings["max_duration_sec"],
        min_duration_s=settings["min_duration_sec"],
        max_gap_s=settings["max_segment_gap_in_snippet"],
    )
    kept = pa.array([row["separate_segments"]], pa.list_(SEGMENT))
    planned = row_of(plan, DocumentBatch(data=pa.table({"separate": kept})))
    assert planned["snippets"] == case["snippets"]["snippets"]
    assert planned["snippet_losses"] == case["snippets"]["losses"]


@pytest.mark.parametrize("case", [case for case in CASES if case["segments"] and case["spoken"]["words"]])
def test_words_go_to_the_segments_of_nemo(case: dict[str, Any]) -> None:
    turns = [{name: segment[name] for name in ("start", "end", "speaker")} for segment in case["segments"]]
    words = pa.array([case["spoken"]["words"]], pa.list_(WORD))
    assert row_of(WordsToSegments(), batch([turns], TURN, words=words))["spoken_segments"] == case["spoken"]["segments"]


@pytest.mark.parametrize("case", CASES)
def test_splits_are_those_of_nemo(case: dict[str, Any]) -> None:
    given = case["splits"]
    stage = SplitAtPauses(max_duration_s=given["max_duration_s"], min_duration_s=given["min_duration_s"])
    splits = row_of(stage, batch([case["segments"]], duration=[given["duration"]]))["splits"]
    assert [split["start"] for split in splits] == given["offsets"]
    lengths = [split["end"] - split["start"] for split in splits]
    assert lengths == pytest.approx(given["durations"], abs=1e-4)


def test_parts_are_joined_with_the_times_of_the_recording() -> None:
    """`JoinSplitAudioMetadataStage` of NeMo Curator 1.4.0 gives these texts and times."""
    part = pa.struct([("start", pa.float64()), ("end", pa.float64()), ("text", pa.string()), ("words", pa.list_(WORD))])
    parts = [
        {"start": 0.0, "end": 7.0, "text": "a b", "words": [{"word": "a", "start": 0.1234, "end": 0.2}]},
        {"start": 7.0, "end": 8.0, "text": "", "words": None},
        {"start": 8.0005, "end": 9.0, "text": "c", "words": [{"word": "c", "start": 0.0, "end": 0.5}]},
    ]
    rows = DocumentBatch(data=pa.table({"splits": pa.array([parts, [], None], pa.list_(part))}))
    joined = JoinSplits().process(rows).to_arrow().to_pylist()
    assert [row["text"] for row in joined] == ["a b c", "", None]
    times = [(word["start"], word["end"]) for word in joined[0]["words"]]
    assert times == [(0.123, 0.2), (8.001, 8.501)]
    assert joined[1]["words"] is None


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(-3, 6)).map(lambda span: (span[0], sum(span))), max_size=12)


def compared(spans: list[tuple[int, int]], min_overlap_s: float) -> set[int]:
    """The spans that NeMo Curator's `find_overlapping_indices` finds, of sorted ones, by comparing all pairs."""
    return {
        number
        for at, (start, end) in enumerate(spans)
        for other, (other_start, other_end) in enumerate(spans[:at])
        if other_end > start and other_start < end
        if min(end, other_end) - start >= min_overlap_s or end <= other_end or (start <= other_start)
        for number in (at, other)
    }


@given(SPANS, st.sampled_from([-1, 0, 0.5, 1, 2]))
def test_overlaps_are_those_of_all_pairs(spans: list[tuple[int, int]], min_overlap_s: float) -> None:
    """Also of spans that last no time, or end before they start."""
    spans = sorted(spans)
    assert overlapping(spans, min_overlap_s) == compared(spans, min_overlap_s)


@pytest.mark.parametrize(
    "spans",
    [
        lambda count: [(0.0, 1.0)] * count,
        lambda count: [(number, 2.0 * count) for number in range(count)],
        lambda count: [(number, 2 * count + number) for number in range(count)],
        lambda count: [(number, 2 * count - number) for number in range(count)],
        lambda count: [(number, number - 1) for number in range(count)],
    ],
)
def test_the_time_for_overlaps_grows_with_the_segments(spans: Any) -> None:
    """And as many as overlap are no fault: 20,000 at one time have 200 million pairs."""
    assert_linear(lambda times: overlapping(times, 10**9), [spans], (10_000, 40_000), bytes_each=32)
    segments = [{"start": start, "end": max(start, end), "text": "a"} for start, end in spans(20_000)]
    made = DropOverlappingSegments(min_overlap_s=10**9).process(batch([segments]))
    assert not made.rejections


def test_views_are_of_the_segments_and_nothing_gets_lost() -> None:
    refs = [Ref("a.wav", start_s=10.0, stop_s=12.0), Ref("b.wav"), Ref("c.wav"), None]
    turn = [{"start": 0.5, "end": 1.0, "speaker": "x"}, {"start": 1.5, "end": 9.0, "speaker": None}]
    rows = batch([turn, [], None, turn[:1]], TURN, media_ref=ref_array(refs), id=["a", "b", "c", "d"])
    found = SegmentRows().process(rows)
    views = [
        row["media_ref"] and (row["media_ref"]["start_s"], row["media_ref"]["stop_s"])
        for row in found.to_arrow().to_pylist()
    ]
    assert views == [(10.5, 11.0), (11.5, 12.0), None]
    assert found.to_arrow()["segment"].to_pylist() == [*turn, turn[0]]
    assert found.to_arrow()["segment_number"].to_pylist() == [0, 1, 0]
    assert [(rejection.reason, rejection.rows, rejection.fault) for rejection in found.rejections] == [
        ("no segments", 2, False)
    ]


STAGES = [
    DropOverlappingSegments(),
    FlagOverlaps(),
    WordsToSegments(),
    SpeechWindows(sample_rate_field=None),
    PlanSnippets("segments"),
    SplitAtPauses(),
    SegmentRows(),
]


def of_three(bad: Any) -> DocumentBatch:
    segments = [CASES[3]["segments"], bad, None]
    words = pa.array([[], [], None], pa.list_(WORD))
    refs = ref_array([Ref("a.wav"), Ref("b.wav"), Ref("c.wav")])
    return batch(segments, words=words, duration=[200.0] * 3, media_ref=refs, id=[0, 1, 2])


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@pytest.mark.parametrize("times", [(None, 1.0), (0.0, None), (float("nan"), 1.0), (2.0, 1.0), (0.0, float("inf"))])
def test_segments_without_times_are_a_fault_of_their_row(stage: Any, times: tuple[Any, Any]) -> None:
    found = stage.process(of_three([{"start": times[0], "end": times[1]}]))
    faults = [(rejection.reason, rejection.rows) for rejection in found.rejections if rejection.fault]
    assert faults == [("bad segments", 1)]
    assert {0} <= set(found.to_arrow()["id"].to_pylist()) <= {0, 2}


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_stages_keep_the_laws(stage: Any) -> None:
    check_stage(stage, of_three([]))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@pytest.mark.parametrize("column", [["a"], [[1.0]], [[{"start": "a", "end": "b"}]]])
def test_other_columns_are_refused(stage: Any, column: list[Any]) -> None:
    columns = {"segments": column, "words": column, "duration": [1.0], "media_ref": ref_array([Ref("a.wav")])}
    with pytest.raises(DataError, match="not lists of structures with start and end"):
        stage.process(DocumentBatch(data=pa.table(columns)))


def test_windows_without_end_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SpeechWindows(sample_rate_field=None)
    monkeypatch.setattr("dcurate.audio.windows.MAX_STEPS", 1000)
    segment = {"start": 0.0, "end": 1.0, "speaker": "a", "text": "a", "metrics": {"bandwidth": 9000}}
    found = stage.process(batch([[segment] * 100, [segment] * 3]))
    assert [(rejection.reason, rejection.rows) for rejection in found.rejections] == [("too many segments", 1)]


def test_overlapping_windows_without_end_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcurate.audio.windows.MAX_STEPS", 1000)
    windows = [{"segments": [{"start": number / 1000, "end": 1 + number / 1000}]} for number in range(100)]
    bad = [{"segments": [{"start": None, "end": 1.0}]}]
    rows = DocumentBatch(data=pa.table({"windows": [windows, [*windows[:2], {"segments": []}], bad]}))
    found = SelectWindows(min_overlap_ratio=1.0, target_duration_s=1.0).process(rows)
    assert [len(windows) for windows in found.to_arrow()["selected_windows"].to_pylist()] == [2]
    assert [rejection.reason for rejection in found.rejections] == ["too many segments", "bad segments"]


def test_snippets_that_repeat_themselves_go(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate("abcdefgh")}, unk_token="a"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = ["b c b c b c", "b c b c", "b", ""]
    snippets = [{"start": 0.0, "end": 1.0, "segments": [{"start": 0.0, "end": 1.0, "text": t}]} for t in texts]
    stage = DropRepetitiveSnippets(str(tmp_path / "tokenizer.json"), ngram_size=2, max_repeats=2)
    rows = DocumentBatch(data=pa.table({"snippets": [snippets, []]}))
    fresh = stage.process(rows).to_arrow()["fresh_snippets"].to_pylist()
    assert [[snippet["segments"][0]["text"] for snippet in row] for row in fresh] == [texts[1:], []]
    check_stage(stage, rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpeechWindows(target_duration_s=0), "above 0"),
        (lambda: SpeechWindows(min_speakers=6), "exceeds max_speakers"),
        (lambda: SpeechWindows(drop_fields=["start"]), "must keep start and end"),
        (lambda: SelectWindows(min_overlap_ratio=20), "from 0 to 1"),
        (lambda: PlanSnippets(min_duration_s=700), "from 0 to max_duration_s"),
        (lambda: PlanSnippets(max_gap_s=-1), "at least 0"),
        (lambda: SplitAtPauses(sample_rate=0), "above 0"),
        (lambda: SplitAtPauses(min_duration_s=-1), "from 0 to max_duration_s"),
        (lambda: DropRepetitiveSnippets("whisper"), "must be a tokenizer.json"),
        (lambda: DropRepetitiveSnippets("tokenizer.json", ngram_size=0), "at least 1"),
    ],
)
def test_wrong_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()


def test_a_recording_of_no_length_is_a_fault() -> None:
    found = SplitAtPauses().process(batch([[], [], []], duration=[None, 0.0, 5.0]))
    assert found.to_arrow()["splits"].to_pylist() == [[{"start": 0.0, "end": 5.0}]]
    assert [(rejection.reason, rejection.rows) for rejection in found.rejections] == [("no duration", 2)]


@pytest.mark.parametrize(
    ("columns", "needs"), [(["bytes"], "'media_ref' beside 'bytes', for"), ([], "'media_ref', for")]
)
def test_rows_of_segments_need_references(columns: list[str], needs: str) -> None:
    rows = batch([CASES[3]["segments"]], **{name: [b"RIFF"] for name in columns})
    with pytest.raises(PipelineError, match=f"needs a column {needs} rows that refer to parts.*read the files with"):
        SegmentRows().process(rows)


turns = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from(["a", "b", None])).map(
        lambda turn: (float(turn[0]), float(turn[0] + turn[1]), turn[2])
    ),
    max_size=12,
)


@given(turns)
def test_shared_time_is_that_in_which_another_speaker_speaks(turns: list[tuple[float, float, str | None]]) -> None:
    def speaks(second: int) -> set[str | None]:
        return {who for start, end, who in turns if start <= second < end}

    assert shared_seconds(turns) == [
        sum(len(speaks(second)) > 1 for second in range(int(start), int(end))) for start, end, _ in turns
    ]


def test_turns_with_a_flag_keep_it_and_short_overlaps_have_none() -> None:
    kind = pa.list_(
        pa.struct([("start", pa.float64()), ("end", pa.float64()), ("speaker", pa.string()), ("overlap", pa.bool_())])
    )
    rows = [
        [
            {"start": 5.0, "end": 6.0, "speaker": "a", "overlap": True},
            {"start": 0.0, "end": 1.0, "speaker": "a", "overlap": False},
            {"start": 0.95, "end": 4.0, "speaker": "b", "overlap": None},
            {"start": 3.0, "end": 4.5, "speaker": "a", "overlap": False},
        ],
        None,
        [],
    ]
    made = FlagOverlaps().process(DocumentBatch(data=pa.table({"segments": pa.array(rows, kind)}))).to_arrow()
    first, *others = made["flagged_segments"].to_pylist()
    assert [(turn["overlap"], round(turn["overlap_s"], 9)) for turn in first] == [
        *((True, 0.0), (False, 0.05), (True, 1.05), (True, 1.0))
    ]
    assert others == [None, []]
    with pytest.raises(DataError, match="have no field 'speaker'"):
        FlagOverlaps().process(DocumentBatch(data=pa.table({"segments": [[{"start": 0.0, "end": 1.0}]]})))
    with pytest.raises(PipelineError, match=r"min_overlap_s=0 must be above 0"):
        FlagOverlaps(min_overlap_s=0)


@pytest.mark.parametrize("segments", [[[]], [None, []], pa.array([[]], pa.list_(pa.null())), pa.nulls(2)])
def test_rows_without_segments_need_no_speaker(segments: Any) -> None:
    made = FlagOverlaps().process(DocumentBatch(data=pa.table({"segments": segments})))
    assert made.to_arrow()["flagged_segments"].to_pylist() == pa.table({"segments": segments})["segments"].to_pylist()


def test_a_turn_that_shares_just_the_least_time_is_flagged_and_only_a_boolean_is_a_flag() -> None:
    turns = [{"start": 0.0, "end": 0.3, "speaker": "a"}, {"start": 0.2, "end": 1.0, "speaker": "b"}]
    other = [{"start": 0.0, "end": 1.0, "speaker": "a", "overlap": "no"}]
    for segments, wanted in ((turns, [True, True]), (other, [False])):
        made = FlagOverlaps().process(DocumentBatch(data=pa.table({"segments": [segments]})))
        assert [turn["overlap"] for turn in made.to_arrow()["flagged_segments"][0].as_py()] == wanted
