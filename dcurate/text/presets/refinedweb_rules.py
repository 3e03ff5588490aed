"""RefinedWeb's rules on texts (Penedo et al., 2023), as reproduced by DCLM."""

from __future__ import annotations

from typing import Any

from dcurate.core.stage import ProcessingStage
from dcurate.text.modify import Modify
from dcurate.text.presets.gopher_rules import gopher
from dcurate.text.refinedweb import RefinedWebLines, RefinedWebRemovedFilter
from dcurate.text.score import ScoreFilter


def refinedweb(text_field: str = "text") -> tuple[ProcessingStage[Any, Any], ...]:
    """RefinedWeb's rules on extracted English text as stages: Gopher, then lines; drops texts that lose too much.

    Before it come the URL lists and ``en`` with a score of 0.65; DCLM also removes addresses and newlines beyond two
    (`UrlRemover` and `NewlineNormalizer` come near).

    Args:
        text_field: the column that is looked at and changed.

    Examples:
        >>> [stage.name for stage in refinedweb()]
        ['gopher', 'refinedweb_removed', 'refined_web_lines']
    """
    return (
        ScoreFilter(list(gopher("dclm")), text_field=text_field, name="gopher"),
        ScoreFilter(RefinedWebRemovedFilter(), text_field=text_field),
        Modify(RefinedWebLines(), text_field),
    )
