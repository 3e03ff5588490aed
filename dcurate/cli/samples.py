"""Samples: ``dcurate sample``, and one of what a recipe reads, to run it once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import dcurate
from dcurate.cli.group import cli, debug_option
from dcurate.engine.config import WITHOUT_WORKERS
from dcurate.errors import DataError
from dcurate.recipe import SAMPLE, SAMPLE_FILES, SAMPLE_FILMS, SAMPLE_PICTURES, SAMPLE_RECORDINGS, load_recipe


@cli.command(short_help="Write a sample of documents.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--small", is_flag=True, help="Write 30 short documents in three files, as the how-tos use.")
@click.option("--recordings", is_flag=True, help="Write eight short recordings, as the tutorial on speech uses.")
@click.option("--films", is_flag=True, help="Write seven short films, as the tutorial on video uses.")
@debug_option
def sample(*, folder: Path, small: bool, recordings: bool, films: bool) -> None:
    """Write the bundled sample of documents, as JSON Lines, into the folder DIR.

    It has 1,115 documents in ten files, some of them compressed, copies, nearly copies, and malformed lines.
    """
    chosen = {"--small": small, "--recordings": recordings, "--films": films}
    if len(given := [option for option, is_given in chosen.items() if is_given]) > 1:
        raise click.UsageError(f"{' and '.join(given)} are different samples; give one of them")
    folders = {"--recordings": SAMPLE_RECORDINGS, "--films": SAMPLE_FILMS}
    bundled = sorted(folders[given[0]].iterdir() if recordings or films else SAMPLE.glob("part-*"))
    files = small_sample() if small else {path.name: path.read_bytes() for path in bundled}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name not in files or path.is_dir() or path.read_bytes() != files[path.name]:
            raise DataError(f"{str(folder)!r} holds {path.name!r}, which is not of the sample; name an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if recordings:
        about = "8 recordings, under CC BY-SA 3.0; README.md says whose they are"
    elif films:
        about = "7 films, drawn by a program, under Apache-2.0; README.md says what they show"
    elif small:
        about = "30 documents"
    else:
        about = f"1,115 documents, whose sources and licences are in {SAMPLE / 'README.md'}"
    click.echo(f"{len(files)} files in {folder}: {about}")


def small_sample() -> dict[str, bytes]:
    r"""Return the content of the files of a small sample, by name: in each of three files the same ten texts.

    Examples:
        >>> {name: content.count(b"\n") for name, content in small_sample().items()}
        {'part-0.jsonl': 10, 'part-1.jsonl': 10, 'part-2.jsonl': 10}
    """
    files = {}
    for file in range(3):
        rows = (
            {
                "id": f"{file}-{row}",
                "url": f"https://example.org/{file}/{row}",
                "text": f"The text of {row}. " * 10 * row,
            }
            for row in range(10)
        )
        files[f"part-{file}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return files


def run_on_sample(recipe: str, params: Mapping[str, Any], folder: str, trust: bool) -> None:
    """Run a recipe in this process on a sample of the kind that its reader takes; it writes into ``folder``.

    Args:
        recipe: its path, or the name of a bundled one.
        params: params of the recipe; with an input among them, that is read and not a sample.
    """
    places = {"input": str(SAMPLE), "output": f"{folder}/out"}
    reader = load_recipe(recipe, {**places, **params}, trust=trust).pipeline.stages[0]
    if isinstance(reader, dcurate.PdfReader):
        places["input"] = str(SAMPLE_FILES)
    elif isinstance(reader, dcurate.WebDatasetReader):
        places["input"] = str(SAMPLE_PICTURES)
    elif isinstance(reader, dcurate.MediaReader):
        places["input"] = str(SAMPLE_FILMS if reader.kinds == ["video"] else SAMPLE_RECORDINGS)
    loaded = load_recipe(recipe, {**places, **params}, trust=trust)
    settings = {name: value for name, value in loaded.executor.items() if name in WITHOUT_WORKERS}
    loaded.pipeline.run(dcurate.InlineExecutor(settings), observers=[], examples=False)
