"""From a recipe to a pipeline."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import dcurate
from dcurate.core.public import folders_of_announced
from dcurate.core.resources import Resources
from dcurate.core.secrets import HidesSecrets, remember_secrets
from dcurate.core.spec import SPEC_FIELDS
from dcurate.core.stage import CompositeStage, Stage
from dcurate.errors import PipelineError, listed, nearest
from dcurate.recipe.objects import called, object_of
from dcurate.recipe.trust import check_values
from dcurate.recipe.values import check_size, filled, kind, parse, text_of, unmasked
from dcurate.text.yaml_values import yaml_text

_log = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent.parent / "bundled"
#: The bundled sample of documents.
SAMPLE = BUNDLED / "sample"
#: The bundled sample of files that are no documents of text yet: a PDF.
SAMPLE_FILES = BUNDLED / "documents"
#: The bundled sample of pictures: a shard of WebDataset.
SAMPLE_PICTURES = BUNDLED / "pictures"
#: The bundled sample of recordings.
SAMPLE_RECORDINGS = BUNDLED / "recordings"
#: The bundled sample of films.
SAMPLE_FILMS = BUNDLED / "films"

#: Names of files of rows, which are taken for recipes by mistake.
_DATA = re.compile(r"\.(jsonl|ndjson|parquet|csv|tsv|warc|wet|arc|tar|pdf)(\.(gz|bz2|xz|zst))?$", re.IGNORECASE)
_KEYS = ("name", "description", "params", "stages", "executor", "rejected", "proof")
_WITH = ("name", "resources", "batch_size", "num_workers", "overwrite", *SPEC_FIELDS)


@dataclass(frozen=True)
class Recipe(HidesSecrets):
    """A recipe with its params filled in, ready to run.

    Attributes:
        source: the file it was read from.
        pipeline: a `dcurate.Pipeline`.
        executor: settings for `dcurate.DaskExecutor`.
        rejected: where dropped rows are to be kept, or None.
        proof: whether a run leaves a proof of every row.
        params: the values that were filled in.
    """

    source: Path
    pipeline: Any
    executor: dict[str, Any]
    rejected: str | None
    proof: bool
    params: dict[str, Any]


@dataclass(frozen=True)
class RecipeInfo:
    """The description of a recipe that is known by a name; a param of None must be given."""

    name: str
    description: str
    params: dict[str, Any]
    path: Path


def bundled_recipes() -> tuple[RecipeInfo, ...]:
    """The recipes that come with dcurate, by name, and then those of packages that announce themselves.

    Of recipes that cannot be read, warnings say why.
    """
    recipes = []
    for name, path in _named_recipes().items():
        try:
            content = _read(path)
        except PipelineError as error:
            _log.warning("recipe %s is left out: %s", name, error)
            continue
        params = {param: unmasked(value) for param, value in (content.get("params") or {}).items()}
        recipes.append(RecipeInfo(name, content.get("description", ""), params, path))
    return tuple(recipes)


def _named_recipes() -> dict[str, Path]:
    """The files of recipes by their names; ``module:name`` for those of a package that announces the module."""
    named = {path.stem: path for path in sorted((BUNDLED / "recipes").glob("*.yaml"), key=lambda path: path.stem)}
    for module, folder in folders_of_announced().items():
        named |= {f"{module}:{path.stem}": path for path in sorted(folder.glob("recipes/*.yaml"))}
    return named


def load_recipe(path_or_name: str | Path, overrides: Mapping[str, Any] | None = None, *, trust: bool = False) -> Recipe:
    """Read a recipe from a file, or a bundled one by its name, and build its pipeline.

    Args:
        path_or_name: a YAML file, or a name that `bundled_recipes` lists.
        overrides: values for params of the recipe, taken as they are.
        trust: whether the recipe may run any code, as a program may: classes and functions of modules that are neither
            dcurate's nor announced by an installed package, code that comes with a model. If not, it still reads and
            writes all files and addresses that it names.

    Raises:
        PipelineError: the recipe does not exist, cannot be understood, or needs to be trusted; the sentence says where
            in it.

    Examples:
        >>> load_recipe("demo").pipeline.name
        'demo'
    """
    source = _find(path_or_name)
    content = _read(source)
    place = source.name
    param_values = dict(overrides or {})
    mode = None if "mode" in (content.get("params") or {}) else param_values.pop("mode", None)
    params = _params(content.get("params"), param_values, place)
    remember_secrets(params)
    name = text_of(content.get("name", source.stem), f"{place}: name")
    description = text_of(content.get("description", ""), f"{place}: description")
    stages = content.get("stages")
    if not isinstance(stages, list) or not stages:
        fix = "; begin each with '- '" if isinstance(stages, dict) else ""
        raise PipelineError(f"{place}: 'stages' must be a list of stages, each a class and its arguments{fix}")
    executor = filled(content.get("executor") or {}, params, f"{place}, executor")
    if not isinstance(executor, dict):
        raise PipelineError(f"{place}: 'executor' must be a mapping of settings, such as execution_mode: streaming")
    rejected = filled(content.get("rejected"), params, f"{place}, rejected")
    if not trust:
        check_values(rejected, f"{place}, rejected")
    proof = filled(content.get("proof", False), params, f"{place}, proof")
    if not isinstance(proof, bool):
        raise PipelineError(f"{place}: 'proof' must be true or false, not {kind(proof)}")
    built = [_stages(entry, params, f"{place}, stage {number}", trust) for number, entry in enumerate(stages, 1)]
    made = list(chain.from_iterable(built))
    if mode is not None:
        made[-1] = _with_mode(made[-1], mode, place)
    about = {"recipe": source.name, "params": {name: value for name, value in params.items() if name != "none"}}
    return Recipe(
        source=source,
        pipeline=dcurate.Pipeline(name, description or None, made, about),
        executor=executor,
        rejected=None if rejected is None else text_of(rejected, f"{place}: rejected"),
        proof=proof,
        params={name: params[name] for name in content.get("params") or {}},
    )


def _with_mode(writer: Stage, mode: Any, place: str) -> Stage:
    """Return a copy of the writer with another `mode`, for ``--set mode=...`` where a recipe has no such param.

    Raises:
        PipelineError: the recipe does not end with a writer that has modes, or there is no such mode.
    """
    if not hasattr(writer, "mode"):
        raise PipelineError(f"{place}: 'mode' is for a writer, and the recipe ends with {writer.name!r}; leave it out")
    changed = copy.copy(writer)
    vars(changed)["mode"] = mode
    try:
        getattr(changed, "__post_init__", lambda: None)()  # checks the mode
    except PipelineError as error:
        raise PipelineError(f"{place}: {error}") from error
    return changed


def _find(path_or_name: str | Path) -> Path:
    path = Path(path_or_name)
    if path.is_file() and _DATA.search(path.name):
        raise PipelineError(
            f"{str(path)!r} is data, not a recipe; name a recipe, and give it the data: dcurate run demo --input {path}"
        )
    if path.is_file():
        return path
    bundled = _named_recipes()
    if str(path_or_name) in bundled:
        return bundled[str(path_or_name)]
    if path.is_dir():
        raise PipelineError(f"{str(path)!r} is a directory; name the recipe file in it")
    raise PipelineError(
        f"{str(path)!r} is neither a recipe file nor the name of a bundled recipe{nearest(str(path), bundled)}"
    )


def _read(source: Path) -> dict[str, Any]:
    try:
        content = parse(yaml_text(source), source.name)
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"recipe {str(source)!r} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise PipelineError(f"{source.name}: a recipe is a mapping with 'stages', not {kind(content)}")
    for key in content:
        if key not in _KEYS:
            raise PipelineError(f"{source.name}: unknown key {key!r}{nearest(str(key), _KEYS)}")
    return content


def _params(declared: Any, overrides: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The value of every param; later ones may refer to earlier ones."""
    if not isinstance(declared or {}, dict):
        raise PipelineError(f"{place}: 'params' must be a mapping of names to defaults, not {kind(declared)}")
    defaults: dict[str, Any] = declared or {}
    for name in overrides:
        if name not in defaults:
            raise PipelineError(f"{place}: the recipe has no param {name!r}{nearest(name, map(str, defaults))}")
    values: dict[str, Any] = {"sample": str(SAMPLE), "none": None}
    for name, default in defaults.items():
        default_value = filled(default, values, f"{place}, param {name!r}")
        check_size(default_value, f"{place}, param {name!r}")
        values[name] = overrides.get(name, default_value)
        if values[name] is None and unmasked(default) != "${none}":
            raise PipelineError(f"{place}: param {name!r} has no default; give it with --set {name}=VALUE")
    return values


