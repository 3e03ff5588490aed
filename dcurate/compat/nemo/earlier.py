"""Arguments that had other names in NeMo Curator 25.09."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

#: Of classifiers; one without a name since then has no effect.
CLASSIFIERS: dict[str, str | None] = {
    "pred_column": "label_field",
    "prob_column": "score_field",
    "float_score_column": "float_score_field",
    "int_score_column": "int_score_field",
    "raw_pred_column": "raw_output_field",
    "keep_raw_pred": "keep_raw_output",
    "padding_side": None,
}


def earlier_names(**names: str | None) -> Callable[[Any], Any]:
    """Have a class take arguments by their earlier names, too, if it has those that replace them.

    Args:
        names: the present name of each; None for an argument without effect.

    Examples:
        >>> @earlier_names(input_id_field="id_field")
        ... class Removal:
        ...     def __init__(self, id_field="id"):
        ...         self.id_field = id_field
        >>> Removal(input_id_field="key").id_field, Removal().id_field
        ('key', 'id')
    """

    def decorate(kind: Any) -> Any:
        begin = kind.__init__
        signature = inspect.signature(begin)
        known = list(signature.parameters.values())
        taken = {parameter.name for parameter in known}
        renamed = {old: new for old, new in names.items() if old not in taken and (new is None or new in taken)}
        if not any(renamed.values()):
            return kind

        @wraps(begin)
        def __init__(self: Any, *args: Any, **named: Any) -> None:  # noqa: N807
            kept = {renamed.get(name, name): value for name, value in named.items()}
            begin(self, *args, **{name: value for name, value in kept.items() if name is not None})

        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in renamed]
        vars(__init__)["__signature__"] = signature.replace(
            parameters=sorted([*known, *added], key=lambda parameter: parameter.kind)
        )
        kind.__init__ = __init__
        return kind

    return decorate
