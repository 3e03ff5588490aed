"""Find the models that read pictures of text, and run them on one thread."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from dcurate.errors import PipelineError, ResourceError

#: Packages whose wheels hold models of PP-OCR. Their files are read; they are not imported.
PACKAGES = ("rapidocr", "rapidocr-onnxruntime")

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model.

    Args:
        detector: finds lines of text in a picture (PP-OCR ``det``).
        reader: reads one line (PP-OCR ``rec``).
        characters: the characters that `reader` knows, one a line; None if they are in its metadata.
    """

    detector: Path
    reader: Path
    characters: Path | None = None


def model_files(folder: str | Path | None = None) -> ModelFiles:
    """Find the models.

    Args:
        folder: with one file that matches ``*det*.onnx``, one ``*rec*.onnx``, and, if the reader's metadata does not
            hold its characters, one ``*.txt`` with them. None: those of the package `rapidocr` or
            `rapidocr-onnxruntime`, which need not be importable.

    Raises:
        ResourceError: neither package is installed.
        PipelineError: the folder does not have these files.
    """
    if folder is not None:
        return _in_folder(Path(folder))
    for package in PACKAGES:
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        models = {Path(str(file.locate())) for file in files if file.name.endswith(".onnx")}
        folders = sorted({path.parent for path in models if path.exists()})
        if folders:
            return _in_folder(folders[0])
    raise ResourceError(
        "OCR needs models: install them with pip install --no-deps rapidocr, or give the folder of PP-OCR models in "
        "ONNX format as models="
    )


def _in_folder(folder: Path) -> ModelFiles:
    characters = _matching(folder, "*.txt", needed=False)
    return ModelFiles(
        _matching(folder, "*det*.onnx")[0], _matching(folder, "*rec*.onnx")[0], characters[0] if characters else None
    )


def _matching(folder: Path, pattern: str, *, needed: bool = True) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if len(found) > 1 or (needed and not found):
        raise PipelineError(
            f"models={str(folder)!r} has {len(found)} files {pattern}, not {'one' if needed else 'one or none'}; "
            "give the folder of a detector and a reader of PP-OCR in ONNX format"
        )
    return found


def session(path: Path, threads: int = 1) -> Any:
    """Load an ONNX model on CPUs; the same input always gives the same output."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


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
