"""Recognizers supplied by a user, for names and other entities without rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dcurate.core.extras import needed
from dcurate.errors import ResourceError

#: Begin, end and label of something in a text; places are numbers of characters.
Entity: TypeAlias = tuple[int, int, str]
#: A function that finds entities in a text. If it has a method ``load_model``, this is called once per slot.
Recognizer: TypeAlias = Callable[[str], Iterable[Entity]]


@dataclass
class SpacyRecognizer:
    """Find names with a spaCy pipeline that you installed or trained.

    Args:
        model: the name of an installed pipeline such as ``"en_core_web_sm"``, or the folder of one.
        labels: mapping of spaCy's labels to entity names; entities with other labels are ignored.
        exclude: components of the pipeline that are not needed to find entities.

    Raises:
        ResourceError: spaCy or the pipeline is not installed; when it is loaded, on the worker.

    Examples:
        >>> SpacyRecognizer("de_core_news_sm", labels={"PER": "PERSON"}).labels
        {'PER': 'PERSON'}
    """

    model: str = "en_core_web_sm"
    labels: Mapping[str, str] = field(
        default_factory=lambda: {"PERSON": "PERSON", "PER": "PERSON", "GPE": "LOCATION", "LOC": "LOCATION"}
    )
    exclude: tuple[str, ...] = ("parser", "lemmatizer", "attribute_ruler")
    _pipeline: Any = field(default=None, init=False, repr=False, compare=False)

    def requires(self) -> dict[str, str]:
        """Return the library that it needs."""
        return {"spacy": "ner"}

    def load_model(self) -> None:
        """Load the pipeline."""
        spacy = needed("spacy", type(self).__name__, "ner")
        try:
            self._pipeline = spacy.load(self.model, exclude=list(self.exclude))
        except OSError as error:
            raise ResourceError(
                f"spaCy has no pipeline {self.model!r} here; install it: python -m spacy download {self.model}"
            ) from error

    def __call__(self, text: str) -> list[Entity]:
        if self._pipeline is None:
            self.load_model()
        self._pipeline.max_length = max(self._pipeline.max_length, len(text))
        entities = self._pipeline(text).ents
        return [(e.start_char, e.end_char, self.labels[e.label_]) for e in entities if e.label_ in self.labels]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pipeline": None}
