"""NeMo Curator's own tests, run against dcurate's alias of it: what of its public behaviour holds.

    python -m benchmarks.nemo_suite --repo CHECKOUT --json FILE

CHECKOUT is a clone of NeMo Curator. Its tests of text, pictures, recordings, videos, interleaved documents and of what
all stages share are copied to a temporary folder and run without its package: `dcurate.compat.nemo.install()` answers
its imports.
`nemo_suite.toml` says which folders are run and which items do not count, with the reason. Every other item must pass.
Its tests import loguru, which has to be installed. With `--only`, the figures of the other folders stay in FILE.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, called, machine, save, scratch_folder, table, versions

CLASSES = Path(__file__).with_suffix(".toml")
TIMEOUT_S = 600

#: Data of the package that tests read where it lies.
DATA = ("nemo_curator/utils/code_meta.csv",)

#: What an item may be, other than public: the first rule of the list that matches says it.
KINDS = ("public", "internal", "ray", "gpu", "network", "modality", "absent", "skipped", "differs")


@dataclass(frozen=True)
class SuiteRule:
    """Items whose ids match, and why they do not have to pass.

    Attributes:
        kind: one of `KINDS`.
        reason: one sentence.
        patterns: of ids below ``tests/``, without parameters unless the pattern has some; ``*`` is any text.
    """

    kind: str
    reason: str
    patterns: tuple[str, ...]

    def matches(self, item: str) -> bool:
        return any(_matches(pattern, item) for pattern in self.patterns)


def _matches(pattern: str, item: str) -> bool:
    text = item if "[" in pattern else item.partition("[")[0]
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


@dataclass(frozen=True)
class Suite:
    """The committed list.

    Attributes:
        folders: name in the table -> files and folders below ``tests/``.
        rules: in order.
    """

    folders: Mapping[str, Sequence[str]]
    rules: Sequence[SuiteRule]

    @classmethod
    def read(cls, path: Path = CLASSES) -> Suite:
        """The list in a file.

        Raises:
            SystemExit: a rule is of no known kind, or has no reason.
        """
        given = tomllib.loads(path.read_text("utf-8"))
        rules = [SuiteRule(rule["kind"], rule["reason"], tuple(rule["items"])) for rule in given["rule"]]
        for rule in rules:
            if rule.kind not in KINDS or not rule.reason:
                raise SystemExit(f"{path.name}: a rule of kind {rule.kind!r} with the reason {rule.reason!r}")
        return cls(given["folders"], rules)

    def rule(self, item: str) -> SuiteRule | None:
        return next((rule for rule in self.rules if rule.matches(item)), None)


@dataclass(frozen=True)
class SuiteItem:
    """One item of the suite.

    Attributes:
        item: its id below ``tests/``.
        outcome: passed, failed, error, skipped, or "not run" if it does not have to pass.
        error: the line that names the exception.
        kind: one of `KINDS`.
    """

    item: str
    outcome: str
    error: str = ""
    kind: str = "public"

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


def copied(repo: Path, scratch: Path) -> Path:
    """A copy of the tests, without the fixtures that start Ray: the plugin has others."""
    copy = scratch / "suite"
    shutil.copytree(repo / "tests", copy / "tests")
    (copy / "tests" / "conftest.py").unlink()
    for name in DATA:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repo / name, copy / name)
    (copy / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu\n    asyncio\n", "utf-8")
    return copy


def environment(scratch: Path, log: Path) -> dict[str, str]:
    """dcurate and the plugin importable, NeMo Curator's package and this repository's tests not."""
    package = scratch / "package"
    package.mkdir(exist_ok=True)
    for name in ("dcurate", "benchmarks"):
        if not (package / name).exists():
            (package / name).symlink_to(ROOT / name)
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and Path(path) != ROOT]
    path = os.pathsep.join([str(package), *others])
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "NEMO_SUITE_LOG": str(log)}


def run_folder(copy: Path, scratch: Path, paths: Sequence[str], limit_s: float) -> list[SuiteItem]:
    """Every item of some paths below ``tests/``; of a file that cannot be imported, its functions."""
    log = scratch / "log.jsonl"
    log.write_text("")
    command = [sys.executable, "-m", "pytest", "-p", "benchmarks.nemo_suite_plugin", "-p", "no:cacheprovider", "-q"]
    command += ["--timeout", str(TIMEOUT_S), "--continue-on-collection-errors", "--tb=short", "--rootdir", str(copy)]
    command += [f"tests/{path}" for path in paths]
    with (scratch / "output.txt").open("w") as output:
        try:
            subprocess.run(
                command,
                cwd=copy,
                env=environment(scratch, log),
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{paths}: stopped after {limit_s:.0f} s", file=sys.stderr)
    return items(log, copy, paths)


def items(log: Path, copy: Path, paths: Sequence[str]) -> list[SuiteItem]:
    """What the log says of each item; one that was begun or never begun when the process ended has failed."""
    found: dict[str, SuiteItem] = {}
    broken: dict[str, str] = {}
    for line in log.read_text("utf-8").splitlines():
        record = json.loads(line)
        if "file" in record:
            broken[record["file"]] = record["error"]
            continue
        name = record["id"].removeprefix("tests/")
        outcome = "error" if record["outcome"] == "collected" else record["outcome"]
        if found.get(name, SuiteItem(name, "", "")).outcome == "passed" and outcome == "passed":
            continue
        found[name] = SuiteItem(name, outcome, record.get("error", "the process ended before"))
    seen = {name.partition("::")[0] for name in found}
    for file in files(copy / "tests", paths):
        name = file.relative_to(copy / "tests").as_posix()
        if name not in seen:
            error = broken.get(f"tests/{name}", "not collected: the process ended before")
            found |= {item: SuiteItem(item, "error", error) for item in functions(file, name)}
    return list(found.values())


def files(tests: Path, paths: Iterable[str]) -> Iterator[Path]:
    for path in paths:
        whole = tests / path
        yield from [whole] if whole.is_file() else sorted(whole.rglob("test_*.py"))


def functions(file: Path, name: str) -> Iterator[str]:
    """Ids of the test functions in a file, each once for all of its parameters."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from (f"{name}::{node.name}::{test}" for test in _tests(node.body))
    yield from (f"{name}::{test}" for test in _tests(ast.parse(file.read_text("utf-8")).body))