def _stages(entry: Any, params: Mapping[str, Any], place: str, trust: bool) -> list[Stage]:
    """The stage that an entry of ``stages`` describes; several if it is a rule set of stages."""
    entry = {entry: None} if isinstance(entry, str) else entry
    if not isinstance(entry, dict):
        raise PipelineError(f"{place}: a stage is a class and its arguments, not {kind(entry)}")
    classes = [key for key in entry if key != "with"]
    if len(classes) != 1:
        raise PipelineError(
            f"{place}: a stage is one class, but there are {listed(map(str, classes))}; "
            "indent arguments under their class"
        )
    name = str(classes[0])
    place = f"{place} ({name})"
    arguments = filled(entry[classes[0]], params, place)
    check_size(arguments, place)
    if not trust:
        check_values(arguments, place)
    stage = object_of(name, arguments, place, trust)
    if isinstance(stage, tuple) and all(isinstance(member, Stage) for member in stage):  # a rule set
        if "with" not in entry:
            return list(stage)
        raise PipelineError(f"{place}: 'with' is for one stage, and {name} is {len(stage)}; write them one by one")
    if not isinstance(stage, Stage):
        raise PipelineError(
            f"{place}: {name} is not a stage; put it inside one, as in ScoreFilter: {{filter_obj: {{{name}: {{...}}}}}}"
        )
    return [_adjusted(stage, filled(entry["with"], params, place), place) if "with" in entry else stage]


def _adjusted(stage: Stage, wanted: Any, place: str) -> Stage:
    """Apply the settings under ``with`` to a stage; those of a composite are by inner stage."""
    if not isinstance(wanted, dict):
        raise PipelineError(f"{place}: 'with' must be a mapping of settings, not {kind(wanted)}")
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
        raise PipelineError(f"{place}: 'with' must be a mapping of settings, not {kind(wanted)}")
    for key in wanted:
        if key not in _WITH:
            raise PipelineError(f"{place}: 'with' has no setting {key!r}{nearest(str(key), _WITH)}")
    for key in ("batch_size", "num_workers"):
        if key in wanted and type(wanted[key]) is not int and wanted[key] is not None:
            raise PipelineError(f"{place}: {key}={wanted[key]!r} must be a whole number")
    if "resources" not in wanted:
        return dict(wanted)
    return {**wanted, "resources": called(Resources, "Resources", wanted["resources"], place)}
