"""Rule sets by name: tuples of filters for `ScoreFilter`, and of stages where the text is changed.

Names load on first use, so that importing the package stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcurate.text.presets.c4_rules import c4 as c4
    from dcurate.text.presets.c4_rules import c4_filters as c4_filters
    from dcurate.text.presets.c4_rules import c4_paragraphs as c4_paragraphs
    from dcurate.text.presets.fineweb_rules import fineweb as fineweb
    from dcurate.text.presets.fineweb_rules import fineweb2 as fineweb2
    from dcurate.text.presets.fineweb_rules import fineweb_quality as fineweb_quality
    from dcurate.text.presets.gopher_rules import gopher as gopher
    from dcurate.text.presets.gopher_rules import gopher_quality as gopher_quality
    from dcurate.text.presets.gopher_rules import gopher_repetition as gopher_repetition
    from dcurate.text.presets.nemo_rules import nemo_english as nemo_english
    from dcurate.text.presets.nemo_rules import nemo_non_english as nemo_non_english
    from dcurate.text.presets.refinedweb_rules import refinedweb as refinedweb

#: Where each rule set lives.
_HOME = {
    "c4": "c4_rules",
    "c4_filters": "c4_rules",
    "c4_paragraphs": "c4_rules",
    "fineweb": "fineweb_rules",
    "fineweb2": "fineweb_rules",
    "fineweb_quality": "fineweb_rules",
    "gopher": "gopher_rules",
    "gopher_quality": "gopher_rules",
    "gopher_repetition": "gopher_rules",
    "nemo_english": "nemo_rules",
    "nemo_non_english": "nemo_rules",
    "refinedweb": "refinedweb_rules",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the names of the table above, all strings


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dcurate.text.presets' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dcurate.text.presets.{_HOME[name]}"), name)
    globals()[name] = value
    return value
