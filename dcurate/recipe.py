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
* A class is a public name of dcurate, or ``package.module:Name``. Where an argument is an object, it is written
  the same way: a mapping of one class to its arguments (``{WordCountFilter: {min_words: 50}}``). A name that is
  not a class, written without arguments (``{my_package.text:clean: }``), stands for the thing itself. A rule set of
  `dcurate.text.presets` is such an object if it is filters (``{gopher: {variant: dclm}}``), else an entry of its own.
* ``${param}`` alone keeps the param's type; inside a longer text it becomes text. ``$${`` writes ``${``.
  A param may refer to those above it. ``${sample}``, the directory of bundled sample documents, is always there.
* Relative paths are relative to the directory that one runs in.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

import dcurate
from dcurate.core.resources import Resources
from dcurate.core.stage import CompositeStage, ProcessingStage
from dcurate.errors import DcurateError, PipelineError, listed, nearest
from dcurate.text import presets

BUNDLED = Path(__file__).parent / "bundled"

_KEYS = ("name", "description", "params", "stages", "executor", "rejected")
_WITH = ("name", "resources", "batch_size", "num_workers")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w-]*)\}")
# ``${name}`` cannot stand bare within YAML's ``{}``, so its braces travel through the parser as other characters.
_OPEN, _CLOSE, _LITERAL = "\U0010fd00", "\U0010fd01", "\U0010fd02"
_ESCAPED = re.compile(r"\$\$\{([\w-]*)\}")
_MASKED = re.compile(rf"\${_OPEN}([\w-]+){_CLOSE}")
_CLASS = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*|[A-Z]\w*)")


@dataclass(frozen=True)
class Recipe:
    """A recipe with its params filled in, ready to run.

    Attributes:
        source: the file it was read from.
        pipeline: a `dcurate.Pipeline`.
        executor: settings for `dcurate.DaskExecutor`.
        rejected: where dropped rows are to be kept, or None.
        params: the values that were filled in.
    """

    source: Path
    pipeline: Any
    executor: dict[str, Any]
    rejected: str | None
    params: dict[str, Any]


@dataclass(frozen=True)
class RecipeInfo:
    """What a person needs to choose a bundled recipe; a param of None must be given."""

    name: str
    description: str
    params: dict[str, Any]
    path: Path


def bundled_recipes() -> tuple[RecipeInfo, ...]:
    """The recipes that come with dcurate, by name."""
    found = []
    for path in sorted((BUNDLED / "recipes").glob("*.yaml")):
        content = _parse(path.read_text("utf-8"), path.name)
        params = {name: _unmasked(value) for name, value in (content.get("params") or {}).items()}
        found.append(RecipeInfo(path.stem, content.get("description", ""), params, path))
    return tuple(found)


def parse_setting(text: str) -> tuple[str, Any]:
    """A param and its value from ``key=value``, the value read as YAML.

    Examples:
        >>> parse_setting("min_words=20"), parse_setting("fields=[text, url]"), parse_setting("output=s3://b/out")
        (('min_words', 20), ('fields', ['text', 'url']), ('output', 's3://b/out'))

    Raises:
        PipelineError: there is no ``=``, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise PipelineError(f"{text!r} is not a setting; write it as key=value")
    try:
        return key, yaml.load(value, Loader=_Loader) if value else ""
    except yaml.YAMLError as error:
        raise PipelineError(
            f"{key}={value}: the value is not valid YAML; text with signs needs quotes within"
        ) from error


def load_recipe(path_or_name: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe from a file, or a bundled one by its name, and build its pipeline.

    Args:
        path_or_name: a YAML file, or a name that `bundled_recipes` lists.
        overrides: values for params of the recipe, taken as they are.

    Raises:
        PipelineError: there is no such recipe, or it cannot be understood; the sentence says where in it.
    """
    source = _find(path_or_name)
    content = _read(source)
    place = source.name
    params = _params(content.get("params"), overrides or {}, place)
    name = _text(content.get("name", source.stem), f"{place}: name")
    description = _text(content.get("description", ""), f"{place}: description")
    stages = content.get("stages")
    if not isinstance(stages, list) or not stages:
        raise PipelineError(f"{place}: 'stages' must be a list of stages, each a class and its arguments")
    executor = _filled(content.get("executor") or {}, params, f"{place}, executor")
    if not isinstance(executor, dict):
        raise PipelineError(f"{place}: 'executor' must be a mapping of settings, such as execution_mode: streaming")
    rejected = _filled(content.get("rejected"), params, f"{place}, rejected")
    built = [_stages(entry, params, f"{place}, stage {number}") for number, entry in enumerate(stages, 1)]
    about = {"recipe": source.name, "params": params}
    return Recipe(
        source=source,
        pipeline=dcurate.Pipeline(name, description or None, list(chain.from_iterable(built)), about),
        executor=executor,
        rejected=None if rejected is None else _text(rejected, f"{place}: rejected"),
        params={name: params[name] for name in content.get("params") or {}},
    )


