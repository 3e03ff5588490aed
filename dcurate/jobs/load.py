"""Make the pipeline that a job runs of its spec, in the driver."""

from __future__ import annotations

import os
import pickle
import runpy
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcurate.core.pipeline import PipelineDefinition
from dcurate.errors import PipelineError, listed
from dcurate.fs.paths import is_address
from dcurate.fs.stores import Directory
from dcurate.jobs.records import JobSpec
from dcurate.plan.compile import compile_plan
from dcurate.recipe import load_recipe
from dcurate.run import Pipeline


@dataclass(frozen=True)
class LoadedJob:
    """A pipeline that is ready to run.

    Attributes:
        pipeline: the pipeline.
        executor: settings of `dcurate.DaskExecutor`.
        rejected: folder for rejected rows; None for none.
        proof: whether the run leaves a proof of every row.
        output: the output directory.
    """

    pipeline: Pipeline
    executor: Mapping[str, Any]
    rejected: str | None
    proof: bool
    output: Directory


def load(spec: JobSpec, folder: Path) -> LoadedJob:
    """Make the pipeline of a spec.

    Args:
        spec: what a job runs.
        folder: empty folder for its text.

    Raises:
        PipelineError: it cannot be understood, or has no writer.
    """
    _enter(spec.folder)
    executor, rejected, proof = dict(spec.executor), spec.rejected, spec.proof
    if spec.form == "recipe":
        path = folder / Path(spec.title).name
        path.write_bytes(spec.payload)
        recipe = load_recipe(path, spec.settings, trust=spec.trust)
        pipeline, executor = recipe.pipeline, {**recipe.executor, **executor}
        rejected, proof = rejected or recipe.rejected, proof or recipe.proof
    elif spec.form == "script":
        pipeline = _of_script(spec, folder)
    else:
        pipeline = pickle.loads(spec.payload)
    output = output_of(pipeline)
    if not is_address(output.url) and not os.path.isabs(output.url) and not os.path.isdir(spec.folder):
        raise PipelineError(
            f"the output {output.url!r} begins in {spec.folder!r}, which is not on {socket.gethostname()}; give its "
            "whole path, which all hosts share"
        )
    return LoadedJob(pipeline, executor, rejected, proof, output)


def _enter(folder: str) -> None:
    """Have relative paths begin where the job was submitted, if the folder is on this host."""
    with suppress(OSError):
        os.chdir(folder)


def output_of(pipeline: PipelineDefinition) -> Directory:
    """Return the output of a pipeline.

    Raises:
        PipelineError: it has no writer, so that a job would lose its rows.
    """
    sink = compile_plan(pipeline.build()).sink
    if sink is None:
        raise PipelineError(
            f"pipeline {pipeline.name!r} has no writer, so its rows would be lost when the job ends; add one, such as "
            "JsonlWriter('out')"
        )
    return Directory(sink.output_path, sink.storage_options or {})


def _of_script(spec: JobSpec, folder: Path) -> Pipeline:
    path = folder / Path(spec.title).name
    path.write_bytes(spec.payload)
    try:
        names = runpy.run_path(str(path), run_name="dcurate_job")
    except ModuleNotFoundError as error:
        raise PipelineError(
            f"{path.name} needs {error.name!r}, which is not installed where the driver runs; install it on the workers"
        ) from error
    if spec.attribute not in names:
        known = listed(name for name, value in names.items() if isinstance(value, Pipeline))
        raise PipelineError(f"{path.name} has no {spec.attribute!r}; its pipelines are {known}")
    pipeline = names[spec.attribute]
    if callable(pipeline) and not isinstance(pipeline, Pipeline):
        pipeline = pipeline(**spec.settings)
    if not isinstance(pipeline, Pipeline):
        raise PipelineError(f"{spec.attribute!r} in {path.name} is a {type(pipeline).__name__}, not a dcurate.Pipeline")
    return pipeline
