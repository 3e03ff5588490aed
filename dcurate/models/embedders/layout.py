"""The folder of an embedding model: sentence-transformers' layout, read without that package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcurate.errors import DataError, listed, nearest

#: How the vectors of tokens become one, under the names of sentence-transformers.
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")

#: Layers that may follow the pooling.
LAYERS = ("Dense", "LayerNorm", "Normalize")

#: Of models of these kinds only the half that reads is wanted.
_READING_HALF = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
_SETTINGS = "sentence_*_config.json"
_LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class Layer:
    """A layer after the pooling.

    Args:
        kind: one of `LAYERS`.
        folder: folder of its weights.
        settings: contents of its ``config.json``.
    """

    kind: str
    folder: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EmbeddingSteps:
    """The steps from texts to embeddings.

    Args:
        encoder: the folder of the model that gives a vector for each token, and of its tokenizer.
        pooling: names from `POOLINGS`; the vectors of several are concatenated.
        pools_prompt: whether the tokens of the prompt count.
        layers: the layers after the pooling, in order.
        max_seq_length: tokens of a text at most, special ones included; None leaves it to the tokenizer.
        lower_case: whether to lower-case texts before the tokenizer.
        prompts: by name.
        default_prompt: the name of the one that is used where none is named.
    """

    encoder: str
    pooling: tuple[str, ...] = ("mean",)
    pools_prompt: bool = True
    layers: tuple[Layer, ...] = ()
    max_seq_length: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None

    def prompt(self, name: str | None = None) -> str:
        """The text inserted before each text.

        Args:
            name: name of one of ``prompts``; the default one if None, which may be none at all.

        Raises:
            DataError: there is no prompt of that name.

        Examples:
            >>> EmbeddingSteps("model", prompts={"query": "query: "}).prompt("query")
            'query: '
        """
        wanted = name or self.default_prompt
        if wanted is None:
            return ""
        if wanted not in self.prompts:
            raise DataError(
                f"the model in {self.encoder!r} has no prompt {wanted!r}"
                + (nearest(wanted, self.prompts) if self.prompts else "; give prompt=, the text itself")
            )
        return self.prompts[wanted]


def read_layout(folder: str) -> EmbeddingSteps:
    """Read the layout of a model's folder.

    A folder without ``modules.json`` holds a plain encoder; the mean of its tokens is the embedding then, or, where it
    is a language model, that of the last one, as sentence-transformers has it.

    Raises:
        DataError: a file that cannot be read, or a module that dcurate does not know.
    """
    place = Path(folder)
    if not (place / "modules.json").is_file():
        return EmbeddingSteps(folder, pooling=("lasttoken",) if _generates(place) else ("mean",))
    modules = [
        (str(module["type"]).rpartition(".")[2], place / module["path"]) for module in _json(place, "modules.json")
    ]
    kinds = [kind for kind, _ in modules if kind != "Dropout"]
    if kinds[:2] != ["Transformer", "Pooling"] or any(kind not in LAYERS for kind in kinds[2:]):
        raise DataError(
            f"the model in {folder!r} is made of {listed(kinds)}; dcurate reads Transformer, Pooling, then any of "
            f"{listed(list(LAYERS))}, so wrap this one in a stage of your own"
        )
    places = [path for kind, path in modules if kind != "Dropout"]
    settings = _settings(places[0])
    pooling, pools_prompt = _pooling(_json(places[1], "config.json"))
    config = _json(place, "config_sentence_transformers.json")
    return EmbeddingSteps(
        encoder=str(places[0]),
        pooling=pooling,
        pools_prompt=pools_prompt,
        layers=tuple(_layer(kind, path, folder) for kind, path in zip(kinds[2:], places[2:], strict=True)),
        max_seq_length=settings.get("max_seq_length"),
        lower_case=bool(settings.get("do_lower_case", False)),
        prompts=config.get("prompts") or {},
        default_prompt=config.get("default_prompt_name"),
    )


def positions(folder: str) -> int | None:
    """The maximum number of tokens for the encoder in a folder; None if unknown, or without positions."""
    config = _json(Path(folder), "config.json")
    most = config.get("max_position_embeddings")
    if not isinstance(most, int) or most < 1:
        return None
    if "roberta" in str(config.get("model_type")):  # their positions begin behind the number of the token for padding
        return most - int(config.get("pad_token_id") or 0) - 1
    return most


def encoder_class(folder: str) -> str:
    """The transformers class that gives a vector for each token with the model in a folder."""
    return _READING_HALF.get(str(_json(Path(folder), "config.json").get("model_type")), "AutoModel")


def _layer(kind: str, path: Path, folder: str) -> Layer:
    settings = _json(path, "config.json")
    of = {settings.get("module_input_name"), settings.get("module_output_name")} - {None, "sentence_embedding"}
    if of:
        raise DataError(
            f"{kind} of the model in {folder!r} works on {listed(sorted(of))}, not on the embedding of a text; "
            "wrap this model in a stage of your own"
        )
    return Layer(kind, str(path), settings)


def _pooling(settings: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """Return the poolings, and whether they include the prompt; accepts names of earlier releases."""
    named = settings.get("pooling_mode") or [mode for key, mode in _LEGACY.items() if settings.get(key)] or ["mean"]
    modes = (named,) if isinstance(named, str) else tuple(named)
    for mode in modes:
        if mode not in POOLINGS:
            raise DataError(
                f"unknown pooling {mode!r}{nearest(str(mode), POOLINGS)}; dcurate supports {listed(list(POOLINGS))}"
            )
    return modes, bool(settings.get("include_prompt", True))


def _settings(encoder: Path) -> dict[str, Any]:
    """The encoder's file; its name formerly contained the architecture."""
    first = encoder / "sentence_bert_config.json"
    for path in [first, *sorted(encoder.glob(_SETTINGS))]:
        if path.is_file():
            settings: dict[str, Any] = _json(path.parent, path.name)
            return settings
    return {}


def _generates(folder: Path) -> bool:
    """Whether the folder holds a language model, by its architecture."""
    return any(str(name).endswith("ForCausalLM") for name in _json(folder, "config.json").get("architectures") or ())


def _json(folder: Path, name: str) -> Any:
    """The contents of a JSON file, or nothing if there is no file: ``modules.json`` is a list, others are objects."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}; fetch the model again") from error
    if isinstance(contents, list if name == "modules.json" else dict):
        return contents
    raise DataError(f"{path} has unexpected contents; fetch the model again")
