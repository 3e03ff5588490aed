import re
from dataclasses import dataclass

from dcurate import ExactDuplicates, JsonlReader, JsonlWriter, Modify, Pipeline, ScoreFilter, SourceStage, WarcReader
from dcurate.plan.compile import compile_plan
from dcurate.text import AddId, HtmlExtractor, NewlineNormalizer, WordCountFilter


def words_of(pipeline):
    html = re.sub(r"<style>.*?</style>", "", pipeline._repr_html_(), flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_stages_say_what_they_read_rewrite_and_add_and_columns_flow_between_operators(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "one", "url": "two"}\n')
    pipeline = Pipeline("demo", "what it is for")
    for stage in (
        JsonlReader(str(tmp_path), fields=["text", "url"]),
        Modify(NewlineNormalizer()),
        ScoreFilter(WordCountFilter(), score_field="words"),
        ExactDuplicates(),
        AddId("doc_id"),
        JsonlWriter(str(tmp_path / "out")),
    ):
        pipeline.add_stage(stage)
    told = words_of(pipeline)
    assert told.startswith("demo what it is for one task a batch 1 CPU a slot jsonl_reader JsonlReader yields text url")
    assert "newline_normalizer Modify rewrites text" in told
    assert "word_count ScoreFilter reads text adds words text url words sees every row" in told
    assert told.endswith(f"add_id AddId adds doc_id jsonl_writer JsonlWriter writes to {tmp_path}/out")


def test_columns_that_a_stage_drops_do_not_flow_on(tmp_path):
    (tmp_path / "pages.warc").touch()
    extract, distinct = HtmlExtractor("dcurate"), ExactDuplicates()
    pipeline = Pipeline("crawl", stages=[WarcReader(str(tmp_path), fields=["url", "content"]), extract, distinct])
    assert "adds text title drops content url text title sees every row" in words_of(pipeline)
    plan = compile_plan(pipeline.stages).explain()
    assert "- html_extractor (reads content; adds text, title; drops content)\n  columns: url, text, title\n" in plan


@dataclass
class Unknown(SourceStage):
    name: str = "unknown"

    def splits(self):
        return iter(())

    def process(self, task):
        return task


def test_columns_that_nobody_knows_yet_are_not_made_up():
    told = words_of(Pipeline("demo", stages=[Unknown(), ExactDuplicates(), AddId("doc_id")]))
    assert "unknown Unknown columns known when it runs sees every row" in told
    assert told.endswith("add_id AddId adds doc_id")


def test_what_cannot_be_built_says_why_and_markup_in_names_is_text():
    assert "&lt;i&gt;id&lt;/i&gt;" in Pipeline("<b>", stages=[AddId("<i>id</i>")])._repr_html_()
    assert "<i>id" not in Pipeline("<b>", stages=[AddId("<i>id</i>")])._repr_html_()
    assert "has no stages" in Pipeline("empty")._repr_html_()
