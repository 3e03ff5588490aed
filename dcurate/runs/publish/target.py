"""Addresses of data sets at the Hugging Face Hub."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dcurate.errors import PipelineError

_NAME = r"[A-Za-z0-9][\w.-]*"
_ADDRESS = re.compile(rf"hf://datasets/(?P<repo>{_NAME}/{_NAME})(@(?P<revision>[^/\s]+))?(/(?P<folder>.*))?")


@dataclass(frozen=True)
class HubFolder:
    """A folder of a data set at the Hub.

    Args:
        repo: the owner and the name of the data set.
        revision: the branch.
        folder: the folder in it, without slashes at its ends; empty for the root.
    """

    repo: str
    revision: str = "main"
    folder: str = "data"

    @classmethod
    def of(cls, address: str) -> HubFolder:
        """Return the folder that an address names: ``hf://datasets/OWNER/NAME[@BRANCH][/FOLDER]``.

        Raises:
            PipelineError: it is no such address.

        Examples:
            >>> HubFolder.of("hf://datasets/org/web")
            HubFolder(repo='org/web', revision='main', folder='data')
            >>> HubFolder.of("hf://datasets/org/web@2024/en/")
            HubFolder(repo='org/web', revision='2024', folder='en')
        """
        match = _ADDRESS.fullmatch(address)
        parts = (match["folder"] or "").split("/") if match else []
        if match is None or {".", ".."} & set(parts):
            raise PipelineError(
                f"{address!r} is not an address of a data set; give hf://datasets/OWNER/NAME, "
                "with @BRANCH and /FOLDER after it if you like"
            )
        folder = "/".join(filter(None, parts)) or cls.folder
        return cls(match["repo"], match["revision"] or cls.revision, folder)

    def path(self, name: str) -> str:
        """Return the path of a file of the output in the data set."""
        return f"{self.folder}/{name}"

    def __str__(self) -> str:
        at = "" if self.revision == "main" else f"@{self.revision}"
        return f"hf://datasets/{self.repo}{at}/{self.folder}"
