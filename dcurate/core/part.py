"""The base class of stages and of their filters and modifiers: checks arguments."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

from dcurate.core.packages import checks_arguments
from dcurate.core.secrets import HidesSecrets
from dcurate.errors import PipelineError, nearest, shown

#: Arguments of pandas, and what readers and writers here call them.
_PANDAS = {
    "columns": "fields",
    "usecols": "fields",
    "nrows": "limit",
    "sep": "delimiter",
    "delim": "delimiter",
    "quotechar": "quote",
    "escapechar": "escape",
    "dtype": "schema",
    "dtypes": "schema",
    "on_bad_lines": "on_bad_line",
    "filters": "filter",
}


class Part(HidesSecrets):
    """A stage, filter or modifier. Refuses an unknown argument and names the most similar one.

    Attributes:
        held_by: the stage that takes such an object; empty for a stage.

    Examples:
        >>> class Longer(Part):
        ...     def __init__(self, least_words=3):
        ...         pass
        >>> Longer(least_word=3)
        Traceback (most recent call last):
        TypeError: Longer() takes no argument 'least_word'; did you mean 'least_words'?
    """

    held_by: ClassVar[str] = ""
    #: Whether any recipe may make an object of a public class: it runs no code that a recipe could bring.
    in_recipes: ClassVar[bool] = True
    #: Arguments named like one column or path that take several.
    several: ClassVar[tuple[str, ...]] = ()
    #: Arguments that may be paths, besides those whose names say so.
    paths: ClassVar[tuple[str, ...]] = ()
    #: Whether rows are among the arguments, which are not checked then.
    takes_rows: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Accept classes that define `light`, the earlier name of `cheap_setup`."""
        super().__init_subclass__(**kwargs)
        if "light" in vars(cls):
            warnings.warn(f"{cls.__name__}.light is now cheap_setup; rename it", DeprecationWarning, stacklevel=2)
            setattr(cls, "cheap_setup", vars(cls)["light"])  # noqa: B010 - it is not declared here

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        names = _arguments(cls.__init__) if kwargs else None
        unknown = [] if names is None else [name for name in kwargs if name not in names]
        if unknown:
            meant = _PANDAS.get(unknown[0])
            suggested = nearest(meant or "", [meant]) if meant in (names or ()) else nearest(unknown[0], names or ())
            raise TypeError(f"{cls.__name__}() takes no argument {unknown[0]!r}{suggested}")
        if not cls.takes_rows and checks_arguments(cls):
            check_arguments(cls.__name__, _given(cls.__init__, args, kwargs), cls.several, cls.paths)
        return super().__new__(cls)

    def requires(self) -> dict[str, str]:
        """Return the libraries that it needs from extras of dcurate: top-level module to extra.

        They are looked for before workers start, so name them if your stage needs some: ``{"torch": "models"}``.
        """
        return {}

    def overrides(self, one: str, many: str) -> bool:
        """Whether the class has a method for one document below that for many: the latter is not for this class then.

        Examples:
            >>> from dcurate.text import WordCountFilter
            >>> class Twice(WordCountFilter):
            ...     def score_document(self, text):
            ...         return 2 * super().score_document(text)
            >>> WordCountFilter().overrides("score_document", "score"), Twice().overrides("score_document", "score")
            (False, True)
        """
        for kind in type(self).__mro__:
            if one in vars(kind) or many in vars(kind):
                return many not in vars(kind)
        return False


#: Arguments that name a column; not those that say whether to add, keep or drop one.
_COLUMN = re.compile(r"(?!(add|keep|drop)_)(.*_(field|col|column)|column)")
#: Arguments that are files or folders, and other text.
_PATHS = frozenset(
    ["path", "ids_to_remove_path", "index_path", "report_path", "download_dir", "cache_dir", "model_dir"]
)
#: Arguments of these that may be None, also where they have no default.
_OPTIONAL = frozenset(
    [
        "report_path",
        "index_path",
        "cache_dir",
        "model_dir",
        "id_field",
        "source_field",
        "loss_ranges_field",
    ]
)
_TEXTS = frozenset(["name", "prefix", "model", "aegis_variant", "language", "separator"])
#: Classes of rows, by the package that has them.
_ROWS = {
    "pandas": {"DataFrame", "Series"},
    "pyarrow": {"Table", "RecordBatch", "Array", "ChunkedArray"},
    "polars": {"DataFrame", "LazyFrame", "Series"},
    "cudf": {"DataFrame", "Series"},
    "dask": {"DataFrame", "Series"},
    "datasets": {"Dataset", "IterableDataset", "DatasetDict"},
    "dcurate": {"DocumentBatch"},
}


