"""Rule sets by name: tuples of filters for `ScoreFilter`, and of stages where the text is changed.

`__init__.pyi` lists the names and the modules that define them; a name loads on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
