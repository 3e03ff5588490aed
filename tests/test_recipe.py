import re
import string
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import dcurate
import dcurate.text
from dcurate import PipelineError, StageSpec
from dcurate.recipe import BUNDLED, bundled_recipes, load_recipe, parse_setting
from dcurate.text import presets

STAGES = """
from dataclasses import dataclass, field
from typing import Any

from dcurate import CompositeStage, ProcessingStage, processing_stage


@dataclass
class Keep(ProcessingStage):
    size: int
    options: Any = None

    def process(self, batch):
        return batch


@dataclass
class Fussy(ProcessingStage):
    size: int = 0

    def __post_init__(self):
        if self.size < 0:
            raise ValueError("size must not be negative")

    def process(self, batch):
        return batch


class Pair(CompositeStage):
    def decompose(self):
        return [Keep(1).with_(name="first"), Keep(2).with_(name="second")]


@dataclass
class Rule:
    limit: int = 3


@processing_stage(name="ready")
def ready(batch):
    return batch


def clean(text):
    return text


def make_keep(size):
    return Keep(size)


LIMIT = 7
"""


@dataclass
class Holder(dcurate.ProcessingStage):
    held: Any

    def process(self, task):
        return task


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a recipe beside a module of stages; returns its path."""
    (tmp_path / "recipe_stages.py").write_text(STAGES)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text):
        path = tmp_path / "r.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def stages(write):
    """The stages of a recipe with this list of stages and these params."""

    def stages(text, params="{}", **overrides):
        indented = text.replace("\n", "\n  ")
        return load_recipe(write(f"params: {params}\nstages:\n  {indented}\n"), overrides, trust=True).pipeline.stages

    return stages


def test_a_recipe_is_a_pipeline(write):
    path = write(
        """
name: small
description: Three filters.
params: {input: in.jsonl, output: out, min_words: 50}
stages:
  - JsonlReader: {file_paths: "${input}", on_bad_line: quarantine}
  - ScoreFilter: {filter_obj: {WordCountFilter: {min_words: ${min_words}}}, score_field: word_count}
  - JsonlWriter: {path: ${output}}
