"""FineWeb's and FineWeb-2's rules on texts, as in datatrove (Penedo et al., 2024 and 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dcurate.core.stage import ProcessingStage
from dcurate.errors import PipelineError, listed, nearest
from dcurate.text.filter import SignalFilter
from dcurate.text.filters.fineweb import (
    FineWebDuplicateLinesFilter,
    FineWebLineEndsFilter,
    FineWebListFilter,
    FineWebShortLinesFilter,
)
from dcurate.text.presets.c4_rules import c4
from dcurate.text.presets.gopher_rules import datatrove_quality, datatrove_repetition, gopher
from dcurate.text.score import Filter, ScoreFilter
from dcurate.text.yaml_values import reason_of, yaml_text, yaml_values

Stages = tuple[ProcessingStage[Any, Any], ...]

#: What a file of FineWeb-2 says of a language.
_KEYS = (
    *("dup_line_frac", "dup_n_grams", "language_score", "line_punct_thr", "max_avg_word_length"),
    *("max_non_alpha_words_ratio", "min_avg_word_length", "new_line_ratio", "stopwords", "top_n_grams"),
)


def fineweb_quality() -> tuple[SignalFilter, ...]:
    """FineWeb's own rules on lines, with the thresholds of datatrove's ``FineWebQualityFilter``.

    Examples:
        >>> [rule.name for rule in fineweb_quality()]
        ['fineweb_line_ends', 'fineweb_short_lines', 'fineweb_duplicate_lines', 'fineweb_list']
    """
    return (
        FineWebLineEndsFilter(),
        FineWebShortLinesFilter(),
        FineWebDuplicateLinesFilter(),
        FineWebListFilter(),
    )


def fineweb(text_field: str = "text") -> Stages:
    """FineWeb's rules for extracted English text: Gopher, C4 without its rule on line endings, FineWeb's own rules.

    Before it come the URL lists, extraction and ``en`` with a score above 0.65; after it MinHash and PII.

    Args:
        text_field: the column that is looked at and changed.

    Examples:
        >>> [stage.name for stage in fineweb()]
        ['gopher', 'c4', 'c4_lines', 'fineweb_quality']
    """
    return (
        ScoreFilter(list(gopher("datatrove")), text_field=text_field, name="gopher"),
        *c4("datatrove", end_marks=False, text_field=text_field),
        ScoreFilter(list(fineweb_quality()), text_field=text_field, name="fineweb_quality"),
    )


@dataclass(frozen=True)
class AtLeast:
    """Whether a score is at least the minimum.

    Examples:
        >>> AtLeast(0.5)(0.7)
        True
    """

    least: float

    def __call__(self, score: float | None) -> bool:
        return score is not None and score >= self.least


def fineweb2(
    config: str | Path | Mapping[str, Any],
    words: str = "english",
    language_score_field: str | None = None,
    text_field: str = "text",
) -> Stages:
    """FineWeb-2's rules for text of one language, with its thresholds.

    Args:
        config: a file as published by FineWeb-2 (``configs/fra_Latn.yml``), or its contents.
        words: how texts are split into words; ``spacy:fr`` and the like where spaCy is installed, as FineWeb-2 does.
        language_score_field: the column with the score of the language, to drop texts below ``language_score``.
        text_field: the column that is looked at.

    Raises:
        PipelineError: the file cannot be read, or a key is missing.

    Examples:
        >>> thresholds = {
        ...     "dup_line_frac": 0.264, "dup_n_grams": [[5, 0.15]], "language_score": 0.824, "line_punct_thr": 0.1,
        ...     "max_avg_word_length": 11, "max_non_alpha_words_ratio": 0.812, "min_avg_word_length": 2,
        ...     "new_line_ratio": 0.185, "stopwords": ["de", "la"], "top_n_grams": [[2, 0.161]]}
        >>> [stage.name for stage in fineweb2(thresholds, language_score_field="score")]
        ['language_score', 'gopher_repetition', 'fineweb_quality', 'gopher_quality']
    """
    limits = _limits(config)
    top, duplicate = ([(int(n), float(most)) for n, most in limits[key]] for key in ("top_n_grams", "dup_n_grams"))
    lengths = limits["min_avg_word_length"], limits["max_avg_word_length"]
    repetition = datatrove_repetition(limits["dup_line_frac"], top, duplicate, words)
    lines = (
        FineWebLineEndsFilter(limits["line_punct_thr"]),
        FineWebDuplicateLinesFilter(0.1),
        FineWebListFilter(limits["new_line_ratio"], words),
    )
    quality = datatrove_quality(lengths, limits["max_non_alpha_words_ratio"], limits["stopwords"], words)
    stages: Stages = (
        ScoreFilter(list(repetition), text_field=text_field, name="gopher_repetition"),
        ScoreFilter(list(lines), text_field=text_field, name="fineweb_quality"),
        ScoreFilter(list(quality), text_field=text_field, name="gopher_quality"),
    )
    if language_score_field is None:
        return stages
    return (Filter(AtLeast(limits["language_score"]), language_score_field, name="language_score"), *stages)


def _limits(config: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        limits: Any = config
    else:
        try:
            limits = yaml_values(yaml_text(config))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            reason = reason_of(error) if isinstance(error, yaml.YAMLError) else error
            raise PipelineError(f"FineWeb-2 thresholds {str(config)!r} cannot be read: {reason}") from error
    if not isinstance(limits, Mapping):
        raise PipelineError(f"FineWeb-2 thresholds are a mapping of {listed(_KEYS)}, not {type(limits).__name__}")
    for key in limits:
        if key not in _KEYS:
            raise PipelineError(f"FineWeb-2 thresholds have an unknown key {key!r}{nearest(str(key), _KEYS)}")
    missing = [key for key in _KEYS if key not in limits]
    if missing:
        raise PipelineError(
            f"FineWeb-2 thresholds have no {listed(missing)}; use another language's file as a template"
        )
    return limits