def _find(path_or_name: str | Path) -> Path:
    path = Path(path_or_name)
    if path.is_file():
        return path
    bundled = {recipe.stem: recipe for recipe in sorted((BUNDLED / "recipes").glob("*.yaml"))}
    if str(path_or_name) in bundled:
        return bundled[str(path_or_name)]
    if path.is_dir():
        raise PipelineError(f"{str(path)!r} is a directory; name the recipe file in it")
    raise PipelineError(
        f"there is no recipe file {str(path)!r}, and no bundled recipe of that name{nearest(str(path), bundled)}"
    )


class _Loader(yaml.SafeLoader):
    """YAML as `yaml.safe_load` reads it, but a key given twice is refused and ``1e-3`` is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _parse(text: str, place: str) -> Any:
    masked = _ESCAPED.sub(rf"{_LITERAL}\1{_CLOSE}", text).replace("$${", _LITERAL)
    try:
        return yaml.load(_REFERENCE.sub(rf"${_OPEN}\1{_CLOSE}", masked), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise PipelineError(f"{place}{where}: not valid YAML: {_unmasked(str(error.problem))}") from error
    except yaml.YAMLError as error:
        raise PipelineError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from error


def _unmasked(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return _literal(_MASKED.sub(r"${\1}", value))


def _literal(text: str) -> str:
    return text.replace(_LITERAL, "${").replace(_CLOSE, "}")


def _read(source: Path) -> dict[str, Any]:
    try:
        content = _parse(source.read_text("utf-8"), source.name)
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"recipe {str(source)!r} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise PipelineError(f"{source.name}: a recipe is a mapping with 'stages', not {_kind(content)}")
    for key in content:
        if key not in _KEYS:
            raise PipelineError(f"{source.name}: unknown key {key!r}{nearest(str(key), _KEYS)}")
    return content


def _params(declared: Any, overrides: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The value of every param; later ones may refer to earlier ones."""
    if not isinstance(declared or {}, dict):
        raise PipelineError(f"{place}: 'params' must be a mapping of names to defaults, not {_kind(declared)}")
    defaults: dict[str, Any] = declared or {}
    for name in overrides:
        if name not in defaults:
            raise PipelineError(f"{place}: the recipe has no param {name!r}{nearest(name, map(str, defaults))}")
    values: dict[str, Any] = {"sample": str(BUNDLED / "sample")}
    for name, default in defaults.items():
        filled = _filled(default, values, f"{place}, param {name!r}")
        values[name] = overrides.get(name, filled)
        if values[name] is None:
            raise PipelineError(f"{place}: param {name!r} has no default; give it with --set {name}=VALUE")
    return values


def _filled(value: Any, params: Mapping[str, Any], place: str) -> Any:
    """The value with every reference to a param replaced."""
    if isinstance(value, dict):
        return {_unmasked(key): _filled(inner, params, place) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, params, place) for inner in value]
    if not isinstance(value, str):
        return value
    if "${" in value:
        raise PipelineError(f"{place}: {value!r} is not a reference; write ${{name}}, or $${{ for the text itself")
    for name in _MASKED.findall(value):
        if name not in params:
            raise PipelineError(f"{place}: there is no param {name!r}{nearest(name, params)}")
    if whole := _MASKED.fullmatch(value):
        return params[whole[1]]
    return _literal(_MASKED.sub(lambda found: str(params[found[1]]), value))


def _stages(entry: Any, params: Mapping[str, Any], place: str) -> list[ProcessingStage[Any, Any]]:
    """The stage that an entry of ``stages`` describes; several if it is a rule set of stages."""
    entry = {entry: None} if isinstance(entry, str) else entry
    if not isinstance(entry, dict):
        raise PipelineError(f"{place}: a stage is a class and its arguments, not {_kind(entry)}")
    classes = [key for key in entry if key != "with"]
    if len(classes) != 1:
        raise PipelineError(
            f"{place}: a stage is one class, but there are {listed(map(str, classes))}; "
            "indent arguments under their class"
        )
    name = str(classes[0])
    place = f"{place} ({name})"
    arguments = _filled(entry[classes[0]], params, place)
    stage = _object(name, arguments, place)
    if isinstance(stage, tuple) and all(isinstance(one, ProcessingStage) for one in stage):  # a rule set
        if "with" not in entry:
            return list(stage)
        raise PipelineError(f"{place}: 'with' is for one stage, and {name} is {len(stage)}; write them one by one")
    if not isinstance(stage, ProcessingStage):
        raise PipelineError(
            f"{place}: {name} is not a stage; put it inside one, as in ScoreFilter: {{filter_obj: {{{name}: {{...}}}}}}"
        )
    return [_adjusted(stage, _filled(entry["with"], params, place), place) if "with" in entry else stage]


