import io
from dataclasses import replace

from rich.console import Console

from dcurate.core.report import RunReport
from dcurate.events import StageStats
from dcurate.ui import report_table
from dcurate.ui.table import report_text

STAGES = (
    StageStats("jsonl_reader", 8, 1005, 1000, 3_000_000, 2_950_000, 0.41, {}, {"malformed line": 3, "not UTF-8": 2}),
    StageStats("word_count", 8, 1000, 940, 2_950_000, 2_800_000, 0.62, {"word_count": 60}),
    StageStats("mean_word_length", 8, 940, 930, 2_800_000, 2_750_000, 0.0, {"too long": 3, "too short": 7}),
    StageStats("jsonl_writer", 8, 930, 930, 2_750_000, 2_690_000, 0.2),
)
REPORT = RunReport(
    run="7f3a",
    pipeline="demo",
    mode="streaming",
    started=1.7e9,
    seconds=4.02,
    stages=STAGES,
    splits=8,
    workers=2,
    output_path="out",
    rejected_path="out/rejected",
    quarantine_path="out.dcurate/quarantine",
    files=8,
)


def shown(report, width=120):
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(report_table(report))
    return [line.rstrip() for line in page.getvalue().splitlines()]


TABLE = """\
demo: streaming, run 7f3a

 stage             docs in  docs out      in     out  dropped  because of                          slot s  docs/slot s
 jsonl_reader        1,005     1,000  3.0 MB  3.0 MB           5 quarantined: 3 malformed line, 2    0.41        2,451
                                                               not UTF-8
 word_count          1,000       940  3.0 MB  2.8 MB       60                                        0.62        1,613
 mean_word_length      940       930  2.8 MB  2.8 MB       10  7 too short, 3 too long                  ·            ·
 jsonl_writer          930       930  2.8 MB  2.7 MB                                                 0.20        4,650

 total               1,005       930  3.0 MB  2.7 MB       70  5 quarantined                         1.23

in, out: size in files at the ends, in memory between them: lines and the columns parsed from them
slot s: seconds in the stage's own code, summed over slots
· computed in one pass with the stage above

time        4.0 s on 2 workers: 250 docs/s, 0.7 MB/s of input
splits      8 parts of the input
output      out (8 files)
rejected    out/rejected
quarantine  out.dcurate/quarantine (5 documents)
"""


def test_the_table_has_a_line_per_stage_a_total_and_the_paths():
    lines = shown(REPORT)
    assert set(lines.pop(3)) == {" ", "─"}
    assert lines == TABLE.splitlines()


def test_a_narrow_terminal_is_shown_fewer_columns_and_no_broken_words():
    lines = shown(REPORT, width=80)
    assert lines[2].split() == ["stage", "docs", "in", "docs", "out", "dropped", "because", "of", "slot", "s"]
    assert any(line.startswith(" mean_word_length") and "7 too short" in line for line in lines)


def test_a_resumed_run_names_the_earlier_splits_and_claims_no_speed():
    report = RunReport("7f3a", "demo", "batch", 0.0, 65.0, STAGES, splits=8, splits_before=6)
    assert shown(report)[-2:] == ["time    1 min 05 s", "splits  8 parts of the input, 6 of them by an earlier run"]


def test_the_rate_leaves_out_the_time_in_which_kernels_were_compiled():
    words = " ".join(" ".join(shown(replace(REPORT, compile_seconds=3.0))).split())
    assert (
        "time 4.0 s on 2 workers, 3.0 s of it to compile kernels, once on this machine: 985 docs/s, 2.9 MB/s" in words
    )


def test_a_run_of_nothing_still_has_a_table():
    report = RunReport("7f3a", "demo", "inline", 0.0, 0.0, (), error="interrupted")
    assert shown(report)[-2:] == ["stopped  interrupted", "time     0 ms: 0 docs/s, 0.0 MB/s of input"]


def test_markup_in_names_and_reasons_is_shown_as_it_is():
    stage = StageStats("f[bold]", 1, 2, 1, dropped={"[red]": 1, "b": 1}, seconds=1.0)
    report = RunReport("7f3a", "demo", "inline", 0.0, 1.0, (stage,))
    assert any("f[bold]" in line and "1 [red], 1 b" in line for line in shown(report))


def test_the_plain_text_is_the_table():
    assert report_text(REPORT).splitlines() == shown(REPORT)
