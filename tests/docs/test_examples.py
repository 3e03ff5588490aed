"""The examples in README.md and docs/ run unchanged, and the reference names all that is public."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from dcurate.cli import cli
from dcurate.core.public import homes
from tests.docs.test_docstrings import plain_names
from tests.forked import FORKS, finished

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.exists()]
SKIP = re.compile(r"<!-- not run: .+ -->")


def examples(page: str) -> str:
    """The Python blocks of a page in one program, every line where the page has it.

    >>> examples("Text.\\n```python\\nx = 1\\n```\\n<!-- not run: why -->\\n```python\\ny = 2\\n```")
    '\\n\\nx = 1\\n\\n\\n\\n\\n'
    """
    program, wanted, before = [], False, ""
    for line in page.split("\n"):
        opens = line.strip() == "```python" and not SKIP.fullmatch(before)
        wanted = opens or (wanted and line.strip() != "```")
        program.append(line if wanted and not opens else "")
        before = line.strip()
    return "\n".join(program)


def samples(page: str) -> list[list[str]]:
    """The ``dcurate sample`` commands of a page, which must come before Python that reads what they write.

    >>> samples("```sh\\ndcurate sample input --small\\n```\\n```python\\nJsonlReader('input/')\\n```")
    [['sample', 'input', '--small']]
    """
    found = [arguments for arguments in commands(page) if arguments[0] == "sample"]
    for _, folder, *_ in found:
        reads = re.search(rf"[\"']{folder}\b", examples(page))
        before = page.split("\n")[: examples(page)[: reads.start()].count("\n")] if reads else []
        assert f"dcurate sample {folder}" in "\n".join(before), "the sample comes after what reads it"
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page.read_text()).strip()], ids=lambda p: p.stem)
def test_the_examples_of_the_page_run_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    name, text = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    program, folder = tmp_path / "program", tmp_path / "folder"
    folder.mkdir()
    program.write_text(examples(text), encoding="utf-8")
    programs: list[list[str]] = [["dcurate.cli", *arguments] for arguments in samples(text)]
    for command in (*programs, ["tests.docs.page", str(program), name]):
        done = finished([sys.executable, "-m", *command], cwd=folder, env={**os.environ, **FORKS}, timeout_s=280)
        assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"


def test_the_reference_names_all_that_is_public(hooks: ModuleType) -> None:
    pages = {page.stem: hooks.on_page_markdown(page.read_text()) for page in (ROOT / "docs" / "reference").glob("*.md")}
    named = [
        (page, module, name)
        for page, text in pages.items()
        for module, name in re.findall(r"^::: (dcurate(?:\.[a-z]+)?)\.(\w+)$", text, re.MULTILINE)
    ]
    public = [*((module, name) for name, module in homes().items()), *(name.rsplit(".", 1) for name in plain_names())]
    expected = [(module.rpartition(".")[2], module, name) for module, name in public]
    assert set(expected) - set(named) == set(), "add it to the page of its module, docs/reference/MODULE.md"
    assert sorted(named) == sorted(expected), "a name is once in docs/reference/, on the page of its module"


def commands(page: str) -> list[list[str]]:
    """The arguments of the ``dcurate`` commands in the shell blocks of a page.

    >>> commands("```sh\\nA=1 dcurate run x \\\\\\n  --resume  # later\\nls\\n```")
    [['run', 'x', '--resume']]
    """
    blocks = re.findall(r"^```(?:sh|bash|console)[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = [re.fullmatch(r"(?:\$ )?(?:\w+=\S+ )*dcurate (.+)", line.strip()) for line in lines]
    return [shlex.split(one[1], comments=True) for one in found if one and not one[1].startswith("nemo ")]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page.read_text())], ids=lambda page: page.stem)
def test_the_commands_of_the_page_have_these_options(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids.txt").touch()
    for arguments in commands(page.read_text()):
        rest = list(arguments)
        context = click.Context(cli, info_name="dcurate")
        command: click.Command | None = cli
        while isinstance(command, click.Group):
            name, command, rest = command.resolve_command(context, rest)
            context = click.Context(command or cli, context, name)
        assert command is not None
        with command.make_context(context.info_name, rest, context.parent):
            pass
