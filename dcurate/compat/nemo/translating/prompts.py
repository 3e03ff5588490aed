"""Prompts in YAML files, with the placeholders of NeMo Curator's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dcurate.llm.faith import JUDGE, TO_JUDGE
from dcurate.llm.translate import TRANSLATE, TRANSLATOR
from dcurate.text.extract.stop_words import language_name

#: dcurate's prompts under the names of NeMo Curator's files.
_BUNDLED = {
    "translate.yaml": (
        TRANSLATOR,
        TRANSLATE.format(source_language="{source_lang}", target_language="{target_lang}", text="{src}"),
    ),
    "faith_eval.yaml": (
        JUDGE.replace("Give five marks", "Give the five marks of the FAITH metric"),
        TO_JUDGE.replace("{source}", "{source_text}").replace("{translation}", "{translated_text}"),
    ),
}


def load_prompt_template(filename_or_path: str | Path) -> tuple[str, str]:
    r"""The ``system`` prompt and the ``user`` template of a YAML file.

    Args:
        filename_or_path: path of a file; or ``"translate.yaml"`` or ``"faith_eval.yaml"``, for dcurate's own prompts.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: it is not YAML.
        TypeError: it holds something else than names and texts.
        KeyError: ``system`` or ``user`` is missing.

    Examples:
        >>> load_prompt_template("translate.yaml")[1][-22:]
        '\n\n{source_lang}: {src}'
    """
    bundled = _BUNDLED.get(str(filename_or_path))
    if bundled is not None:
        return bundled
    path = Path(filename_or_path)
    try:
        data: Any = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"Prompt template not found: {path}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"Malformed prompt template {path}: {error}") from error
    if not isinstance(data, dict):
        raise TypeError(f"Prompt template {path} must contain a top-level mapping, got {type(data).__name__}")
    missing = [name for name in ("system", "user") if name not in data]
    if missing:
        raise KeyError(f"Prompt template {path} is missing required keys: {missing}")
    return data["system"], data["user"]


def language(code: str) -> str:
    """The English name of a language, or the code itself."""
    return language_name(code) or code
