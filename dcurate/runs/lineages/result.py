"""`Lineage`: runs and what they read, as values, on a terminal and for Graphviz."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.filesize import decimal
from rich.jupyter import JupyterMixin
from rich.text import Text
from rich.tree import Tree

from dcurate.runs.lineages.record import LineageRecord
from dcurate.runs.text import many


@dataclass(frozen=True)
class Read:
    """Something that a run read.

    Args:
        address: a file, a folder, a table, or the name of a model.
        role: ``"input"``, ``"table"``, ``"model"``, ``"tokenizer"``, ``"benchmarks"``, ``"index"`` or ``"file"``.
        stage: the stage that names it; empty for the input.
        files: number of its files; ``nbytes`` is their size.
        version: of the table, or what changes when the file does.
        made: whether it is the output of a run.
        sha256: digest of the paths and bytes of the files, where it was asked for.
    """

    address: str
    role: str
    stage: str = ""
    files: int = 0
    nbytes: int = 0
    version: str = ""
    made: bool = False
    sha256: str = ""

    @property
    def figures(self) -> str:
        """Files, bytes and version, in words."""
        size = f"{many(self.files, 'file')}, {decimal(self.nbytes)}" if self.files else ""
        return ", ".join(filter(None, (size, self.version if self.role == "table" else "")))


@dataclass(frozen=True)
class LineageRun:
    """A run, and what it read.

    Args:
        key: its id, and its output.
        output: address of the output.
        record: what the run left.
        reads: what it read.
    """

    key: str
    output: str
    record: LineageRecord
    reads: tuple[Read, ...]

    @property
    def began(self) -> str:
        """When it began, in the time of this machine."""
        return f"{datetime.datetime.fromtimestamp(self.record.started):%Y-%m-%d %H:%M}"

    @property
    def figures(self) -> str:
        """Rows in and out, in words."""
        record = self.record
        return f"{record.rows_in:,} rows in, {record.rows_out:,} out" + (", failed" if record.error else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {**self.record.to_dict(), "key": self.key, "reads": [asdict(read) for read in self.reads]}


class DrawnNode(NamedTuple):
    """A node of the graph: a run, or data.

    Args:
        kind: ``"run"``, ``"made"`` for the output of a run, ``"source"``, or the role of what a stage names.
        title: name of the pipeline, or address.
        lines: further lines of text.
    """

    kind: str
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Lineage(JupyterMixin):
    """The runs that made an output, and what each of them read; printed, it is a tree.

    Attributes:
        output: address of the output.
        runs: by key; those of the output first, and each before the runs that made what it read.
        of_output: keys of the runs whose rows are in the output.
        warnings: sentences on files that changed, or are gone, since they were read.

    Examples:
        >>> run = LineageRun("7f3a@out", "out", LineageRecord("7f3a", "demo", "out"), (Read("in", "input"),))
        >>> Lineage("out", {run.key: run}, (run.key,)).edges()
        [('in', '7f3a@out'), ('7f3a@out', 'out')]
    """

    output: str
    runs: Mapping[str, LineageRun]
    of_output: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        runs = [run.to_dict() for run in self.runs.values()]
        return {"output": self.output, "of_output": self.of_output, "runs": runs, "warnings": self.warnings}

    def makers(self, address: str) -> list[LineageRun]:
        """Return the runs whose rows are in an output."""
        return [run for run in self.runs.values() if run.output == address]

    @property
    def sources(self) -> list[Read]:
        """What no run made, each once."""
        reads = (read for run in self.runs.values() for read in run.reads if not read.made)
        return list({read.address: read for read in reads}.values())

    def nodes(self) -> dict[str, DrawnNode]:
        """Return the runs and data to be drawn, by a name that is unique."""
        nodes: dict[str, DrawnNode] = {}
        for run in self.runs.values():
            record = run.record
            written = f"{many(record.files, 'file')}, {decimal(record.nbytes)}"
            nodes.setdefault(run.output, DrawnNode("made", run.output, (written,)))
            nodes[run.key] = DrawnNode("run", record.pipeline, (f"run {record.run}, {run.began}", run.figures))
        for run in self.runs.values():
            for read in run.reads:
                kind = "source" if read.role in ("input", "table") else read.role
                nodes.setdefault(read.address, DrawnNode(kind, read.address, (read.figures,) if read.figures else ()))
        return nodes

    def edges(self) -> list[tuple[str, str]]:
        """Return what leads to what, as names of nodes: data to the runs that read it, runs to what they wrote."""
        reads = [(read.address, run.key) for run in self.runs.values() for read in run.reads]
        return list(dict.fromkeys([*reads, *((run.key, run.output) for run in self.runs.values())]))

    def dot(self) -> str:
        """Return the graph in the language of Graphviz."""
        names = {name: f"n{number}" for number, name in enumerate(self.nodes())}
        lines = ["digraph lineage {", "  rankdir=LR;", '  node [fontname="sans-serif", fontsize=11];']
        for name, node in self.nodes().items():
            shape = "box" if node.kind == "run" else "note" if node.kind in ("made", "source") else "component"
            label = "\\n".join(map(_escaped, (node.title, *node.lines)))
            lines.append(f'  {names[name]} [shape={shape}, label="{label}"];')
        lines += [f"  {names[start]} -> {names[end]};" for start, end in self.edges()]
        return "\n".join([*lines, "}"]) + "\n"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tree = Tree(Text(self.output, "bold", overflow="fold"))
        shown: set[str] = set()
        waiting = [(tree, self.runs[key]) for key in self.of_output]
        while waiting:
            branch, run = waiting.pop(0)
            if run.key in shown:
                branch.add(Text(f"{run.record.pipeline}, run {run.record.run}: see above", "dim"))
                continue
            shown.add(run.key)
            under = branch.add(_run_text(run))
            for read in run.reads:
                inner = under.add(_read_text(read))
                waiting += [(inner, before) for before in (self.makers(read.address) if read.made else ())]
        yield tree
        for warning in self.warnings:
            yield Text(f"warning: {warning}", "yellow", overflow="fold")


def _run_text(run: LineageRun) -> Text:
    record = run.record
    text = Text.assemble(
        (record.pipeline, "bold cyan"), f"  {run.figures}  ", (f"{run.began}, run {record.run}", "dim")
    )
    recipe = record.about.get("recipe")
    return text.append(f", recipe {recipe}", "dim") if recipe else text


def _read_text(read: Read) -> Text:
    role = "" if read.role in ("input", "table") else f"{read.role} of {read.stage}: "
    text = Text.assemble((role, "dim"), read.address, (f"  {read.figures}" if read.figures else "", "dim"))
    return text.append(f"\nsha256 {read.sha256}", "dim") if read.sha256 else text


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
