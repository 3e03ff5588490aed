"""Recipes: pipelines written as YAML, with params that a command line can change.

```yaml
name: demo
description: What it does, in one line.
params:                       # what `--set key=value`, `--input` and `--output` change
  input: null                 # null: the caller must give it
  output: out
  min_words: 50
stages:
  - JsonlReader: {file_paths: ${input}, on_bad_line: quarantine}
  - ScoreFilter: {filter_obj: {WordCountFilter: {min_words: ${min_words}}}, score_field: word_count}
  - my_package.my_module:MyStage: {x: 1}          # a class of one's own
    with: {name: mine, resources: {cpus: 2}, batch_size: 4, num_workers: 2}
  - JsonlWriter: {path: ${output}}
executor: {execution_mode: streaming}             # settings of DaskExecutor; optional
rejected: ${output}/rejected                      # where dropped rows are kept; optional
```

* A stage is one class and its arguments; ``with`` beside it takes what `ProcessingStage.with_` takes.
* A class is a public name of dcurate, or ``package.module:Name``, which needs ``trust=True`` (``--trust``): a recipe
  that is not trusted names stages, filters and what these take, and nothing else. Where an argument is an object, it is
  written the same way: a mapping of one class to its arguments (``{WordCountFilter: {min_words: 50}}``). A name that is
  not a class, written without arguments (``{my_package.text:clean: }``), means the object itself. A rule set of
  `dcurate.text.presets` is such an object if it is filters (``{gopher: {variant: dclm}}``), else an entry of its own.
* ``${param}`` alone keeps the param's type; inside a longer text it becomes text. ``$${`` writes ``${``.
  A param may refer to those above it. Two are always there: ``${sample}``, the directory of bundled sample documents,
  and ``${none}``, no value at all: a param with that as its default may be given, or left out.
* Relative paths are relative to the directory that one runs in.
"""

from dcurate.recipe.load import (
    BUNDLED,
    SAMPLE,
    SAMPLE_FILES,
    SAMPLE_FILMS,
    SAMPLE_PICTURES,
    SAMPLE_RECORDINGS,
    Recipe,
    RecipeInfo,
    bundled_recipes,
    load_recipe,
)
from dcurate.recipe.values import parse_setting

__all__ = [
    "BUNDLED",
    "SAMPLE",
    "SAMPLE_FILES",
    "SAMPLE_FILMS",
    "SAMPLE_PICTURES",
    "SAMPLE_RECORDINGS",
    "Recipe",
    "RecipeInfo",
    "bundled_recipes",
    "load_recipe",
    "parse_setting",
]
