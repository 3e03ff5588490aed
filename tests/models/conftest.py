"""Fixtures of the models room: tiny models in folders, and a hub that serves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dcurate_testing.hub_server import Hub, hub_server
from tests.models import tiny


@pytest.fixture(scope="session")
def classifiers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with a tiny classifier, by architecture."""
    folder = tmp_path_factory.mktemp("classifiers")
    return {name: tiny.tiny_classifier(folder / name, architecture=name) for name in tiny.ARCHITECTURES}


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with a tiny encoder, by architecture."""
    folder = tmp_path_factory.mktemp("encoders")
    return {name: tiny.tiny_encoder(folder / name, architecture=name) for name in tiny.ARCHITECTURES}


@pytest.fixture
def hub(classifiers: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with ``org/tiny`` and, for those with a token, ``org/gated``; this process asks it and no other."""
    models = {"org/tiny": classifiers["bert"], "org/gated": classifiers["bert"]}
    with hub_server(models, {"org/gated"}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub
