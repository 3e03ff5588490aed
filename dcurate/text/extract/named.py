"""Extractors by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.errors import PipelineError, listed, nearest
from dcurate.text.extract.algorithms import (
    HTMLExtractorAlgorithm,
    JusTextExtractor,
    ResiliparseExtractor,
    TrafilaturaExtractor,
)
from dcurate.text.extract.structure import DcurateExtractor

#: Extractors by name, with settings that score well on English articles and on pages of many languages alike
#: (docs/howto/web-pages.md).
_NAMED: Mapping[str, tuple[type[HTMLExtractorAlgorithm], Mapping[str, Any]]] = {
    "trafilatura": (
        TrafilaturaExtractor,
        {
            "required_stopword_density": 0.0,
            "deduplicate": False,
            "include_comments": False,
        },
    ),
    "resiliparse": (ResiliparseExtractor, {"required_stopword_density": 0.0}),
    "dcurate": (DcurateExtractor, {}),
    "justext": (
        JusTextExtractor,
        {"length_low": 50, "length_high": 200, "stopwords_low": 0.1, "stopwords_high": 0.2, "no_headings": True},
    ),
}


def extractor(
    algorithm: str | HTMLExtractorAlgorithm, settings: Mapping[str, Any] | None = None
) -> HTMLExtractorAlgorithm:
    """Resolve an extractor: by name, with changed settings, or an instance.

    Examples:
        >>> extractor("resiliparse", {"alt_texts": True})
        ResiliparseExtractor(required_stopword_density=0.0, main_content=True, alt_texts=True)

    Raises:
        PipelineError: an unknown name or setting.
    """
    if isinstance(algorithm, HTMLExtractorAlgorithm):
        if settings:
            raise PipelineError(
                f"algorithm_kwargs {listed(settings)} need an algorithm by name; pass them to the extractor itself"
            )
        return algorithm
    if not isinstance(algorithm, str) or algorithm not in _NAMED:
        raise PipelineError(f"unknown algorithm {algorithm!r}{nearest(str(algorithm), _NAMED)}")
    kind, best = _NAMED[algorithm]
    try:
        return kind(**{**best, **(settings or {})})
    except TypeError as error:
        raise PipelineError(f"algorithm={algorithm!r}: {error}; see {kind.__name__}") from error
