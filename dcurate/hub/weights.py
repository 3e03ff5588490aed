"""Weights and tokenizers: their files, downloaded once per host, and errors if they are missing."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dcurate.core.extras import missing_dependency, needed
from dcurate.errors import DataError, DcurateError, PipelineError, ResourceError

#: The required part of a model: everything, or only the tokenizer, without weights.
Part = Literal["model", "tokenizer"]

#: Files of weights that Torch reads.
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
#: The same weights as other libraries read them, and folders that hold nothing else.
_FOREIGN = (".onnx", ".onnx_data", ".h5", ".msgpack", ".ot", ".tflite", ".gguf", ".mlmodel", ".pb", ".npz", ".engine")
_FOREIGN_FOLDERS = ("onnx", "openvino", "coreml", "original", "tf", "flax", "gguf", "metal")
#: Any one of these makes tokens.
_TOKENIZERS = {"tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "vocab.txt", "vocab.json"}
_TOKENIZERS |= {"spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer_config.json"}
#: Seconds after which a hub that says nothing counts as out of reach.
_PATIENCE_S = 10.0
_COMMIT = re.compile("[0-9a-f]{40}")
_OUT_OF_REACH = "fetch it where there is a network (hf download {0}), or give a local folder that has its files"


def named_after(identifier: str, suffix: str) -> str:
    """The name of a stage after its model, as in NeMo Curator.

    Examples:
        >>> named_after("org/Some-Model", "_tokenizer")
        'some_model_tokenizer'
    """
    return identifier.rstrip("/").split("/")[-1].replace("-", "_").lower() + suffix


@dataclass(frozen=True)
class Weights:
    """A model by its Hugging Face hub id, or by its folder.

    Args:
        identifier: an id such as ``"sentence-transformers/all-MiniLM-L6-v2"``, or a local folder.
        revision: a branch, a tag or, best, a commit of the hub; a commit that is on the host is not asked for again.
        cache_dir: where files of the hub are kept; by default where Hugging Face keeps them (``HF_HOME``).
        hf_token: for gated models; by default from ``hf auth login`` or ``HF_TOKEN``. Never shown.
        trust_remote_code: whether code that comes with the model may be run. For a model of the hub it needs a whole
            commit as `revision`, as branches, tags and abbreviated commits may name other code tomorrow.

    Raises:
        PipelineError: ``trust_remote_code`` for a model of the hub without the 40 hex digits of a commit.

    Examples:
        >>> Weights("org/model", hf_token="hf_secret")
        Weights(identifier='org/model', revision=None, cache_dir=None, trust_remote_code=False)
        >>> str(Weights("org/model", revision="v2"))
        "model 'org/model' at revision 'v2'"
    """

    identifier: str
    revision: str | None = None
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.revision is not None or not self._may_be_folder():
            self._check_pin()

    def __str__(self) -> str:
        return f"model {self.identifier!r}" + (f" at revision {self.revision!r}" if self.revision else "")

    def fetch(self, part: Part = "model") -> str:
        """The folder of the model, downloaded if necessary: called by ``setup_on_node``.

        Of several forms of the same weights only one that Torch reads is fetched, safetensors before pickles.

        Args:
            part: ``"tokenizer"`` leaves the weights where they are.

        Raises:
            DataError: the folder does not exist, or files are missing.
            ResourceError: the hub does not have it, does not give it, or cannot be reached.
        """
        if self._local() is not None:
            return self.folder(part)
        if self.revision and _COMMIT.fullmatch(self.revision):
            folder = self._cached()
            if folder is not None and not _missing_part(Path(folder), part):
                return folder
        return self._download(part)

    def folder(self, part: Part = "model") -> str:
        """The folder of the model on this host, without network access: called by ``setup``.

        Raises:
            DataError: the folder does not exist, or files are missing.
            ResourceError: it was not fetched to this host.
        """
        local = self._local()
        folder = local or self._cached()
        missing = _missing_part(Path(folder), part) if folder else None
        if missing and local:
            raise DataError(f"{self} is missing {missing} in {folder}; give a folder that save_pretrained wrote")
        if folder is None or missing:
            problem = f"{self} is on this host without {missing}" if missing else f"{self} is not on this host"
            raise ResourceError(f"{problem}; {_OUT_OF_REACH.format(self.identifier)}")
        return folder

    def refusal(self, error: Exception, folder: str) -> DcurateError:
        """The error to raise in place of a library's error about the folder."""
        text = str(error)
        first = text.strip().partition("\n")[0].rstrip(".") or type(error).__name__
        if isinstance(error, DcurateError):
            return error
        if isinstance(error, ImportError):
            return missing_dependency(str(self), first, "models")
        if "trust_remote_code" in text:
            pin = "" if self._may_be_folder() else ", with its commit as revision"
            advice = f"read it, then pass trust_remote_code=True to run it{pin}"
            return DataError(f"{self} comes with code of its own: {advice}")
        if type(error).__name__ in ("SafetensorError", "UnpicklingError", "EOFError") or "PytorchStreamReader" in text:
            return DataError(f"{self}: the weights in {folder} are damaged ({first}); delete them and fetch them again")
        if "ignore_mismatched_sizes" in text:
            hint = "copy it from the model, with as many labels as the model has outputs"
            return DataError(f"{self}: the weights in {folder} do not fit the sizes of its config.json; {hint}")
        if "does not recognize this architecture" in text or "Unrecognized model" in text:
            return DataError(f"{self} is of a kind that this transformers does not know; update transformers ({first})")
        return DataError(f"{self} cannot be loaded from {folder}: {first}")

    def check_code(self, folder: str) -> None:
        """Refuse code that `revision` does not pin because it is in another repository of the hub.

        Raises:
            DataError: a configuration in `folder` names such code, and it is trusted.
        """
        repository = _repository_of_code(Path(folder)) if self.trust_remote_code else None
        if repository:
            raise DataError(
                f"{self} takes its code from {repository!r}, whose revision is not pinned; read that code, put it into "
                f"a local copy of the model, and take '{repository}--' out of auto_map in its configuration"
            )

    def _check_pin(self) -> None:
        if self.trust_remote_code and not _COMMIT.fullmatch(self.revision or ""):
            raise PipelineError(
                f"{self}: with trust_remote_code=True, give revision all 40 hex digits of the commit that you read, "
                "or give a local folder as the model"
            )

    def _may_be_folder(self) -> bool:
        """Whether the identifier is a folder here, or no id of the hub looks like it."""
        path = os.path.expanduser(self.identifier)
        is_path = path.startswith((".", os.sep)) or path.count("/") > 1 or not path.strip()
        return is_path or os.path.isdir(path)

    def _local(self) -> str | None:
        """The folder, if the identifier names one; None if it is an id.

        Raises:
            DataError: it can only be a folder, and there is none.
            PipelineError: it is the id of a model whose code is trusted without a commit.
        """
        path = os.path.expanduser(self.identifier)
        if os.path.isdir(path):
            return os.path.abspath(path)
        if self._may_be_folder():
            hint = "give the id of a model at the Hugging Face hub, or a folder that every host has"
            raise DataError(f"{self}: no such folder on this host; {hint}")
        self._check_pin()
        return None

    def _cached(self) -> str | None:
        """The folder of the downloaded files."""
        hub = needed("huggingface_hub", str(self), "models")
        try:
            # Asked for no file at all: some were left out on purpose, and must not count as missing.
            folder: str = hub.snapshot_download(
                self.identifier,
                revision=self.revision,
                cache_dir=self.cache_dir,
                local_files_only=True,
                allow_patterns=["*/nothing"],
            )
        except (OSError, ValueError):  # not there; a name that cannot be an id is said by the hub when it is asked
            return None
        return folder

    def _download(self, part: Part) -> str:
        errors = needed("huggingface_hub.errors", str(self), "models")
        try:
            with silent_hub():
                folder = self._asked(part)
        except (errors.HFValidationError, errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
            raise _refused(self, error, errors) from error
        except (errors.HTTPError, OSError) as error:
            cached = self._cached()
            if cached is None or _missing_part(Path(cached), part):
                raise ResourceError(self._unreachable(error, errors)) from error
            folder = cached
        missing = _missing_part(Path(folder), part)
        if missing:
            raise DataError(f"{self} is missing {missing} at the hub; use another model, or another revision of it")
        return folder

    def _asked(self, part: Part) -> str:
        """The folder, after its files were listed at the hub and downloaded."""
        hub = needed("huggingface_hub", str(self), "models")
        endpoint = os.environ.get("HF_ENDPOINT")
        api = hub.HfApi(endpoint, token=self.hf_token)
        info = api.model_info(self.identifier, revision=self.revision, timeout=_PATIENCE_S)
        names = wanted([file.rfilename for file in info.siblings or ()], part)
        folder: str = hub.snapshot_download(
            self.identifier,
            revision=self.revision,
            cache_dir=self.cache_dir,
            token=self.hf_token,
            endpoint=endpoint,
            allow_patterns=[glob.escape(name) for name in names],
        )
        return folder

    def _unreachable(self, error: Exception, errors: Any) -> str:
        hint = _OUT_OF_REACH.format(self.identifier)
        if isinstance(error, errors.OfflineModeIsEnabled):
            return f"{self} is not on this host, and HF_HUB_OFFLINE forbids to fetch it; unset that, or {hint}"
        if isinstance(error, errors.HfHubHTTPError):
            status = error.response.status_code
            return f"{self} is not on this host, and the hub answered {status}; try again later, or {hint}"
        reason = str(error).partition("\n")[0] or type(error).__name__
        return f"{self} is not on this host, and the Hugging Face hub cannot be reached ({reason}); {hint}"


def wanted(names: Sequence[str], part: Part = "model") -> list[str]:
    """Return the files of a model to download from the hub.

    Examples:
        >>> wanted(["config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx", "tf_model.h5"])
        ['config.json', 'model.safetensors']
        >>> wanted(["config.json", "pytorch_model.bin", "tokenizer.json"], "tokenizer")
        ['config.json', 'tokenizer.json']
    """
    kept = [
        name
        for name in names
        if not name.endswith(_FOREIGN)
        and not (name.split("/")[0].lower() in _FOREIGN_FOLDERS and "/" in name)
        and not name.rpartition("/")[2].startswith((".", "consolidated."))
        and not (part == "tokenizer" and name.endswith(_WEIGHTS))
    ]
    safe = {name.rpartition("/")[0] for name in kept if name.endswith(".safetensors")}
    pickles = _WEIGHTS[1:]
    return [name for name in kept if not (name.endswith(pickles) and name.rpartition("/")[0] in safe)]


def _missing_part(folder: Path, part: Part) -> str | None:
    """The missing files of a folder, in words."""
    names = {path.name for path in folder.iterdir()}
    if part == "tokenizer":
        if "modules.json" in names:  # sentence-transformers had the encoder in a folder of its own once
            names |= {path.name for path in folder.glob("*/*")}
        return None if names & _TOKENIZERS else "a tokenizer (such as tokenizer.json)"
    if not names & {"config.json", "adapter_config.json", "modules.json"}:
        return "config.json"
    if not any(name.endswith(_WEIGHTS) for name in names) and not any(folder.glob("*/*.safetensors")):
        return "weights (such as model.safetensors)"
    kind = ".safetensors" if any(name.endswith(".safetensors") for name in names) else ".bin"
    for index in folder.glob(f"*{kind}.index.json"):
        missing = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()) - names)
        if missing:
            return f"{missing[0]!r}, which {index.name} names,"
    return None


