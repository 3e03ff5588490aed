"""Small models in the layouts of the published ones, made once."""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass

import pytest

from tests.models.classifiers import checkpoints


@dataclass(frozen=True)
class Published:
    """Folders of models."""

    quality: str
    prompts: str
    scorer: str
    llama: str
    adapter: str
    guard: str


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A small model for each architecture that the classifiers have."""
    folder = tmp_path_factory.mktemp("published")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft's, about transformers
        llama = checkpoints.language_model(folder / "llama")
        adapter = checkpoints.adapter(folder / "adapter", llama)
    gc.freeze()  # a stage that ends looks for garbage, which takes long among all that Torch brought
    return Published(
        str(checkpoints.hub_classifier(folder / "quality", ["High", "Medium", "Low"])),
        str(checkpoints.hub_prompts(folder / "prompts")),
        str(checkpoints.regressor(folder / "scorer")),
        str(llama),
        str(adapter),
        str(checkpoints.guard_head(folder / "guard")),
    )
