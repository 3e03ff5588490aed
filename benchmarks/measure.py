"""CPU-seconds, wall time and peak memory of a command and of every process that it starts. Linux only.

The CPU-seconds are the kernel's own (user + system): whoever is left without a parent is handed to this process
(``PR_SET_CHILD_SUBREAPER``) and waited for, so that no process of the tree is missed, however it ended.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

from dcurate import DcurateError

ROOT = Path(__file__).resolve().parents[1]
MB = 1e6

#: Seconds that processes may outlive the command before they are ended.
LINGER_S = 15.0

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Peak:
    """The most memory in use at any one look, in MB of 10^6 bytes; PSS counts shared pages once."""

    rss_mb: float = 0.0
    pss_mb: float = 0.0

    def with_(self, rss: int, pss: int) -> Peak:
        return Peak(max(self.rss_mb, rss / MB), max(self.pss_mb, pss / MB))


@dataclass(frozen=True)
class Usage:
    """What a command used.

    Attributes:
        wall_s: from its start to its own end.
        cpu_s: of its whole process tree, user and system.
        root: memory of the process itself.
        children: memory of all processes below it, together.
        tree: memory of all of them, together.
        output: what it wrote to standard output.
    """

    wall_s: float
    cpu_s: float
    root: Peak
    children: Peak
    tree: Peak
    output: str

    @property
    def result(self) -> Any:
        """The JSON in the last line of the output."""
        return json.loads(self.output.strip().rpartition("\n")[2])


class CommandError(RuntimeError):
    """A command that was measured failed; with the end of what it said."""


class _Sampler:
    """Looks at the memory of a process tree again and again, for as long as a ``with`` statement lasts."""

    def __init__(self, pid: int, interval: float) -> None:
        self.root, self.children, self.tree = Peak(), Peak(), Peak()
        self._pid, self._interval = pid, interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._interval):
            self._look()

    def _look(self) -> None:
        try:
            root = psutil.Process(self._pid)
            below = root.children(recursive=True)
        except psutil.NoSuchProcess:
            return
        own, others = _memory([root]), _memory(below)
        self.root = self.root.with_(*own)
        self.children = self.children.with_(*others)
        self.tree = self.tree.with_(own[0] + others[0], own[1] + others[1])


def _memory(processes: Iterable[psutil.Process]) -> tuple[int, int]:
    """RSS and PSS of processes, together, in bytes; one that has just ended has none."""
    rss = pss = 0
    for process in processes:
        try:
            memory = process.memory_full_info()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        rss, pss = rss + memory.rss, pss + memory.pss
    return rss, pss


def measure(command: Sequence[str | Path], interval: float = 0.25, env: Mapping[str, str] | None = None) -> Usage:
    """Run a command to its end in the root of the repository, and measure it and all that it starts.

    No other child of this process may run meanwhile.

    Args:
        interval: seconds between looks at its memory.
        env: added to this process's environment.

    Raises:
        CommandError: the command failed; with the end of what it said.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        others = {child.pid for child in psutil.Process().children()}
        before, began = _cpu_of_children(), time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=errors, cwd=ROOT, env={**os.environ, **(env or {})}
        )
        try:
            with _Sampler(process.pid, interval) as sampler:
                code = process.wait()
            wall = time.perf_counter() - began
        finally:
            _wait_for_orphans(0.0 if process.returncode is None else LINGER_S, others)
        cpu = _cpu_of_children() - before
        output.seek(0)
        said = output.read()
        if code:
            errors.seek(0)
            end = (said + errors.read())[-3000:]
            raise CommandError(f"{' '.join(map(str, command))[:300]} ended with {code}:\n{end}")
    return Usage(wall, cpu, sampler.root, sampler.children, sampler.tree, said)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _wait_for_orphans(patience: float, others: set[int]) -> None:
    """Wait for whatever the command left running; end what does not end by itself.

    Args:
        patience: seconds that it has.
        others: ids of children that were there before.
    """
    end = time.monotonic() + patience
    while left := [child for child in psutil.Process().children() if child.pid not in others]:
        for process in left:
            if time.monotonic() > end:
                for below in (*process.children(recursive=True), process):
                    below.kill()
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        time.sleep(0.02)


def peak_mb(process: int | None = None) -> float:
    """The most memory of a process since it began its program, in MB; ``ru_maxrss`` may be that of its parent.

    Args:
        process: its number; None for this one.
    """
    lines = Path(f"/proc/{process or 'self'}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / MB for line in lines if line.startswith("VmHWM"))


def job(function: str, **arguments: Any) -> list[str]:
    """The command that calls a function in a fresh Python and prints what it returns as JSON.

    Args:
        function: as ``module:name``.
        arguments: plain values.
    """
    module, _, name = function.partition(":")
    code = f"import json, sys; from {module} import {name}; print(json.dumps({name}(**json.loads(sys.argv[1]))))"
    return [sys.executable, "-c", code, json.dumps(arguments)]


def package_of(checkout: Path, scratch: Path) -> dict[str, str]:
    """The environment in which a `job` of this checkout's benchmarks imports the ``dcurate`` of another one.

    Args:
        scratch: a folder for the link that this takes.
    """
    folder = scratch / "package"
    folder.mkdir()
    (folder / "dcurate").symlink_to(checkout.resolve() / "dcurate")
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of packages, of those that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def plain(usage: Usage) -> dict[str, Any]:
    """The figures of a run for JSON."""
    peaks = {name: _rounded(asdict(getattr(usage, name))) for name in ("root", "children", "tree")}
    return {"wall_s": round(usage.wall_s, 3), "cpu_s": round(usage.cpu_s, 3), "peak": peaks}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows of text in columns: the first to the left, the others to the right."""
    lines = [list(map(_shown, row)) for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(wide) for cell, wide in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    return "\n".join([texts[0], "-" * len(texts[0]), *texts[1:]])


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def save(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures as JSON, if a path was given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")
        print(f"\nfigures: {path}")


@contextmanager
def scratch_folder(name: str, parent: str | None) -> Iterator[Path]:
    """A folder for a while, below ``parent`` or where the system has such; by its full path, for other processes."""
    if parent is not None:
        Path(parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"dcurate-{name}-", dir=parent) as folder:
        yield Path(folder).resolve()


def called(main: Callable[[], None]) -> None:
    """Call a benchmark's ``main``; what the user gave and cannot be read ends it with a sentence.

    Raises:
        SystemExit: with that sentence.
    """
    try:
        main()
    except CommandError as error:
        print(error, file=sys.stderr)
        raise SystemExit(f"a run failed: {str(error).strip().rpartition(chr(10))[2]}") from None
    except (DcurateError, OSError, json.JSONDecodeError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error


def sizes_given(text: str) -> str:
    """Positive numbers with commas between them, as an option of a command takes them."""
    return _checked(text, float, "numbers")


def whole_sizes_given(text: str) -> str:
    """The same, of whole numbers."""
    return _checked(text, int, "whole numbers")


def _checked(text: str, kind: Callable[[str], float], kinds: str) -> str:
    try:
        if min(map(kind, text.split(","))) > 0:
            return text
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no list of {kinds} above 0, such as 1,4")


class _MallocInfo(ctypes.Structure):
    """What glibc says of its memory, in bytes; see mallinfo(3)."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def memory_in_use() -> tuple[float, int]:
    """Return MB that the C library has handed out, and blocks that Python has: without what both keep free."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallocInfo
    info = mallinfo()
    return (info.uordblks + info.hblkhd) / MB, sys.getallocatedblocks()