def _repository_of_code(folder: Path) -> str | None:
    """The repository of the hub that a configuration in a folder takes code from, if it is not the model's."""
    for path in sorted(folder.glob("*config.json")):
        for classes in _values_of("auto_map", json.loads(path.read_bytes())):
            repository = re.search(r'"([^"]+?)--', json.dumps(classes))
            if repository:
                return repository[1]
    return None


def _values_of(name: str, value: Any) -> Iterator[Any]:
    """The values under a name, at any depth of a document of JSON."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and name in value:
        yield value[name]
    for inner in values:
        yield from _values_of(name, inner)


def _refused(weights: Weights, error: Exception, errors: Any) -> DcurateError:
    """The meaning of the hub's refusal, and what to do."""
    if isinstance(error, errors.GatedRepoError):
        ask = "accept its terms on its page at the hub, and pass hf_token= or set HF_TOKEN"
        return ResourceError(f"{weights} is gated: {ask}")
    if isinstance(error, errors.RevisionNotFoundError):
        hint = "its page at the hub lists branches, tags and commits"
        return DataError(f"the hub's model {weights.identifier!r} has no revision {weights.revision!r}; {hint}")
    return ResourceError(
        f"the hub has no {weights}, or does not show it to you; check the name, "
        "and pass hf_token= or set HF_TOKEN if it is private"
    )


@contextmanager
def silent_hub() -> Iterator[None]:
    """Context without progress bars of `huggingface_hub` in a log."""
    bars = needed("huggingface_hub.utils", "the Hugging Face Hub", "hub")
    drew = not bars.are_progress_bars_disabled()
    bars.disable_progress_bars()
    try:
        yield
    finally:
        if drew:
            bars.enable_progress_bars()
