"""Check what an untrusted recipe may name and set: nothing that runs code of its own.

Everything is decided by names and plain values, before anything is called, and before anything is imported that is
neither dcurate's nor announced by an installed package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import fsspec

from dcurate.core.public import announces, find_public, homes
from dcurate.errors import PipelineError
from dcurate.text import presets

#: How a sentence that refuses something ends.
ADVICE = "give --trust, or trust=True in Python, if you trust this recipe as you would a program"

#: What stages take besides objects whose class says `in_recipes`: plain values, and the recogniser of names.
_HELPERS = (
    "AdaptiveDetector",
    "AnswerCache",
    "Bands",
    "Benchmark",
    "ClipLengths",
    "ContentDetector",
    "EndpointRecognizer",
    "EventRules",
    "FasterWhisperRecognizer",
    "FileReading",
    "FramePolicy",
    "GenerationConfig",
    "GradualDetector",
    "HuggingFaceRecognizer",
    "ImageClassifier",
    "HeldBack",
    "ImageReading",
    "KeepByFBeta",
    "KeepFraction",
    "KeepPrecision",
    "MinHash",
    "PocketSphinxRecognizer",
    "RemoteFile",
    "Resources",
    "Shingles",
    "SpacyRecognizer",
    "StageSpec",
    "TextFeatures",
    "ThresholdDetector",
    "Training",
    "TransNetV2Detector",
    "Transfer",
    "VideoReading",
)
#: Stores and archives that only read and write what is named. Others reach jobs of Dask, shells or servers of code.
_PROTOCOLS = frozenset(
    (
        *("file", "local", "memory", "data", "http", "https", "ftp", "sftp", "ssh", "smb", "webdav", "zip", "tar"),
        *("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "hf", "oci", "oss", "tos", "hdfs", "webhdfs"),
    )
)
_CLIENTS = ("OpenAIClient", "AsyncOpenAIClient")
_ADDRESS = re.compile(r"([A-Za-z][\w+.-]*)://")
#: Settings for the address or the credentials of requests, in letters alone. Stores and hubs send the
#: user's own tokens there, those of the environment and of files in the home directory.
_ROUTES = re.compile("endpoint|prox(y|ies)|mirror|accounthost|trustenv")
#: Options of stores that become a part of a host's name, and what they may be.
_HOST_PARTS, _HOST_PART = ("accountname", "region", "regionname", "location"), re.compile(r"[\w-]*")
#: Options that are sent, and are not addresses.
_SENT = ("headers", "cookies")
#: Addresses of this machine, for which no library sees another host.
_HERE = re.compile(r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?(/[\w./-]*)?", re.ASCII)


def public_name(name: str) -> str | None:
    """The public name that a name in a recipe refers to, if there is one; ``module:name`` if a package announces it.

    Examples:
        >>> public_name("WordCountFilter"), public_name("dcurate.text.filters.words:WordCountFilter")
        ('WordCountFilter', 'WordCountFilter')
        >>> public_name("dcurate.run:os"), public_name("dcurate:subprocess"), public_name("os:system")
        (None, None, None)
    """
    module, colon, attribute = name.rpartition(":")
    if announces(name):
        return name
    if attribute in homes():
        home, value = homes()[attribute], find_public(attribute)
    elif attribute in presets.__all__:
        home, value = presets.__name__, getattr(presets, attribute)
    else:
        return None
    return attribute if not colon or module in (home, getattr(value, "__module__", "")) else None


def may_be_made(public: str) -> bool:
    """Whether any recipe may make an object of a public name, of dcurate or of a package that announces it.

    Examples:
        >>> [may_be_made(name) for name in ("WordCountFilter", "gopher", "Shingles", "Pipeline", "profile")]
        [True, True, True, False, False]
    """
    if public in presets.__all__ or public in _HELPERS:
        return True
    thing = find_public(public)
    return isinstance(thing, type) and getattr(thing, "in_recipes", False)


def check_values(value: Any, place: str) -> None:
    """Refuse plain values that have a stage run code, or load it.

    Raises:
        PipelineError: there is such a value; begins with the place.
    """
    if isinstance(value, list):
        for inner in value:
            check_values(inner, place)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_setting(str(key), inner, place)
            if str(key).endswith(("options", "kwargs")):
                _check_routes(inner, place)
            if str(key).endswith("options"):
                _check_options(inner, place)
            check_values(inner, place)
    elif isinstance(value, str):
        _check_address(value, place)


def check_arguments(public: str, arguments: Mapping[str, Any], place: str) -> None:
    """Refuse arguments that have an object of dcurate run code, or send a key to whom the recipe names.

    Raises:
        PipelineError: there is such an argument; begins with the place.
    """
    if public == "SpacyRecognizer" and re.search(r"[^\w.-]", str(arguments.get("model", ""))):
        raise PipelineError(
            f"{place}: the folder of a spaCy pipeline may hold code; name an installed one, or {ADVICE}"
        )
    if public not in _CLIENTS:
        return
    if arguments.get("api_key_variable") is not None:
        raise PipelineError(f"{place}: api_key_variable has a variable of the environment sent to a server; {ADVICE}")
    url = arguments.get("base_url")
    if url is not None and arguments.get("api_key") is None and not _is_here(str(url)):
        raise PipelineError(
            f"{place}: base_url has the key in OPENAI_API_KEY sent to a server; give api_key, or {ADVICE}"
        )


def _check_setting(key: str, value: Any, place: str) -> None:
    if key == "trust_remote_code" and value not in (False, None):
        raise PipelineError(f"{place}: trust_remote_code runs code that comes with a model; {ADVICE}")
    if key == "catalog" and value is not None:
        raise PipelineError(f"{place}: a catalog may have code loaded, or tokens of yours sent to a server; {ADVICE}")
    if key.endswith("_init_kwargs") and value:
        raise PipelineError(f"{place}: {key} may have code loaded with a model; {ADVICE}")
    if key.endswith("protocol") and isinstance(value, str):
        _check_protocol(value, value, place)


def _check_routes(value: Any, place: str) -> None:
    """Refuse settings of a library for the address of its requests."""
    if isinstance(value, list):
        for inner in value:
            _check_routes(inner, place)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if _ROUTES.search(_letters(str(key))) and inner not in (False, None):
                raise PipelineError(f"{place}: {key} may have tokens and keys of yours sent to an address; {ADVICE}")
            _check_routes(inner, place)


def _check_options(value: Any, place: str) -> None:
    """Refuse options of a store that name an address: what the store sends there may be the user's own credentials."""
    if isinstance(value, list):
        for inner in value:
            _check_options(inner, place)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if _letters(str(key)) in _SENT:
            continue
        text = inner if isinstance(inner, str) else ""
        is_part = _letters(str(key)) in _HOST_PARTS
        if _HOST_PART.fullmatch(text) is None if is_part else "://" in text or text.startswith(("//", "\\\\")):
            raise PipelineError(f"{place}: {key} may have tokens and keys of yours sent to an address; {ADVICE}")
        _check_options(inner, place)


def _letters(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def _check_address(text: str, place: str) -> None:
    known = fsspec.available_protocols()
    for part in text.split("::"):
        if match := _ADDRESS.match(part):
            _check_protocol(match[1], text, place)
        elif part in known and part != text:
            _check_protocol(part, text, place)


def _check_protocol(protocol: str, text: str, place: str) -> None:
    if protocol.lower() not in _PROTOCOLS and protocol.lower() in fsspec.available_protocols():
        raise PipelineError(f"{place}: {protocol!r} in {text!r} is a kind of store that may run code; {ADVICE}")


def _is_here(url: str) -> bool:
    """Whether an address is of this machine."""
    return _HERE.fullmatch(url) is not None
