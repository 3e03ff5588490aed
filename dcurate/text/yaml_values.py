"""User-supplied YAML as plain values: bounded in length, depth and size before parsing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

#: Characters of a YAML text, levels of nesting, and characters and values once aliases are written out.
MAX_LENGTH, MAX_DEPTH, MAX_SIZE = 2**19, 50, 2**20
#: What one value counts for beside its characters.
_PER_VALUE = 16
#: Characters of a number; longer ones take time that grows with the square of their length.
_MAX_DIGITS = 400
#: Characters of an error that are shown.
_LONGEST = 200


class _Loader(yaml.SafeLoader):
    """YAML as read by `yaml.safe_load`, with bounds; duplicate keys are refused and ``1e-3`` is a number."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._size = 0
        self._unfinished: set[str | None] = set()
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        anchor = event.anchor
        if isinstance(event, yaml.AliasEvent):
            if anchor in self._unfinished:
                raise yaml.composer.ComposerError(None, None, f"anchor {anchor!r} refers to itself", mark)
            node = super().compose_node(parent, index)
            self._count(self._sizes.get(id(node), 0), mark)
            return node
        if self._depth >= MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"it is nested deeper than {MAX_DEPTH} levels", mark)
        before = self._size
        self._count(_PER_VALUE + len(getattr(event, "value", "")), mark)
        self._depth += 1
        self._unfinished.add(anchor)
        node = super().compose_node(parent, index)
        self._unfinished.discard(anchor)
        self._depth -= 1
        self._sizes[id(node)] = self._size - before
        return node

    def _count(self, size: int, mark: Any) -> None:
        self._size += size
        if self._size > MAX_SIZE:
            raise yaml.composer.ComposerError(
                None, None, f"with its aliases written out it is larger than {MAX_SIZE:,} characters", mark
            )

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A whole number or a float."""
        if len(node.value) > _MAX_DIGITS:
            raise yaml.constructor.ConstructorError(
                None, None, f"a number has {len(node.value):,} characters; text needs quotes", node.start_mark
            )
        is_integer = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if is_integer else self.construct_yaml_float(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is a duplicate key", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{kind}", _Loader.construct_number)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def reason_of(error: yaml.YAMLError) -> str:
    """A short description of a YAML error and its position.

    Examples:
        >>> try:
        ...     yaml_values("a: [")
        ... except yaml.YAMLError as error:
        ...     print(reason_of(error))
        line 1, column 5: expected the node content, but found '<stream end>'
    """
    mark = getattr(error, "problem_mark", None)
    reason = " ".join(str(getattr(error, "problem", None) or error).split())
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + (reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}...")


def yaml_text(path: str | Path) -> str:
    """The text of a YAML file, read only up to the length limit of `yaml_values`.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    with open(path, encoding="utf-8") as file:
        return file.read(MAX_LENGTH + 1)


def yaml_values(text: str) -> Any:
    """The values of a YAML text.

    It may have `MAX_LENGTH` characters and `MAX_DEPTH` levels, and `MAX_SIZE` characters with its aliases written out.

    Raises:
        yaml.YAMLError: it is not valid YAML, or beyond these bounds.

    Examples:
        >>> yaml_values("{a: 1e3, b: [x, 2]}")
        {'a': 1000.0, 'b': ['x', 2]}
        >>> yaml_values("&a [*a]")
        Traceback (most recent call last):
        ...
        yaml.composer.ComposerError: anchor 'a' refers to itself
          in "<unicode string>", line 1, column 5:
            &a [*a]
                ^
    """
    if len(text) > MAX_LENGTH:
        raise yaml.YAMLError(f"it is longer than {MAX_LENGTH:,} characters")
    try:
        return yaml.load(text, Loader=_Loader)
    except (ValueError, OverflowError) as error:  # a date that there is not, say
        raise yaml.YAMLError(str(error)) from error