def check_arguments(
    what: str, arguments: Mapping[str, Any], several: Sequence[str] = (), paths: Sequence[str] = ()
) -> None:
    """Refuse rows where settings are wanted, and names of columns and paths that are not text.

    Args:
        what: the class that is made.
        arguments: the arguments by name.
        several: arguments named like one column or path that take several.
        paths: arguments that may be paths, besides those whose names say so.

    Raises:
        PipelineError: names the argument.

    Examples:
        >>> check_arguments("AddId", {"id_field": 3})
        Traceback (most recent call last):
        dcurate.errors.PipelineError: AddId: id_field=int 3 is not the name of a column; give it as text
    """
    for name, value in arguments.items():
        if _is_rows(value) or (isinstance(value, list | tuple) and value and _is_rows(value[0])):
            raise PipelineError(
                f"{what}: {name}= is {shown(value)}, and a stage takes no rows when it is made; give them to the run: "
                "pipeline.run(initial_tasks=frame)"
            )
        if isinstance(value, str) or (name in several and isinstance(value, list | tuple)):
            continue
        if _COLUMN.fullmatch(name):
            names = " nor a list of names" if name in several else ""
            raise PipelineError(f"{what}: {name}={shown(value)} is not the name of a column{names}; give it as text")
        if name in _PATHS or name in paths:
            if not isinstance(value, os.PathLike):
                raise PipelineError(f"{what}: {name}={shown(value)} is not a path; give it as text")
        elif name in _TEXTS:
            raise PipelineError(f"{what}: {name}={shown(value)} is not text")


def check_kind(what: str, argument: str, value: Any, kind: type) -> None:
    """Refuse an argument that is not an object of a class.

    Raises:
        PipelineError: it is not.
    """
    if not isinstance(value, kind):
        raise PipelineError(
            f"{what}: {argument}={shown(value)} is not a {kind.__name__}; give an object of a class made of it"
        )


def check_texts(what: str, argument: str, value: Any, wanted: str) -> None:
    """Refuse an argument that is not a collection of texts.

    Args:
        what: the class that is made.
        argument: its name.
        value: what was given.
        wanted: what to give.

    Raises:
        PipelineError: it is one text or a mapping, or holds something else.

    Examples:
        >>> check_texts("LanguageFilter", "languages", 3, "codes such as 'en'")
        Traceback (most recent call last):
        dcurate.errors.PipelineError: LanguageFilter: languages=int 3 is not a list of texts; give codes such as 'en'
    """
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if not is_list or not all(isinstance(text, str) for text in value):
        raise PipelineError(f"{what}: {argument}={shown(value)} is not a list of texts; give {wanted}")


def _is_rows(value: Any) -> bool:
    kind = type(value)
    package = kind.__module__.partition(".")[0].partition("_")[0]
    return kind.__name__ in _ROWS.get(package, ())


def _given(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name; without None where an argument may be None."""
    _, *parameters = _parameters(function)
    places = (
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )
    arguments = {**dict(zip(places, args, strict=False)), **kwargs}
    needed = {
        parameter.name
        for parameter in parameters
        if parameter.name not in _OPTIONAL and (parameter.default is parameter.empty or _is_text(parameter))
    }
    return {name: value for name, value in arguments.items() if value is not None or name in needed}


def _is_text(parameter: inspect.Parameter) -> bool:
    """Whether an argument with a text as its default must not be None; the name of a column may be."""
    column = _COLUMN.fullmatch(parameter.name) and parameter.name != "text_field"
    return isinstance(parameter.default, str) and not column


@cache
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


@cache
def _arguments(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The arguments that may be given by name; None if any may."""
    _, *parameters = _parameters(function)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )


def wrapping(value: Any) -> str:
    """The end of an error sentence that says which stage takes an object; empty if that is not known.

    Examples:
        >>> from dcurate.text import WordCountFilter
        >>> wrapping(WordCountFilter()), wrapping(WordCountFilter), wrapping(3)
        ('; wrap it: ScoreFilter(WordCountFilter(...))', '; wrap it: ScoreFilter(WordCountFilter(...))', '')
    """
    kind = value if isinstance(value, type) else type(value)
    if not (issubclass(kind, Part) and kind.held_by):
        return ""
    return f"; wrap it: {kind.held_by}({kind.__name__}(...))"
