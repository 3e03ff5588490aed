"""Fingerprints of public stages and filters stay as they are: runs that were begun by an earlier version resume."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import dcurate
import dcurate.text
from dcurate import CompositeStage, DcurateError, SinkStage, SourceStage
from dcurate.core.fingerprint import fingerprint
from dcurate.core.public import find_public, homes
from dcurate.core.stage import Stage
from dcurate.text import DocumentFilter, DocumentModifier
from tests.test_new_columns import stages

PINS = Path(__file__).with_suffix(".json")
#: What readers and writers must be given.
PATHS = {"file_paths": "in", "path": "out"}

#: Settings that do not decide the rows, or are left out while they have their default; and why.
LEFT_OUT = {
    **dict.fromkeys(
        (
            *("cache_dir", "catalog", "file_paths", "index_path", "mode", "model_dir", "path", "report_path"),
            *("client", "hf_token", "storage_options"),
        ),
        "where it is read and written, and with what rights",
    ),
    **dict.fromkeys(
        (
            *("blocksize", "compile", "device", "frames", "has_seq_order", "max_batch_tokens", "reading"),
            *("min_agreement", "model_inference_batch_size", "sort_by_length", "startup_s", "texts_per_request"),
        ),
        "how fast it is",
    ),
    **dict.fromkeys(("classifier", "images_field", "text", "text_models"), "left out by default, as it came later"),
    **dict.fromkeys(("padding_side", "unk_token"), "what the model's stage gets, not which tokens"),
    "source_field": "what the report counts by",
    "limit": "how many splits are read",
    "label": "of a writer, which rows of earlier runs are replaced",
}

#: Bases of filters of one's own.
ABSTRACT = (dcurate.text.NumberFilter,)


def parts() -> dict[str, Any]:
    """Public stages, filters and modifiers as they are by default, and some with settings."""
    made: dict[str, Any] = {}
    for name, stage in stages():
        if type(stage).__module__.startswith("dcurate.download."):  # it asks which dump is the newest
            continue
        number = sum(key.partition("-")[0] == name for key in made)
        made[f"{name}-{number}" if number else name] = stage
    for name in homes():
        kind = find_public(name)
        if not inspect.isclass(kind) or inspect.isabstract(kind):
            continue
        if kind in ABSTRACT or not issubclass(kind, SourceStage | SinkStage | DocumentFilter | DocumentModifier):
            continue
        needed = [parameter.name for parameter in inspect.signature(kind).parameters.values() if _is_needed(parameter)]
        try:
            made[name] = kind(**{parameter: PATHS[parameter] for parameter in needed})
        except (DcurateError, KeyError):  # it needs something else
            continue
    return made


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def pinned(part: Any) -> dict[str, str]:
    """The fingerprint of a stage or filter, and a digest of the defaults of its fields."""
    if isinstance(part, CompositeStage):
        pipeline: list[Any] = list(part.decompose_and_apply_with())
    elif isinstance(part, DocumentFilter):
        pipeline = [dcurate.ScoreFilter(part)]
    else:
        pipeline = [part if isinstance(part, Stage) else dcurate.Modify(part)]
    defaults = sorted(
        f"{field.name}={field.default if field.default_factory is dataclasses.MISSING else field.default_factory()}"
        for field in (dataclasses.fields(part) if dataclasses.is_dataclass(part) else ())
        if field.init and field.repr and field.default is not dataclasses.MISSING
    )
    digest = hashlib.blake2b("\n".join(defaults).encode(), digest_size=8).hexdigest()
    return {"fingerprint": " ".join(fingerprint(pipeline).values()), "defaults": digest}


def changes() -> dict[str, str]:
    """What is not as the pins say, by name."""
    known, now = json.loads(PINS.read_text()), {name: pinned(part) for name, part in parts().items()}
    said = dict.fromkeys(now.keys() - known.keys(), "is not pinned")
    said |= dict.fromkeys(known.keys() - now.keys(), "is pinned and not there")
    return said | {
        name: ", ".join(f"{key} changed" for key, value in known[name].items() if now[name][key] != value)
        for name in now.keys() & known.keys()
        if now[name] != known[name]
    }


def test_fingerprints_are_as_they_are_pinned() -> None:
    """Runs that were begun before a fingerprint changed do not resume; if a default changed, they resume wrongly.

    A new field with a default changes `defaults` alone, which is as it should be. Where a change is wanted, say in
    CHANGELOG.md that such runs do not resume, and pin it with ``python -m tests.test_pinned_fingerprints``.
    """
    assert changes() == {}, "pin it with `python -m tests.test_pinned_fingerprints` if the change is wanted"


def test_every_setting_is_in_the_fingerprint_or_does_not_decide_the_rows() -> None:
    missing = {
        f"{name}.{field.name}"
        for name, part in parts().items()
        if dataclasses.is_dataclass(part)
        for field in dataclasses.fields(part)
        if field.init and field.name not in LEFT_OUT
        if field.name not in (part.settings() if isinstance(part, Stage) else vars(part))
    }
    assert missing == set(), "have settings() return it; if it does not decide the rows, add it to LEFT_OUT here"


if __name__ == "__main__":
    PINS.write_text(json.dumps({name: pinned(part) for name, part in sorted(parts().items())}, indent=0) + "\n")