def _adjusted(stage: ProcessingStage[Any, Any], wanted: Any, place: str) -> ProcessingStage[Any, Any]:
    """The stage with the settings under ``with``; those of a composite are by inner stage."""
    if not isinstance(wanted, dict):
        raise PipelineError(f"{place}: 'with' must be a mapping of settings, not {_kind(wanted)}")
    try:
        if isinstance(stage, CompositeStage):
            changed = stage.with_({inner: _settings(values, place) for inner, values in wanted.items()})
            changed.decompose_and_apply_with()
            return changed
        return stage.with_(**_settings(wanted, place))
    except PipelineError as error:
        raise error if str(error).startswith(place) else PipelineError(f"{place}: {error}") from error


def _settings(wanted: Any, place: str) -> dict[str, Any]:
    if not isinstance(wanted, dict):
        raise PipelineError(f"{place}: 'with' must be a mapping of settings, not {_kind(wanted)}")
    for key in wanted:
        if key not in _WITH:
            raise PipelineError(f"{place}: 'with' has no setting {key!r}{nearest(str(key), _WITH)}")
    for key in ("batch_size", "num_workers"):
        if key in wanted and type(wanted[key]) is not int and wanted[key] is not None:
            raise PipelineError(f"{place}: {key}={wanted[key]!r} must be a whole number")
    if "resources" not in wanted:
        return dict(wanted)
    return {**wanted, "resources": _call(Resources, "Resources", wanted["resources"], place)}


def _object(name: str, arguments: Any, place: str) -> Any:
    """What a name stands for, made with its arguments where it is a class."""
    thing = _lookup(name, place)
    if arguments is None and not isinstance(thing, type) and name not in presets.__all__:
        return thing
    return _call(thing, name, {} if arguments is None else arguments, place)


def _lookup(name: str, place: str) -> Any:
    module_name, colon, attribute = name.partition(":")
    if not colon:
        for home in (dcurate, presets):
            if name in home.__all__:
                return getattr(home, name)
        close = difflib.get_close_matches(name, [public for public in dcurate.__all__ if public[0].isupper()], n=1)
        mend = f"did you mean {close[0]!r}?" if close else f"write a class of your own as package.module:{name}"
        raise PipelineError(f"{place}: dcurate has no {name!r}; {mend}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PipelineError(f"{place}: module {module_name!r} cannot be imported: {error}") from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        public = [known for known in vars(module) if not known.startswith("_")]
        raise PipelineError(
            f"{place}: module {module_name!r} has no {attribute!r}{nearest(attribute, public)}"
        ) from error


def _call(thing: Any, name: str, arguments: Any, place: str) -> Any:
    """Call a class or factory after checking its arguments by name."""
    if not isinstance(arguments, dict):
        raise PipelineError(f"{place}: {name} takes a mapping of arguments to values, not {_kind(arguments)}")
    if not callable(thing):
        raise PipelineError(f"{place}: {name} is {_kind(thing)}, which takes no arguments")
    try:
        parameters = inspect.signature(thing).parameters
    except ValueError as error:
        raise PipelineError(
            f"{place}: {name} does not tell its arguments; wrap it in a function of your own"
        ) from error
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in arguments:
        if key not in named and not takes_any:
            raise PipelineError(f"{place}: {name} has no argument {key!r}{nearest(str(key), named)}")
    missing = [key for key, parameter in named.items() if parameter.default is parameter.empty and key not in arguments]
    if missing:
        raise PipelineError(f"{place}: {name} needs {listed(missing)}")
    values = {key: _argument(value, place) for key, value in arguments.items()}
    try:
        return thing(**values)
    except (DcurateError, TypeError, ValueError) as error:
        raise PipelineError(f"{place}: {' '.join(str(error).split())}") from error


def _argument(value: Any, place: str) -> Any:
    """An argument, with the objects described in it made."""
    if isinstance(value, list):
        return [_argument(inner, place) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, arguments = next(iter(value.items()))
        describes = isinstance(name, str) and (_CLASS.fullmatch(name) is not None or name in presets.__all__)
        if describes and (arguments is None or isinstance(arguments, dict) or name in dcurate.__all__):
            return _object(name, arguments, place)
    return {key: _argument(inner, place) for key, inner in value.items()}


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise PipelineError(f"{place} must be text, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    """What a value is, in a reader's words.

    Examples:
        >>> _kind([1]), _kind({}), _kind(None), _kind(3)
        ('a list', 'a mapping', 'nothing', '3')
    """
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "nothing" if value is None else repr(value)
