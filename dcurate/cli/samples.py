"""Samples: ``dcurate sample``, and one of what a recipe reads, to run it once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import dcurate
from dcurate.cli.group import cli, debug_option
from dcurate.cli.sample_files import SAMPLES, crawl
from dcurate.engine.config import WITHOUT_WORKERS
from dcurate.errors import DataError
from dcurate.recipe import SAMPLE, SAMPLE_FILES, SAMPLE_FILMS, SAMPLE_PICTURES, SAMPLE_RECORDINGS, load_recipe


@cli.command(short_help="Write a sample of documents.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@debug_option
def sample(*, folder: Path, **chosen: bool) -> None:
    """Write the bundled sample of documents, as JSON Lines, into the folder DIR.

    It has 1,115 documents in ten files, some of them compressed, copies, nearly copies, and malformed lines. Options
    write other samples, which the pipelines of the gallery read.
    """
    if len(given := [option for option in SAMPLES if chosen.get(option.removeprefix("--"))]) > 1:
        raise click.UsageError(f"{' and '.join(given)} are different samples; give one of them")
    about = SAMPLES[given[0] if given else ""]
    files = about.files()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name not in files or path.is_dir() or path.read_bytes() != files[path.name]:
            raise DataError(f"{str(folder)!r} holds {path.name!r}, which is not of the sample; name an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    click.echo(f"{len(files)} {'file' if len(files) == 1 else 'files'} in {folder}: {about.about}")


sample.params[1:1] = [click.Option([option], is_flag=True, help=SAMPLES[option].option) for option in SAMPLES if option]


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
    elif isinstance(reader, dcurate.WarcReader):
        places["input"] = f"{folder}/crawl"
        Path(places["input"]).mkdir()
        for name, content in crawl().items():
            Path(places["input"], name).write_bytes(content)
    loaded = load_recipe(recipe, {**places, **params}, trust=trust)
    settings = {name: value for name, value in loaded.executor.items() if name in WITHOUT_WORKERS}
    loaded.pipeline.run(dcurate.InlineExecutor(settings), observers=[], examples=False)
