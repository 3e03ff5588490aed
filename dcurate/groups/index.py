"""An index of seen documents, with which later ones are compared without the texts of the earlier."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import PipelineError
from dcurate.fs.stores import Directory

#: Name of the file that says what is in an index.
INDEX = "index.json"
_FORMAT = 1


@dataclass(frozen=True)
class SeenDocuments(HidesSecrets):
    """A folder with the bands and the sets of shingles of documents that earlier runs have seen.

    Each run adds a *generation*, named after its output: a run that is done again replaces what it had added, in its
    place among the others. What a run adds counts from the moment on at which its duplicates are known.

    Args:
        url: the folder, on any store.
        options: fsspec's ``storage_options``.
        parameters: those of the search that what is remembered depends on; an index is of use for equal ones only.
    """

    url: str
    parameters: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Directory:
        """The folder of the index."""
        return Directory(self.url, self.options)

    def generation(self, output: str) -> Directory:
        """Return the folder for the additions of a run, by its output."""
        address = Directory(output, self.options).address
        name = hashlib.blake2b(address.encode(), digest_size=6).hexdigest()
        return Directory(self.folder.path(name), self.options)

    def begin(self, generation: Directory) -> None:
        """Check that the index fits the search, and empty the additions of an earlier run with the same output.

        Raises:
            PipelineError: it was made by another search.
            DataError: it cannot be read or written.
        """
        manifest = self._manifest()
        if manifest["generations"].get(_name(generation)):
            manifest["generations"][_name(generation)] = []
            self._write(manifest)

    def seen(self, generation: Directory) -> list[tuple[str, int]]:
        """The files of the generations before one, in their order, and how many documents each holds.

        Those after it, where a run is done again, do not count: they dropped copies of what it had added, which would
        then be kept by neither.
        """
        seen_files = []
        for name, files in self._manifest()["generations"].items():
            if name == _name(generation):
                break
            seen_files += [(self.folder.path(f"{name}/{file}"), documents) for file, documents in files]
        return seen_files

    def commit(self, generation: Directory, files: Sequence[tuple[str, int]]) -> None:
        """Add a generation: names of its files, and how many documents each holds."""
        manifest = self._manifest()
        manifest["generations"][_name(generation)] = list(files)
        self._write(manifest)

    def _manifest(self) -> dict[str, Any]:
        wanted = dict(self.parameters)
        data = self.folder.read(INDEX)
        if data is None:
            return {"format": _FORMAT, "parameters": wanted, "generations": {}}
        manifest: dict[str, Any] = orjson.loads(data)
        before = manifest["parameters"]
        changed = [name for name in wanted if before.get(name) != wanted[name]]
        if changed:
            differences = ", ".join(f"{name}={before.get(name)!r} and not {wanted[name]!r}" for name in changed)
            raise PipelineError(
                f"the index {self.url!r} was made with {differences}; use the same settings, or name another index_path"
            )
        return manifest

    def _write(self, manifest: Mapping[str, Any]) -> None:
        self.folder.write(INDEX, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))


def _name(generation: Directory) -> str:
    return generation.url.rpartition("/")[2]
