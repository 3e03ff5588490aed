"""Filters that use your own fastText model: quality and language."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.text import TextColumn, column_of
from dcurate.text.fasttext import FastTextModel, compile_kernels
from dcurate.text.filter import DocumentFilter, Mask, Scores, Share, SignalFilter
from dcurate.text.signals import Signals

_LABEL = "__label__"


class _FastTextFilter(DocumentFilter):
    """Path and loading of the model, shared by all fastText filters."""

    paths = ("model",)
    model: str | os.PathLike[str] | None
    _model: FastTextModel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise PipelineError(f"{type(self).__name__}: no model; give the path of a fastText model (.bin, .ftz)")

    def model_check_or_download(self) -> None:
        if not os.path.isfile(self.model or ""):
            raise DataError(
                f"{type(self).__name__}: no fastText model at {os.fspath(self.model or '')!r}; "
                "put it there on every host, or give the path where it is"
            )
        compile_kernels()

    def load_model(self) -> None:
        self.model_check_or_download()
        vars(self)["_model"] = FastTextModel.load(os.fspath(self.model or ""))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_model"}

    def loaded(self) -> FastTextModel:
        """The model, loaded on first use."""
        if self._model is None:
            self.load_model()
        assert self._model is not None
        return self._model


@dataclass(frozen=True)
class FastTextQualityFilter(_FastTextFilter, SignalFilter):
    """Keep texts that a model scores high, and a random few that it scores low (GPT-3's rule, Brown et al., 2020).

    The score is the probability of the label (of two labels, 1 less that of the other where the other is likelier:
    fastText's do not quite add up to 1). A text stays if a draw from a Pareto distribution is above
    1 - score, so that few with a low score do. The draw follows from score and seed alone: a text has the same
    fate in every run, on every worker, and so have texts with equal scores. (NeMo Curator draws from NumPy's global
    generator, with other results in each run.)

    Args:
        model: a supervised fastText model, ``.bin`` or ``.ftz``; it must be there on every host.
        label: the model's label of texts of high quality.
        alpha: shape of the distribution; the larger, the fewer texts with a low score stay.
        seed: another one gives other draws.

    Raises:
        PipelineError: no ``model``, ``alpha`` not above 0, or the model has no such label.
        DataError: the file does not exist, or it is not a fastText model.

    Examples:
        >>> rule = FastTextQualityFilter("quality.bin")
        >>> rule.keep_document(1.0), sum(rule.keep_document(0.1 + step / 1e6) for step in range(1000))
        (True, 144)
    """

    model: str | os.PathLike[str] | None = None
    label: str = "__label__hq"
    alpha: float = 3
    seed: int = 42
    _name = "fasttext_quality_filter"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.alpha > 0:
            raise PipelineError(f"{self.name}: alpha={self.alpha} must be above 0")

    def score(self, signals: Signals) -> Scores:
        model = self.loaded()
        if self.label not in model.labels:
            raise PipelineError(
                f"{self.name}: the model has no label {self.label!r}; it has {listed(sorted(model.labels))}"
            )
        wanted = model.labels.index(self.label)
        if _LABEL.encode() in signals.column.data.tobytes():
            column = _without_labels(signals)
            predictions = model.classify(*column, np.arange(len(column)), wanted)
        else:
            predictions = signals.of(model.classify, wanted)
        if len(model.labels) != 2:
            return predictions.wanted
        return np.where(
            (predictions.label == wanted) | (predictions.label < 0), predictions.wanted, 1 - predictions.probability
        )

    def keep(self, scores: Scores) -> Mask:
        return np.array([self._keeps(float(score)) for score in np.atleast_1d(scores)], np.bool_).reshape(scores.shape)

    def _keeps(self, score: float) -> bool:
        drawn = blake2b(f"{score!r} {self.seed}".encode(), digest_size=8).digest()
        uniform = (int.from_bytes(drawn, "little") >> 11) / 2**53
        return score >= 1 or uniform < (2 - score) ** -self.alpha


def _without_labels(signals: Signals) -> TextColumn:
    """The texts without words that fastText would read as labels."""
    return column_of(text.replace(_LABEL.encode(), b" ") for text in signals.encoded())


@dataclass(frozen=True)
class FastTextLanguageFilter(_FastTextFilter):
    """Keep texts whose language your own model identifies with enough confidence, optionally of one language.

    The score is a text, ``[probability, label]``, such as ``"[0.98, 'en']"``.

    Args:
        model: a supervised fastText model whose labels are languages, such as lid.176 (``__label__en``) or
            GlotLID (``__label__eng_Latn``); it must be there on every host.
        min_langid_score: the least probability.
        language: the language wanted, in any case; ``eng`` matches ``eng_Latn`` too, ``eng_Latn`` only itself.
            Any language by default.

    Raises:
        PipelineError: no ``model``.
        DataError: the file does not exist, or it is not a fastText model.

    Examples:
        >>> rule = FastTextLanguageFilter("lid.bin", language="eng")
        >>> [rule.keep_document(score) for score in ("[0.9, 'eng_Latn']", "[0.9, 'fra_Latn']", "[0.2, 'eng_Latn']")]
        [True, False, False]
    """

    model: str | os.PathLike[str] | None = None
    min_langid_score: Share = 0.3
    language: str | None = None
    _name = "lang_id"

    def score_document(self, text: str) -> str:
        return self.score_documents([text])[0]

    def score_documents(self, texts: list[str]) -> list[str]:
        model = self.loaded()
        column = column_of(text.strip().encode(errors="surrogatepass") for text in texts)
        predictions = model.classify(*column, np.arange(len(texts)))
        names = [*(label.removeprefix(_LABEL) for label in model.labels), "und"]  # the last one for unknown texts
        pairs = zip(predictions.probability.tolist(), predictions.label, strict=True)
        return [str([probability, names[label]]) for probability, label in pairs]

    def keep_document(self, score: Any) -> bool:
        probability, language = _parsed(score)
        if probability < self.min_langid_score:
            return False
        wanted, predicted = (self.language or "").casefold(), language.casefold()
        return not wanted or wanted == (predicted if "_" in wanted else predicted.partition("_")[0])


def _parsed(score: Any) -> tuple[float, str]:
    try:
        probability, language = ast.literal_eval(score)
        return float(probability), str(language)
    except (ValueError, TypeError, SyntaxError) as error:
        raise DataError(f"lang_id: {score!r} is not a score such as \"[0.98, 'en']\"") from error
