"""Arguments that have other names in NeMo Curator, or had in 25.09."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

#: Of classifiers; one without a name since then has no effect.
CLASSIFIERS: dict[str, str | None] = {
    "pred_column": "label_field",
    "prob_column": "score_field",
    "raw_pred_column": "raw_output_field",
    "keep_raw_pred": "keep_raw_output",
    "padding_side": None,
}
#: Of all built-in classes, where dcurate has one argument for one thing: `docs/reference/names.md`.
ARGUMENTS: dict[str, str | None] = {
    "model_identifier": "model",
    "base_model_identifier": "base_model",
    "model_name": "model",
    "model_path": "model",
    "hf_model_name": "tokenizer",
    "path_to_tokenizer": "tokenizer",
    "random_state": "seed",
    "kmeans_random_state": "seed",
    "identification_batchsize": "identification_batch_size",
    "float_score_column": "float_score_field",
    "int_score_column": "int_score_field",
    "translation_column": "translation_field",
    "add_filename_column": "add_filename_field",
    "base_delay": "base_delay_s",
    "timeout": "timeout_s",
    "lang": "language",
    "source_lang": "source_language",
    "target_lang": "target_language",
    "faith_model_name": "faith_model",
}


def earlier_names(**names: str | None) -> Callable[[Any], Any]:
    """Have a class take arguments by their earlier names, too, if it has those that replace them.

    Args:
        names: the present name of each; None for an argument without effect.

    The attributes have the earlier names, too.

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
            kept = {name: value for name, value in named.items() if name not in renamed}
            for name in renamed.keys() & named.keys():
                present, value = renamed[name], named[name]
                if present is not None and (value is not None or present not in kept):
                    kept[present] = value
            begin(self, *args, **kept)

        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in renamed]
        vars(__init__)["__signature__"] = signature.replace(
            parameters=sorted([*known, *added], key=lambda parameter: parameter.kind)
        )
        kind.__init__ = __init__
        for old, new in renamed.items():
            if new is not None and not hasattr(kind, old):
                setattr(kind, old, _attribute(new))
        return kind

    return decorate


def _attribute(name: str) -> property:
    """An attribute that is another one."""

    def write(self: Any, value: Any) -> None:
        setattr(self, name, value)

    return property(lambda self: getattr(self, name), write)
