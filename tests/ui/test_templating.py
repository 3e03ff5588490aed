"""Templates are kept as compiled, for the next process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import jinja2
import pytest

from dcurate.ui import templating


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled templates, where the package's own is read-only."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"dcurate-{os.getuid()}" / "templates"


def rendered() -> str:
    """A template in a new environment, as in another process."""
    return templating._environment.__wrapped__().get_template("page.css").render()


def test_a_template_is_compiled_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rendered()
    assert [*kept.glob("template-*.cache")]
    monkeypatch.setattr(jinja2.Environment, "compile", None)
    assert rendered() == first


@pytest.mark.parametrize("damage", [b"", b"j2", b"\xff" * 9])
def test_a_damaged_copy_is_made_again(kept: Path, damage: bytes) -> None:
    first = rendered()
    for path in kept.iterdir():
        path.write_bytes(damage or path.read_bytes()[:-9])
    assert rendered() == first


def test_a_full_disk_costs_the_copy_alone(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    assert rendered()
    assert not [*kept.iterdir()]
