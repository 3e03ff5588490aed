"""Load and run models in ONNX format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.media import onnx

Floats = npt.NDArray[np.float32]


def session(path: Path, threads: int = 1) -> Any:
    """Load an ONNX model on CPUs; the same input always gives the same output.

    Raises:
        ResourceError: ONNX Runtime is not installed.
    """
    return onnx.session(path, "models in ONNX format", "images", threads=threads)


def run(model: Any, batch: Floats) -> Floats:
    """The first output of a model with one input."""
    result: Floats = model.run(None, {model.get_inputs()[0].name: batch})[0]
    return result


def alphabet(model: Any, file: Path | None) -> list[str]:
    """The characters by the number of the model's class: the first is the blank of CTC, the last a space.

    Raises:
        PipelineError: the model does not say them, and there is no file.
    """
    text = model.get_modelmeta().custom_metadata_map.get("character")
    if text is None and file is None:
        raise PipelineError("the reader has no list of its characters; put it beside the model as a .txt file")
    names = text.split("\n") if text is not None else file.read_text(encoding="utf-8").split("\n")  # type: ignore[union-attr]
    while names and not names[-1]:
        names.pop()
    return ["", *(name.rstrip("\r") for name in names), " "]