def _tests(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node.name


def counts(name: str, found: Sequence[SuiteItem]) -> dict[str, Any]:
    """The figures of a folder."""
    kinds = Counter(item.kind for item in found)
    public = [item for item in found if item.kind in ("public", "differs")]
    passed = sum(item.passed for item in public if item.kind == "public")
    return {
        "folder": name,
        "items": len(found),
        **{kind: kinds[kind] for kind in KINDS if kind not in ("public", "differs")},
        "public": len(public),
        "passed": passed,
        "differs": kinds["differs"],
        "failed": len(public) - passed - kinds["differs"],
    }


def summed(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"folder": "sum"} | {key: sum(line[key] for line in lines) for key in lines[0] if key != "folder"}


def shown(lines: Sequence[dict[str, Any]]) -> str:
    """The table."""
    return table(list(lines[0]), [list(line.values()) for line in lines])


def commit(repo: Path) -> str:
    command = ["git", "-C", str(repo), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def chosen(suite: Suite, only: str | None) -> dict[str, Sequence[str]]:
    """The folders to run.

    Raises:
        SystemExit: there is none of that name.
    """
    names = [name for name in suite.folders if only is None or name == only or name.startswith(f"{only}/")]
    if not names:
        raise SystemExit(f"no folder {only!r}; one of: {', '.join(suite.folders)}")
    return {name: suite.folders[name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True, help="clone of NeMo Curator")
    parser.add_argument("--only", help="one folder of the table")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="for one folder")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--failures", type=Path, help="also write the items that fail to this file, by cause")
    given = parser.parse_args()
    suite = Suite.read()
    lines, found = [], []
    with scratch_folder("nemo-suite", None) as scratch:
        copy = copied(given.repo, scratch)
        for name, paths in chosen(suite, given.only).items():
            of_folder = [
                replace(item, kind=rule.kind) if (rule := suite.rule(item.item)) else item
                for item in run_folder(copy, scratch, paths, given.limit_s)
            ]
            found += of_folder
            lines.append(counts(name, of_folder))
            print(f"{name}: {lines[-1]['passed']} of {lines[-1]['public']}", file=sys.stderr)
    failed = [item for item in found if item.kind == "public" and not item.passed]
    if given.only is not None and given.json is not None and given.json.exists():
        lines, failed = merged(json.loads(given.json.read_text("utf-8")), lines, failed, suite)
    lines.append(summed(lines))
    print(shown(lines))
    print("\n".join(["", "fail:", *(f"{item.item}: {item.error}" for item in failed)]))
    print("\n".join(["", "differ, with the reason:", *differing(suite)]))
    print("\n".join(stale(suite, found, whole=given.only is None)))
    if given.failures:
        given.failures.write_text(by_cause(failed), "utf-8")
    about = {"machine": machine(), "nemo_curator": commit(given.repo), "versions": versions("pandas", "pyarrow")}
    save(given.json, {**about, "folders": lines, "failed": [asdict(item) for item in failed]})


def merged(
    before: Mapping[str, Any], lines: Sequence[dict[str, Any]], failed: Sequence[SuiteItem], suite: Suite
) -> tuple[list[dict[str, Any]], list[SuiteItem]]:
    """The figures and failures of an earlier run, with those of the folders that were run again in their place."""
    again = {line["folder"]: line for line in lines}
    paths = tuple(path for name in again for path in suite.folders[name])
    kept = [SuiteItem(**item) for item in before["failed"] if not item["item"].startswith(paths)]
    folders = {line["folder"]: line for line in before["folders"] if line["folder"] != "sum"}
    return list({**folders, **again}.values()), [*kept, *failed]


def differing(suite: Suite) -> Iterator[str]:
    """The items that differ, below the reason."""
    for rule in suite.rules:
        if rule.kind == "differs":
            yield from (rule.reason, *(f"    {pattern}" for pattern in rule.patterns))


def stale(suite: Suite, found: Sequence[SuiteItem], *, whole: bool) -> Iterator[str]:
    """What of the list no longer holds: items said to differ that pass, and patterns that nothing matches."""
    for item in found:
        if item.kind == "differs" and item.passed:
            yield f"listed as differing, but passes: {item.item}"
    if whole:
        for rule in suite.rules:
            for pattern in rule.patterns:
                if not any(_matches(pattern, item.item) for item in found):
                    yield f"listed, but there is no such item: {pattern}"


def by_cause(failed: Sequence[SuiteItem]) -> str:
    """Items that fail, those of one error together, the most first."""
    causes: dict[str, list[str]] = {}
    for item in failed:
        causes.setdefault(re.sub(r"0x[0-9a-f]+|/tmp/\S+|\d+", "#", item.error), []).append(item.item)
    ordered = sorted(causes.items(), key=lambda entry: -len(entry[1]))
    return "\n".join(
        f"{len(names)} x {cause}\n" + "".join(f"    {name}\n" for name in names) for cause, names in ordered
    )


if __name__ == "__main__":
    called(main)
