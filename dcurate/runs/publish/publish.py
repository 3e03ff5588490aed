"""`publish`: the output of a finished run as a data set at the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dcurate.errors import DataError, PipelineError, listed
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory, output_of
from dcurate.fs.temporary import scratch_folder
from dcurate.io.files import hidden
from dcurate.io.output import RUNNING
from dcurate.io.tables import LOGS
from dcurate.runs.load import RecordedRun, read_run
from dcurate.runs.publish.card import card, is_valid
from dcurate.runs.publish.hub import Hub, Stored, digests
from dcurate.runs.publish.target import HubFolder

#: What to do about files in the folder of the data set that are not of the output.
Others = Literal["error", "overwrite", "ignore"]
CARD = "README.md"
#: Files and bytes of a commit at most; a larger file has one of its own.
_FILES, _BYTES = 100, 5 * 2**30


@dataclass(frozen=True)
class Published:
    """What `publish` did.

    Attributes:
        target: the folder of the data set.
        files: how many files the output has.
        sent: how many of them were sent; the others were there already.
        deleted: how many files were deleted.
        commits: how many commits were made.

    Examples:
        >>> Published("hf://datasets/org/web/data", files=3, sent=1, deleted=0, commits=2).to_dict()["sent"]
        1
    """

    target: str
    files: int
    sent: int
    deleted: int
    commits: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def publish(
    output: str,
    target: str,
    *,
    mode: Others = "error",
    private: bool = True,
    hf_token: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Published:
    """Publish the output of a finished run as a data set at the Hugging Face Hub.

    Files are sent in commits of a bounded size, and the card of the data set (``README.md``), made from the report of
    the run, with the last one. Publish again after an interruption: files that are at the Hub with the same content
    are not sent again, and no commit is made twice. Where the Hub answers that there are too many requests, it is
    asked again after the seconds that it says.

    Args:
        output: the output directory of a run that ended.
        target: ``hf://datasets/OWNER/NAME``; the files go to its folder ``data``, or ``/FOLDER`` after it, on the
            branch ``main``, or ``@BRANCH`` after the name. The data set and the branch are made if there are none.
        mode: what to do about other files in the folder of the data set: ``"error"`` refuses them, ``"overwrite"``
            deletes them with the last commit, ``"ignore"`` leaves them.
        private: whether a data set that is made is seen by you and your organization only; one that is there stays as
            it is.
        hf_token: token of a user who may write; that of ``hf auth login`` or ``HF_TOKEN`` by default. Never shown.
        storage_options: options of the output's file system, for fsspec.

    Raises:
        DataError: the output has no finished run, or no files; or the folder holds other files.
        PipelineError: ``target`` is not an address of a data set, or the mode does not exist.
        ResourceError: the Hub cannot be reached or refuses, or ``huggingface_hub`` is not installed.

    Examples:
        >>> publish("out", "hf://org/name")
        Traceback (most recent call last):
        dcurate.errors.PipelineError: 'hf://org/name' is not an address of a data set; give hf://datasets/...
    """
    folder = HubFolder.of(target)
    if mode not in get_args(Others):
        raise PipelineError(f"publish: mode={mode!r} is not one of {listed(get_args(Others))}")
    directory = Directory(output_of(output), dict(storage_options or {}))
    run = _finished(directory)
    files = directory.files()
    if any(map(_is_log, files)):
        raise DataError(
            f"{directory.url!r} is a table, of which not all files count; write its rows with ParquetWriter, and "
            "publish that output"
        )
    sizes = {name: entry.size for name, entry in sorted(files.items()) if _is_data(name)}
    if not sizes:
        raise DataError(f"{directory.url!r} holds no files to publish; name the output directory of a run")
    hub = Hub(folder, hf_token)
    hub.open(private)
    stored = hub.files()
    output_paths = {folder.path(name) for name in sizes}
    other_paths = [path for path in stored if path.startswith(f"{folder.folder}/") and path not in output_paths]
    if other_paths and mode == "error":
        raise DataError(
            f"{str(folder)!r} holds {len(other_paths):,} files that are not of this output (first: "
            f"{min(other_paths)!r}); give mode='overwrite' to delete them, mode='ignore' to leave them, or "
            "another folder"
        )
    deletes = other_paths if mode == "overwrite" else []
    text = card(run, folder, sizes, hub.read(CARD) if CARD in stored else None)
    if not is_valid(text):
        raise DataError(f"the YAML at the top of {CARD} of data set {folder.repo!r} cannot be read; correct it there")
    sent = commits = 0
    for names in _batches(sizes):
        with _local(directory, names) as paths:
            new = {folder.path(name): path for name, path in paths.items()}
            new = {path: local for path, local in new.items() if path not in stored or not stored[path].equals(local)}
            if new:
                hub.commit(new, [], f"Add {len(new):,} files with dcurate")
                sent, commits = sent + len(new), commits + 1
    if deletes or _differs(stored.get(CARD), text):
        hub.commit({CARD: text.encode()}, deletes, "Describe the run with dcurate")
        commits += 1
    after = hub.files()
    lost = [
        name for name, size in sizes.items() if folder.path(name) not in after or after[folder.path(name)].size != size
    ]
    if lost:
        raise DataError(
            f"{str(folder)!r} is without {len(lost):,} files of the output (first: {lost[0]!r}), as somebody else "
            "removed or replaced them meanwhile; publish again"
        )
    return Published(str(folder), len(sizes), sent, len(deletes), commits)


def _finished(directory: Directory) -> RecordedRun:
    """Return the run whose output it is.

    Raises:
        DataError: there is none, or it has not ended well.
    """
    run = read_run(directory.url, directory.options)
    begun = directory.read(RUNNING)
    if run.report.error or (begun is not None and begun != run.report.run.encode()):
        raise DataError(
            f"the run that writes to {directory.url!r} has not ended well, so what is there is not all of it; "
            "end it with resume=True, and publish then"
        )
    return run


def _is_log(name: str) -> bool:
    """Whether a file says which files of a table count."""
    folder = name.partition("/")[0]
    return folder in {*LOGS, "_versions"} or (folder == "metadata" and name.endswith(".metadata.json"))


def _is_data(name: str) -> bool:
    return not any(map(hidden, name.split("/")))


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield names for one commit each.

    Examples:
        >>> list(_batches({"a": 3 * 2**30, "b": 2**31, "c": 2**30}))
        [['a', 'b'], ['c']]
    """
    batch: list[str] = []
    nbytes = 0
    for name, size in sizes.items():
        if batch and (len(batch) == _FILES or nbytes + size > _BYTES):
            yield batch
            batch, nbytes = [], 0
        batch.append(name)
        nbytes += size
    yield batch


@contextmanager
def _local(directory: Directory, names: Sequence[str]) -> Iterator[dict[str, Path]]:
    """Give files as local ones: fetched for the time being, if they are in a store."""
    if directory.local:
        yield {name: Path(directory.path(name)) for name in names}
        return
    with scratch_folder() as folder:
        paths = {name: Path(folder, str(place)) for place, name in enumerate(names)}
        for name, path in paths.items():
            address = directory.path(name)
            store, inner = open_store(address, directory.options)
            with storage_errors("read", address):
                store.get_file(inner, str(path))
        yield paths


def _differs(stored: Stored | None, text: str) -> bool:
    return stored is None or stored.digest not in digests(text.encode())
