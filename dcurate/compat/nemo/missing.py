"""Names of NeMo Curator that dcurate does not have: they can be imported, and using one says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from dcurate.errors import PipelineError


class MissingError(PipelineError, NotImplementedError):
    """A name of NeMo Curator was used that is not in dcurate."""


class Missing(type):
    """The class of what is missing: a class that cannot be instantiated, and whose attributes cannot be read.

    What is missing may be a constant: using it as a value, such as a list, a number or a context, is refused, too.
    """

    _use: str

    def __call__(cls, *_args: Any, **_options: Any) -> NoReturn:
        raise MissingError(cls._use)

    def __getitem__(cls, item: Any) -> Missing:
        """The class itself: a generic one may be subclassed with its type, ``class Own(Missing[T])``."""
        if isinstance(item, int | slice):  # of a constant; Python itself counts upwards, and would never end
            raise MissingError(cls._use)
        return cls

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MissingError(cls._use)


def _refuse(cls: Missing, *_args: Any) -> NoReturn:
    raise MissingError(cls._use)


#: What Python calls by itself on a value. Left out is what it also does with classes: compare with ``==``, hash, print,
#: copy, and ``|`` in annotations.
_OF_VALUES = (
    *("iter", "next", "reversed", "contains", "len", "length_hint", "setitem", "delitem", "bool"),
    *("enter", "exit", "aenter", "aexit", "aiter", "anext", "await"),
    *("int", "float", "complex", "index", "bytes", "fspath", "buffer"),
    *("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "lt", "le", "gt", "ge"),
    *(f"{side}{name}" for side in ("", "r", "i") for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv")),
    *(f"{side}{name}" for side in ("", "r", "i") for name in ("mod", "pow", "lshift", "rshift", "and", "xor")),
    *("divmod", "rdivmod"),
)
for _name in _OF_VALUES:
    setattr(Missing, f"__{_name}__", _refuse)


def missing(module: str, name: str, use: str) -> Missing:
    """Stand in for `name` of `module`; `use` is what to do instead, or empty if it is yet to come.

    Examples:
        >>> missing("nemo_curator.tasks", "AudioTask", "it curates text")(data=[])
        Traceback (most recent call last):
        dcurate.compat.nemo.missing.MissingError: nemo_curator.tasks.AudioTask is not in dcurate: it curates text
        >>> "a" in missing("nemo_curator.utils", "ENDINGS", "")
        Traceback (most recent call last):
        dcurate.compat.nemo.missing.MissingError: nemo_curator.utils.ENDINGS is not in dcurate yet
    """
    sentence = f"{module}.{name} is not in dcurate" + (f": {use}" if use else " yet")
    return Missing(name, (), {"__module__": module, "__doc__": sentence, "_use": sentence})