executor: {execution_mode: batch}
rejected: ${output}/rejected
"""
    )
    recipe = load_recipe(path, {"min_words": 5, "output": "o"})
    assert recipe.pipeline.name == "small"
    assert recipe.pipeline.description == "Three filters."
    assert recipe.pipeline.stages == [
        dcurate.JsonlReader(file_paths="in.jsonl", on_bad_line="quarantine"),
        dcurate.ScoreFilter(filter_obj=dcurate.text.WordCountFilter(min_words=5), score_field="word_count"),
        dcurate.JsonlWriter(path="o"),
    ]
    assert (recipe.executor, recipe.rejected, recipe.source) == ({"execution_mode": "batch"}, "o/rejected", path)


def test_a_param_alone_keeps_its_type_and_within_a_text_is_text(stages):
    [keep] = stages(
        "- recipe_stages:Keep: {size: ${n}, options: [${n}, 'a${n}b', $${n}, {deep: ${list}}]}", "{n: 5, list: [x, 2]}"
    )
    assert keep.size == 5
    assert keep.options == [5, "a5b", "${n}", {"deep": ["x", 2]}]


def test_a_param_may_refer_to_those_above_it(stages):
    [keep] = stages("- recipe_stages:Keep: {size: 1, options: ${b}}", "{a: x, b: '${a}/y'}", a="z")
    assert keep.options == "z/y"


def test_the_sample_is_always_a_param(stages):
    [keep] = stages("- recipe_stages:Keep: {size: 1, options: ${sample}/a}")
    assert keep.options == str(Path(dcurate.__file__).parent / "bundled" / "sample" / "a")


def test_objects_among_arguments_are_made_and_plain_mappings_stay(stages):
    [keep] = stages(
        "- recipe_stages:Keep: {size: 1, options: [{recipe_stages:Rule: {limit: 9}}, {recipe_stages:Rule: },"
        " {recipe_stages:clean: }, {text: x}, {Title: title}, {A: 1, B: {}}]}"
    )
    rule, default, clean, *plain = keep.options
    assert (rule.limit, default.limit) == (9, 3)
    assert clean("as it is") == "as it is"
    assert plain == [{"text": "x"}, {"Title": "title"}, {"A": 1, "B": {}}]


def test_a_stage_may_be_a_class_a_factory_or_ready_made(stages):
    keep, made, ready, bare = stages(
        "- recipe_stages:Keep: {size: 1}\n- recipe_stages:make_keep: {size: 2}\n- recipe_stages:ready:\n"
        "- recipe_stages:Fussy"
    )
    assert (keep.size, made.size, ready.name, bare.size) == (1, 2, "ready", 0)


def test_with_changes_what_with_changes(stages):
    keep, pair = stages(
        "- recipe_stages:Keep: {size: 1}\n"
        "  with: {name: mine, resources: {cpus: 2}, batch_size: 4, num_workers: 3}\n"
        "- recipe_stages:Pair:\n"
        "  with: {second: {batch_size: 8}}"
    )
    assert (keep.name, keep.resources.cpus, keep.batch_size, keep.num_workers()) == ("mine", 2.0, 4, 3)
    assert [stage.batch_size for stage in pair.decompose_and_apply_with()] == [1, 8]


@pytest.mark.parametrize("setting", fields(StageSpec), ids=lambda setting: setting.name)
def test_with_takes_each_setting_of_a_stage_that_python_takes(stages, setting):
    value = {"ignore_failures": True, "gpu_optional": True}.get(setting.name, 2)
    [stage] = stages(f"  - recipe_stages:Fussy:\n    with: {{{setting.name}: {str(value).lower()}}}")
    assert getattr(stage.spec, setting.name) == value


def test_numbers_may_be_written_with_an_exponent(stages):
    [keep] = stages("- recipe_stages:Keep: {size: 1e3, options: -2.5e-3}")
    assert (keep.size, keep.options) == (1000.0, -0.0025)


#: PyYAML writes text that looks like a number with an exponent without quotes; in a recipe it is a number.
texts = st.text(string.printable).filter(lambda text: not re.fullmatch(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+", text))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
keys = st.text(string.ascii_lowercase, min_size=1)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=8)


@given(value=values)
def test_any_override_reaches_the_stage_unchanged(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("recipe") / "r.yaml"
    path.write_text(f"params: {{p: 0}}\nstages:\n  - {__name__}:Holder: {{held: ${{p}}}}\n")
    [holder] = load_recipe(path, {"p": {"the value": value}}, trust=True).pipeline.stages
    assert holder.held == {"the value": value}


@given(value=values)
def test_a_setting_is_read_as_yaml(value):
    assert parse_setting(f"key={yaml.safe_dump(value, default_flow_style=True)}") == ("key", value)


ERRORS = {
    # YAML and the shape of a recipe
    "stages: [": "r.yaml: not valid YAML: line 1, column 10: expected the node content, but found '<stream end>'",
    "name: a\nname: b": "r.yaml: not valid YAML: line 2, column 1: 'name' is a duplicate key",
    "- a": "r.yaml: a recipe is a mapping with 'stages', not a list",
    "stage: []": "r.yaml: unknown key 'stage'; did you mean 'stages'?",
    "name: a": "r.yaml: 'stages' must be a list of stages, each a class and its arguments",
    "stages: {JsonlReader: {}}": (
        "r.yaml: 'stages' must be a list of stages, each a class and its arguments; begin each with '- '"
    ),
    "stages:\n\t- JsonlReader: {}": (
        "r.yaml: not valid YAML: line 2, column 1: found character '\\t' that cannot start any token; indent with "
        "spaces, as YAML takes no tabs"
    ),
    "name: 3\nstages: [a]": "r.yaml: name must be text, not 3",
    "params: [a]\nstages: [a]": "r.yaml: 'params' must be a mapping of names to defaults, not a list",
    "executor: [a]\nstages: [a]": "r.yaml: 'executor' must be a mapping of settings, such as execution_mode: streaming",
    # params
    "params: {a: }\nstages: [a]": "r.yaml: param 'a' has no default; give it with --set a=VALUE",
    "params: {a: x, b: '${c}'}": "r.yaml, param 'b': param 'c' does not exist; there are 'sample', 'none', 'a'",
    "params: {words: 1}\nstages:\n  - recipe_stages:Keep: {size: ${word}}": (
        "r.yaml, stage 1 (recipe_stages:Keep): param 'word' does not exist; did you mean 'words'?"
    ),
    "stages:\n  - recipe_stages:Keep: {size: '${a b}'}": (
        "r.yaml, stage 1 (recipe_stages:Keep): '${a b}' is not a reference; write ${name}, or $${ for the text itself"
    ),
    # stages and classes
    "stages: [3]": "r.yaml, stage 1: a stage is a class and its arguments, not 3",
    "stages:\n  - recipe_stages:Keep:\n    size: 1": (
        "r.yaml, stage 1: a stage is one class, but there are 'recipe_stages:Keep', 'size'; "
        "indent arguments under their class"
    ),
    "stages:\n  - with: {name: a}": (
        "r.yaml, stage 1: a stage is one class, but there are nothing; indent arguments under their class"
    ),
    "stages: [ScoreFiltr]": "r.yaml, stage 1 (ScoreFiltr): dcurate has no 'ScoreFiltr'; did you mean 'ScoreFilter'?",
    "stages: [Zzz]": (
        "r.yaml, stage 1 (Zzz): dcurate has no 'Zzz'; write a class of your own as package.module:Zzz, and give --trust"
    ),
    "stages: [u2mod.Embed]": (
        "r.yaml, stage 1 (u2mod.Embed): dcurate has no 'u2mod.Embed'; "
        "write a class of your own as u2mod:Embed, and give --trust"
    ),
    "stages: ['no_such_module:A']": (
        "r.yaml, stage 1 (no_such_module:A): module 'no_such_module' cannot be imported: "
        "No module named 'no_such_module'"
    ),
    "stages: ['recipe_stages:Kep']": (
        "r.yaml, stage 1 (recipe_stages:Kep): module 'recipe_stages' has no 'Kep'; did you mean 'Keep'?"
    ),
    "stages: ['recipe_stages:Rule']": (
        "r.yaml, stage 1 (recipe_stages:Rule): recipe_stages:Rule is not a stage; "
        "put it inside one, as in ScoreFilter: {filter_obj: {recipe_stages:Rule: {...}}}"
    ),
    "stages:\n  - recipe_stages:LIMIT: {x: 1}": (
        "r.yaml, stage 1 (recipe_stages:LIMIT): recipe_stages:LIMIT is 7, which takes no arguments"
    ),
    # arguments
    "stages:\n  - recipe_stages:Keep: 3": (
        "r.yaml, stage 1 (recipe_stages:Keep): recipe_stages:Keep takes a mapping of arguments to values, not 3"
    ),
    "stages:\n  - recipe_stages:Keep: {sice: 1}": (
        "r.yaml, stage 1 (recipe_stages:Keep): recipe_stages:Keep has no argument 'sice'; did you mean 'size'?"
    ),
    "stages:\n  - recipe_stages:Keep: {options: 1}": (
        "r.yaml, stage 1 (recipe_stages:Keep): recipe_stages:Keep needs 'size'"
    ),
    "stages:\n  - recipe_stages:Fussy: {size: few}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): '<' not supported between instances of 'str' and 'int'; "
        "is each argument of the right kind in recipe_stages:Fussy(size='few')?"
    ),
    "stages:\n  - ScoreFilter: {filter_obj: WordCountFilter}": (
        "r.yaml, stage 1 (ScoreFilter): 'WordCountFilter' is not a filter; "
        "for an object of a class write {WordCountFilter: {}}"
    ),
    "stages:\n  - recipe_stages:Keep: {size: {recipe_stages:Rule: {limt: 1}}}": (
        "r.yaml, stage 1 (recipe_stages:Keep): recipe_stages:Rule has no argument 'limt'; did you mean 'limit'?"
    ),
    "stages:\n  - recipe_stages:Keep: {size: {WordCountFilter: 3}}": (
        "r.yaml, stage 1 (recipe_stages:Keep): WordCountFilter takes a mapping of arguments to values, not 3"
    ),
    "stages:\n  - recipe_stages:Fussy: {size: -1}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): size must not be negative"
    ),
    # with
    "stages:\n  - recipe_stages:Fussy:\n    with: 3": (
        "r.yaml, stage 1 (recipe_stages:Fussy): 'with' must be a mapping of settings, not 3"
    ),
    "stages:\n  - recipe_stages:Fussy:\n    with: {batch: 3}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): 'with' has no setting 'batch'; did you mean 'batch_size'?"
    ),
    "stages:\n  - recipe_stages:Fussy:\n    with: {batch_size: two}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): batch_size='two' must be a whole number"
    ),
    "stages:\n  - recipe_stages:Fussy:\n    with: {batch_size: 0}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): stage 'fussy': batch_size=0 must be at least 1"
    ),
    "stages:\n  - recipe_stages:Fussy:\n    with: {resources: {gpu: 1}}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): Resources has no argument 'gpu'; did you mean 'gpus'?"
    ),
    "stages:\n  - recipe_stages:Fussy:\n    with: {resources: {cpus: -1}}": (
        "r.yaml, stage 1 (recipe_stages:Fussy): cpus=-1 must be zero or more"
    ),
    "stages:\n  - recipe_stages:Pair:\n    with: {third: {batch_size: 1}}": (
        "r.yaml, stage 1 (recipe_stages:Pair): composite 'pair' has no inner stage 'third'; there are 'first', 'second'"
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_every_mistake_has_one_sentence_that_names_the_place(write, text):
    with pytest.raises(PipelineError) as caught:
        load_recipe(write(text), trust=True)
    assert str(caught.value) == ERRORS[text]


def test_an_override_of_no_param_is_refused(write):
    with pytest.raises(PipelineError) as caught:
        load_recipe(write("params: {min_words: 1}\nstages: [a]"), {"min_word": 3})
    assert str(caught.value) == "r.yaml: the recipe has no param 'min_word'; did you mean 'min_words'?"


def test_a_recipe_that_is_not_there_offers_the_bundled_ones(tmp_path):
    with pytest.raises(PipelineError, match="name of a bundled recipe; did you mean 'demo'"):
        load_recipe("dem")
    with pytest.raises(PipelineError, match="is a directory; name the recipe file in it"):
        load_recipe(tmp_path)
    (tmp_path / "r.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PipelineError, match="cannot be read"):
        load_recipe(tmp_path / "r.yaml")


@pytest.mark.parametrize("text", ["key", "=3", "key=*.jsonl", "key=[1"])
def test_a_setting_that_is_none_is_refused(text):
    with pytest.raises(PipelineError):
        parse_setting(text)


def test_an_empty_setting_is_the_empty_text():
    assert parse_setting("key=") == ("key", "")


def test_a_param_of_no_value_may_be_left_out_or_given(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(
        'params: {size: "${none}"}\nstages:\n  - JsonlReader: {file_paths: in, blocksize: ${size}, limit: ${none}}\n'
    )
    for overrides, size in (({}, None), ({"size": "64MiB"}, "64MiB"), ({"size": None}, None)):
        loaded = load_recipe(path, overrides)
        assert loaded.params == {"size": size}
        assert loaded.pipeline.stages == [dcurate.JsonlReader("in", blocksize=size)]
        assert "none" not in loaded.pipeline.config["params"]


def test_every_bundled_recipe_packs_small_files_and_chooses_the_format_of_its_output():
    for recipe in bundled_recipes():
        if recipe.name in ("crawl", "images", "pretrain", "speech-emilia", "speech-granary", "video-openvid"):
            continue
        needed = {name: "in" for name, default in recipe.params.items() if default is None}
        given = load_recipe(recipe.name, {**needed, "blocksize": "64MiB", "output_format": "parquet"}).pipeline.stages
        if not isinstance(given[0], dcurate.DocumentReader):
            assert (given[0].file_paths, given[0].blocksize) == ("in", "64MiB")
            continue
        source = str(BUNDLED / "sample") if recipe.name == "demo" else "in"
        assert given[0] == dcurate.DocumentReader(source, blocksize="64MiB", on_bad_line="quarantine")
        assert given[-1] == dcurate.DocumentWriter(recipe.params["output"], filetype="parquet")
        plain = load_recipe(recipe.name, needed).pipeline.stages
        assert (plain[0].blocksize, plain[-1].filetype) == (None, "jsonl")


def test_bundled_recipes_are_listed_and_build():
    recipes = bundled_recipes()
    names = [recipe.name for recipe in recipes]
    assert names == sorted(names)
    assert {"demo", "nemo-english", "gopher", "c4", "fineweb", "refinedweb"} <= set(names)
    for recipe in recipes:
        assert recipe.description
        loaded = load_recipe(recipe.name, {name: "in" for name, default in recipe.params.items() if default is None})
        assert loaded.pipeline.name == recipe.name
        assert len(loaded.pipeline.stages) >= 3


def test_a_rule_set_of_stages_represents_its_stages_and_one_of_filters_for_its_filters(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(
        "stages:\n  - JsonlReader: {file_paths: in}\n  - fineweb:\n  - c4: {variant: datatrove}\n"
        "  - ScoreFilter: {filter_obj: {gopher: {variant: dclm}}, name: dclm}\n"
    )
    stages = load_recipe(path).pipeline.stages
    assert stages[1:] == [*presets.fineweb(), *presets.c4("datatrove"), stages[-1]]
    assert stages[-1].filters == list(presets.gopher("dclm"))


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("- c4: {variant: tfds}", r"stage 1 \(c4\): unknown variant 'tfds' of C4"),
        ("- fineweb:\n    with: {batch_size: 2}", "'with' is for one stage, and fineweb is 4; write them one by one"),
        ("- gopher:", "gopher is not a stage; put it inside one, as in ScoreFilter"),
        ("- gofer:", r"dcurate has no 'gofer'; did you mean 'gopher'\?"),
    ],
)
def test_a_rule_set_that_cannot_stand_where_it_does_is_refused_in_a_sentence(tmp_path, entry, sentence):
    path = tmp_path / "r.yaml"
    path.write_text(f"stages:\n  {entry}\n")
    with pytest.raises(PipelineError, match=sentence):
        load_recipe(path)
