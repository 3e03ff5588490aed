"""Find the model files that read pictures of text; nothing of them is loaded here."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from dcurate.errors import PipelineError, ResourceError

#: Packages whose wheels hold models of PP-OCR. Their files are read; they are not imported.
PACKAGES = ("rapidocr", "rapidocr-onnxruntime")


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
    matches = sorted(folder.glob(pattern))
    if len(matches) > 1 or (needed and not matches):
        raise PipelineError(
            f"models={str(folder)!r} has {len(matches)} files {pattern}, not {'one' if needed else 'one or none'}; "
            "give the folder of a detector and a reader of PP-OCR in ONNX format"
        )
    return matches
