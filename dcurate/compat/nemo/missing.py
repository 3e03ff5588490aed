"""Names of NeMo Curator that dcurate does not have: they can be imported, and using one says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from dcurate.errors import PipelineError


class MissingError(PipelineError, NotImplementedError):
    """A name of NeMo Curator was used that is not in dcurate."""


class Missing(type):
    """The class of what is missing: a class that cannot be instantiated, and whose attributes cannot be read."""

    _use: str

    def __call__(cls, *_args: Any, **_options: Any) -> NoReturn:
        raise MissingError(cls._use)

    def __getitem__(cls, item: Any) -> Missing:
        """The class itself: a generic one may be subclassed with its type, ``class Own(Missing[T])``."""
        return cls

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MissingError(cls._use)


def missing(module: str, name: str, use: str) -> Missing:
    """Stand in for `name` of `module`; `use` is what to do instead, or empty if it is yet to come.

    Examples:
        >>> missing("nemo_curator.tasks", "AudioTask", "it curates text")(data=[])
        Traceback (most recent call last):
        dcurate.compat.nemo.missing.MissingError: nemo_curator.tasks.AudioTask is not in dcurate: it curates text
    """
    sentence = f"{module}.{name} is not in dcurate" + (f": {use}" if use else " yet")
    return Missing(name, (), {"__module__": module, "__doc__": sentence, "_use": sentence})
