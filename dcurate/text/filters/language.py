"""The filter that keeps documents in some languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.core.part import check_texts
from dcurate.errors import DataError, PipelineError
from dcurate.text.extract.stop_words import short_code
from dcurate.text.filter import DocumentFilter, Share
from dcurate.text.identifier import Identifier

_CODE = re.compile("[a-z]{2,3}")


@dataclass(frozen=True)
class LanguageFilter(DocumentFilter):
    """Keep texts in some languages, above a minimum confidence; needs the ``lang`` extra.

    The score has two fields, ``language`` and ``score``, as `LanguageId` gives them in two columns.

    Args:
        languages: one code or several, as `LanguageId` gives them (ISO 639-1, 639-3 for languages without); by
            default all, so that only texts of unknown language are dropped.
        min_score: how sure it must be, from 0 to 1.
        max_chars: characters at the beginning of a text used to identify the language.

    Raises:
        PipelineError: a language is not a code, or ``max_chars`` is below 1.
        ResourceError: the ``lang`` extra is not installed.

    Examples:
        >>> rule = LanguageFilter(["en", "fr"], min_score=0.65)
        >>> score = rule.score_document("Je ne parle pas anglais.")
        >>> score["language"], rule.keep_document(score), rule.keep_document({"language": "en", "score": 0.5})
        ('fr', True, False)
    """

    languages: str | Sequence[str] | None = None
    min_score: Share = 0.3
    max_chars: int = 1000
    _name = "language"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.languages is not None and not isinstance(self.languages, str):
            check_texts(type(self).__name__, "languages", self.languages, "codes such as 'en' or ['en', 'ceb']")
        if self._wanted == ():
            raise PipelineError(f"{self.name}: no languages; name one at least, or leave it out for all")
        for code in self._wanted or ():
            if not _CODE.fullmatch(code):
                raise PipelineError(f"{self.name}: {code!r} is not a language code; use codes such as 'en' or 'ceb'")
            if short_code(code):
                raise PipelineError(f"{self.name}: {code!r} is written as {short_code(code)!r} here")
        if self.max_chars < 1:
            raise PipelineError(f"{self.name}: max_chars={self.max_chars} must be at least 1")

    def requires(self) -> dict[str, str]:
        return {"pycld2": "lang"}

    def model_check_or_download(self) -> None:
        Identifier(self.max_chars).identify("a")  # compiles the kernels

    def load_model(self) -> None:
        vars(self)["_identifier"] = Identifier(self.max_chars)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_identifier"}

    def score_document(self, text: str) -> dict[str, Any]:
        return self.score_documents([text])[0]

    def score_documents(self, texts: list[str]) -> list[dict[str, Any]]:
        if "_identifier" not in vars(self):
            self.load_model()
        return [dict(guess._asdict()) for guess in vars(self)["_identifier"].identify_all(texts)]

    def keep_document(self, score: Any) -> bool:
        if not isinstance(score, Mapping) or not {"language", "score"} <= score.keys():
            raise DataError(f"{self.name}: {score!r} is not a score; it has fields 'language' and 'score'")
        language, sure = score["language"], score["score"]
        wanted = language != "und" if self._wanted is None else language in self._wanted
        return bool(wanted and sure >= self.min_score)

    @property
    def _wanted(self) -> tuple[str, ...] | None:
        if self.languages is None:
            return None
        return (self.languages,) if isinstance(self.languages, str) else tuple(self.languages)
