"""Rule sets by name: tuples of filters for `ScoreFilter`, and of stages where the text is changed.

`__init__.pyi` lists the names and the modules that define them; a name loads on first use.
"""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = list(__dir__())
