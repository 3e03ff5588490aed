"""A sample of what a recipe reads, to run it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dcurate
from dcurate.recipe import SAMPLE, SAMPLE_FILES, SAMPLE_PICTURES, load_recipe


def run_on_sample(recipe: str, given: Mapping[str, Any], folder: str, trust: bool) -> None:
    """Run a recipe in this process on a sample of the kind that its reader takes; it writes into ``folder``.

    Args:
        recipe: its path, or the name of a bundled one.
        given: params; with an input among them, that is read and not a sample.
    """
    places = {"input": str(SAMPLE), "output": f"{folder}/out"}
    reader = load_recipe(recipe, {**places, **given}, trust=trust).pipeline.stages[0]
    if isinstance(reader, dcurate.PdfReader):
        places["input"] = str(SAMPLE_FILES)
    elif isinstance(reader, dcurate.WebDatasetReader):
        places["input"] = str(SAMPLE_PICTURES)
    loaded = load_recipe(recipe, {**places, **given}, trust=trust)
    loaded.pipeline.run(dcurate.InlineExecutor(), observers=[], examples=False)
