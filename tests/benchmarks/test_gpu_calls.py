"""What dcurate uses of the libraries for GPUs exists in them, with the arguments that it gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.device import stage, wheels
from dcurate_testing.gpu_calls import SOURCES, Use, refused, resolved, uses

SIGNATURES = json.loads(wheels.RECORD.read_text("utf-8"))["signatures"]
#: As its class and its function would be found; others are found in it.
MODULE = """
import importlib

def run(rows):
    library = importlib.import_module("cupy")
    first = library.asarray(rows, dtype="float32").sum(axis=1)
    return library.asaray(rows), library.asarray(row=first), first.argmax(0)
"""


def test_all_that_is_used_of_the_libraries_was_found_in_them() -> None:
    """`make check-wheels` looks in the libraries themselves; those that are not installed here are recorded by it."""
    found = [use for use in uses(wheels.ROOT) if not use.name.startswith("torch.")]
    assert refused(found, SIGNATURES) == []
    assert set(SIGNATURES) == {use.name for use in found}


def test_what_is_used_of_torch_is_there() -> None:
    names = {use.name for use in uses(wheels.ROOT) if use.name.startswith("torch.")}
    assert {"torch.cuda.Stream.wait_event", "torch.cuda.set_per_process_memory_fraction"} <= names
    for name in names:
        resolved(name)


def test_no_module_that_imports_a_library_is_passed_over() -> None:
    read = {use.place.partition(":")[0] for use in uses(wheels.ROOT)}
    libraries = ("numba.cuda", "cupy", "cudf", "pylibcudf", "dask_cuda", "pynvml")
    imported = {
        path.relative_to(wheels.ROOT).as_posix()
        for source in SOURCES
        for path in [*(wheels.ROOT / source).rglob("*.py"), wheels.ROOT / source]
        if path.suffix == ".py" and any(f'import_module("{name}' in path.read_text("utf-8") for name in libraries)
    }
    assert "dcurate/kernels/cuda.py" in imported
    assert imported <= read


def test_a_name_and_an_argument_that_a_library_does_not_have_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    monkeypatch.setattr("dcurate_testing.gpu_calls.SOURCES", ["module.py"])
    found = [use for use in uses(tmp_path) if use.place != "beside"]
    assert Use("module.py:7", "cupy.ndarray.argmax", (1, ())) in found
    wrong = refused(found, SIGNATURES)
    assert len(wrong) == 3
    assert {one.split(": ", 2)[1] for one in wrong} == {
        "cupy.asaray is not among the names that were recorded",
        "cupy.asarray",
    }


def test_the_record_is_written_as_it_is_read() -> None:
    record = json.loads(wheels.RECORD.read_text("utf-8"))
    assert wheels.recorded(record["versions"], record["signatures"]) == wheels.RECORD.read_text("utf-8")
    assert list(SIGNATURES) == sorted(SIGNATURES)


def test_the_signatures_are_those_of_the_wheels_that_are_carried() -> None:
    versions = json.loads(wheels.RECORD.read_text("utf-8"))["versions"]
    carried = dict(pin.split("==") for pin in stage.pins(stage.LISTS))
    image = stage.pins([Path(stage.__file__).with_name("image.txt")])
    for name, version in versions.items():
        assert carried.get(name, version) == version
        assert name in carried or any(line.partition("==")[0] == name for line in image)


def test_the_image_has_a_numpy_that_the_wheels_replace() -> None:
    """Else nothing shows that they do: the image's NumPy is one that numba-cuda refuses."""
    image = stage.pins([Path(stage.__file__).with_name("image.txt")])
    assert "numpy==2.5.2" in image
    assert not any(pin.startswith("torch") for pin in image)
