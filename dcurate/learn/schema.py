"""Label schemas: the labels that a text can get, in YAML, and the JSON Schema of an answer with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import yaml

from dcurate.errors import PipelineError, listed, nearest
from dcurate.text.yaml_values import reason_of, yaml_text, yaml_values

ENUMERATION, SCALE, FLAG = "enumeration", "scale", "flag"
TYPES = (ENUMERATION, SCALE, FLAG)

#: Folder of the schemas that come with dcurate.
_PRESETS = Path(__file__).parent / "schemas"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_WHOLE = re.compile(r"-?[0-9]{1,9}")
#: Columns of a labels file that are not labels.
_TAKEN = ("text", "id", "url")
#: Most labels of a schema, values of an enumeration, levels of a scale, and characters of a value.
_MOST_LABELS, _MOST_VALUES, _MOST_LEVELS, _LONGEST_VALUE = 200, 1000, 101, 100
#: Keys that a label of each type may have in YAML, besides those of all labels.
_KEYS = {ENUMERATION: ("values",), SCALE: ("min", "max", "levels"), FLAG: ()}


@dataclass(frozen=True)
class Label:
    """A label of a text: one value of an enumeration, a whole number of a scale, or a flag.

    Args:
        name: name of the label and of its column; a letter or ``_``, then letters, digits and ``_``.
        type: ``"enumeration"``, ``"scale"`` or ``"flag"``.
        description: what the label says about a text, for the judge.
        values: values of an enumeration, each with its description (which may be empty).
        min: lowest number of a scale.
        max: highest number of a scale.
        levels: descriptions of numbers of a scale.
        examples: pairs of a text and its value.

    Raises:
        PipelineError: a name that a column cannot have, an unknown type, too few values, or an example with a value
            that the label does not have.

    Examples:
        >>> label = Label("quality", "scale", "How well the text is written.", min=1, max=5)
        >>> label.problem(3), label.problem(7)
        ('', 'is 7, not a whole number from 1 to 5')
    """

    in_recipes: ClassVar[bool] = True

    name: str
    type: str
    description: str
    values: Mapping[str, str] = field(default_factory=dict)
    min: int = 0
    max: int = 5
    levels: Mapping[int, str] = field(default_factory=dict)
    examples: Sequence[tuple[str, str | int | bool]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise PipelineError(
                f"label {self.name!r}: a label needs a name of letters, digits and _ that does not begin with a digit, "
                f"other than {listed(_TAKEN)}"
            )
        if self.type not in TYPES:
            raise PipelineError(f"{self._where}: unknown type {self.type!r}{nearest(str(self.type), TYPES)}")
        if not isinstance(self.description, str) or not self.description.strip():
            raise PipelineError(f"{self._where} has no description; write what it says about a text")
        if self.type == ENUMERATION:
            self._check_values()
        if self.type == SCALE:
            self._check_scale()
        for text, value in self.examples:
            if not isinstance(text, str) or not text.strip():
                raise PipelineError(f"{self._where}: an example has no text; give text: and value:")
            if problem := self.problem(value):
                raise PipelineError(f"{self._where}: the value of an example {problem}")

    @property
    def _where(self) -> str:
        return f"label {self.name!r}"

    def _check_values(self) -> None:
        for value, description in self.values.items():
            if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_VALUE:
                raise PipelineError(
                    f"{self._where}: the value {value!r} is not a text of 1 to {_LONGEST_VALUE} characters; write "
                    "it in quotes"
                )
            if not isinstance(description, str):
                raise PipelineError(f"{self._where}: the description of value {value!r} must be text")
        if not 2 <= len(self.values) <= _MOST_VALUES:
            raise PipelineError(
                f"{self._where} has {len(self.values)} values; an enumeration needs 2 to {_MOST_VALUES:,}"
            )

    def _check_scale(self) -> None:
        for bound, number in (("min", self.min), ("max", self.max)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise PipelineError(f"{self._where}: {bound}={number!r} must be a whole number")
        if not 0 < self.max - self.min < _MOST_LEVELS:
            raise PipelineError(
                f"{self._where}: min={self.min} and max={self.max} must differ by 1 to {_MOST_LEVELS - 1}, with max "
                "above min"
            )
        for level, description in self.levels.items():
            if problem := self.problem(level):
                raise PipelineError(f"{self._where}: the level {level!r} {problem}")
            if not isinstance(description, str):
                raise PipelineError(f"{self._where}: the description of level {level!r} must be text")

    def problem(self, value: object) -> str:
        """What is wrong with a value of this label, in words; empty if nothing is."""
        if self.type == FLAG:
            return "" if isinstance(value, bool) else f"is {_cut(value)}, neither true nor false"
        if self.type == ENUMERATION:
            if isinstance(value, str) and value in self.values:
                return ""
            return f"is {_cut(value)}, not one of {listed(self.values)}"
        is_level = isinstance(value, int) and not isinstance(value, bool) and self.min <= value <= self.max
        return "" if is_level else f"is {_cut(value)}, not a whole number from {self.min} to {self.max}"

    def of_text(self, text: str) -> str | int | bool:
        """Return the value that a person wrote; the text itself if it is none.

        Examples:
            >>> Label("ad", "flag", "It sells.").of_text("True")
            True
        """
        if self.type == FLAG:
            return {"true": True, "false": False}.get(text.lower(), text)
        return int(text) if self.type == SCALE and _WHOLE.fullmatch(text) else text

    @property
    def json_property(self) -> dict[str, Any]:
        """The label as a property of a JSON Schema."""
        kinds: dict[str, dict[str, Any]] = {
            ENUMERATION: {"type": "string", "enum": list(self.values)},
            SCALE: {"type": "integer", "minimum": self.min, "maximum": self.max},
            FLAG: {"type": "boolean"},
        }
        return kinds[self.type]

    @property
    def instruction(self) -> str:
        """The label as a judge reads it: name, values, description and examples."""
        allowed = {
            ENUMERATION: "one of the values below",
            SCALE: f"a whole number from {self.min} to {self.max}",
            FLAG: "true or false",
        }[self.type]
        described: Mapping[Any, str] = self.values if self.type == ENUMERATION else self.levels
        lines = [f"{self.name} ({allowed}): {self.description.strip()}"]
        lines += [
            f"  - {value}: {text.strip()}" if text.strip() else f"  - {value}" for value, text in described.items()
        ]
        lines += [f"  Example: {text.strip()!r} -> {_as_json(value)}" for text, value in self.examples]
        return "\n".join(lines)


@dataclass(frozen=True)
class LabelSchema:
    """The labels that a text gets.

    Args:
        name: name of the schema.
        labels: at least one; no two have the same name.
        description: the task, in a sentence or two that come first in the prompt of a judge.

    Raises:
        PipelineError: no labels, or two with one name.

    Examples:
        >>> schema = LabelSchema.load("quality")
        >>> schema.columns, schema.json_schema()["properties"]["quality"]
        (['quality'], {'type': 'integer', 'minimum': 1, 'maximum': 5})
    """

    in_recipes: ClassVar[bool] = True

    name: str
    labels: Sequence[Label]
    description: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        if not 1 <= len(self.labels) <= _MOST_LABELS:
            raise PipelineError(f"schema {self.name!r} has {len(self.labels)} labels; give 1 to {_MOST_LABELS}")
        for name in self.columns:
            if self.columns.count(name) > 1:
                raise PipelineError(f"schema {self.name!r} has two labels {name!r}; rename one")

    @staticmethod
    def presets() -> list[str]:
        """Return the names of the schemas that come with dcurate."""
        return sorted(path.stem for path in _PRESETS.glob("*.yaml"))

    @classmethod
    def load(cls, source: str | Path) -> LabelSchema:
        """Read a schema.

        Args:
            source: name of a preset (see `presets`), or a YAML file.

        Raises:
            PipelineError: an unknown schema, or a mistake in it.
        """
        path = _PRESETS / f"{source}.yaml" if str(source) in cls.presets() else Path(source)
        if path.suffix not in (".yaml", ".yml"):
            names = cls.presets()
            raise PipelineError(
                f"unknown label schema {str(source)!r}{nearest(str(source), names)}; give a .yaml file, or one of "
                f"{listed(names)}"
            )
        try:
            values = yaml_values(yaml_text(path))
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError(f"the label schema {str(path)!r} cannot be read: {error}") from error
        except yaml.YAMLError as error:
            raise PipelineError(f"the label schema {str(path)!r} is not valid YAML: {reason_of(error)}") from error
        return cls.of(values, path.stem)

    @classmethod
    def of(cls, values: Any, name: str = "labels") -> LabelSchema:
        """Make a schema of the values of a YAML file.

        Args:
            values: a mapping with ``labels``, and optionally ``name`` and ``description``.
            name: name of the schema if the mapping has none.

        Raises:
            PipelineError: what is wrong in it.

        Examples:
            >>> flag = {"type": "flag", "description": "The page sells something."}
            >>> LabelSchema.of({"labels": {"ad": flag}}).columns
            ['ad']
        """
        if not isinstance(values, Mapping) or not isinstance(values.get("labels"), Mapping):
            raise PipelineError(
                f"label schema {name!r}: give a mapping labels: from the name of each label to its type and description"
            )
        _check_keys(f"label schema {name!r}", values, ("name", "description", "labels"))
        labels = [_label(label, about) for label, about in values["labels"].items()]
        return cls(_text(values, "name", name), labels, _text(values, "description", ""))

    @property
    def columns(self) -> list[str]:
        """The names of the labels, which are those of their columns."""
        return [label.name for label in self.labels]

    @cached_property
    def by_name(self) -> Mapping[str, Label]:
        """The labels by name."""
        return {label.name: label for label in self.labels}

    def json_schema(self, suffix: str = "") -> dict[str, Any]:
        """Return the JSON Schema of an answer: an object with a required property for each label.

        Args:
            suffix: end of the name of each property, for the columns of a second judge.
        """
        return {
            "type": "object",
            "properties": {label.name + suffix: label.json_property for label in self.labels},
            "required": [label.name + suffix for label in self.labels],
            "additionalProperties": False,
        }

    @property
    def instructions(self) -> str:
        """The labels as a judge reads them."""
        task = self.description.strip() or "Label the text."
        labels = "\n\n".join(label.instruction for label in self.labels)
        names = ", ".join(self.columns)
        return f"{task}\n\n{labels}\n\nAnswer with one JSON object that has exactly these properties: {names}."


def _label(name: Any, about: Any) -> Label:
    where = f"label {name!r}"
    if not isinstance(about, Mapping):
        raise PipelineError(f"{where} must be a mapping with type: and description:, not {_cut(about)}")
    kind = about.get("type")
    if kind not in TYPES:
        raise PipelineError(f"{where}: unknown type {kind!r}; give {listed(TYPES)}")
    _check_keys(where, about, ("type", "description", "examples", *_KEYS[kind]))
    settings = {key: about[key] for key in ("min", "max") if key in about}
    if kind == ENUMERATION:
        settings["values"] = _described(where, about.get("values"))
    if kind == SCALE:
        if missing := [key for key in ("min", "max") if key not in about]:
            raise PipelineError(f"{where}: a scale needs {listed(missing)}")
        levels = about.get("levels", {})
        if not isinstance(levels, Mapping):
            raise PipelineError(f"{where}: levels must be a mapping from numbers to their descriptions")
        settings["levels"] = dict(levels)
    return Label(name, kind, about.get("description", ""), examples=_examples(where, about), **settings)


def _described(where: str, values: Any) -> dict[Any, Any]:
    """The values of an enumeration: a list, or a mapping to their descriptions."""
    if isinstance(values, Mapping):
        return {value: "" if description is None else description for value, description in values.items()}
    if not isinstance(values, list) or any(isinstance(value, list | dict) for value in values):
        raise PipelineError(f"{where}: values must be a list, or a mapping from values to their descriptions")
    for value in values:
        if values.count(value) > 1:
            raise PipelineError(f"{where} has the value {value!r} twice; leave one out")
    return dict.fromkeys(values, "")


def _examples(where: str, about: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    examples = about.get("examples", [])
    if not isinstance(examples, list) or any(
        not isinstance(example, Mapping) or set(example) != {"text", "value"} for example in examples
    ):
        raise PipelineError(f"{where}: examples must be a list of mappings with text: and value:")
    return [(example["text"], example["value"]) for example in examples]


def _check_keys(where: str, values: Mapping[Any, Any], known: Sequence[str]) -> None:
    for key in values:
        if key not in known:
            raise PipelineError(f"{where} has no setting {key!r}{nearest(str(key), known)}")


def _text(values: Mapping[Any, Any], key: str, default: str) -> str:
    value = values.get(key, default)
    if not isinstance(value, str):
        raise PipelineError(f"label schema: {key}: must be text, not {_cut(value)}")
    return value


def _as_json(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _cut(value: object, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
