"""Pipelines in YAML as NeMo Curator has them: a list of classes with their arguments, read by hydra."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcurate.compat.nemo.executors import BaseExecutor, RayClient, RayDataExecutor, XennaExecutor
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowBase
from dcurate.compat.nemo.stages import ProcessingStage, Resources
from dcurate.errors import PipelineError, ResourceError

_log = logging.getLogger("dcurate.compat.nemo")

_EXECUTORS: dict[str, type[Any]] = {"xenna": XennaExecutor, "ray_data": RayDataExecutor}
#: The classes that a file may name, so that data calls no other code.
_MAY_BE = (ProcessingStage, WorkflowBase, BaseExecutor, RayClient, Resources)


def create_pipeline_from_yaml(cfg: Any, *, log_config: bool = True) -> Any:
    """Return the pipeline, or the workflow, of a configuration.

    Args:
        cfg: configuration of hydra, or a dict, with ``stages`` or one ``workflow``.
        log_config: whether it is logged.

    Raises:
        RuntimeError: it has both, neither, or several workflows.
        PipelineError: a ``_target_`` is not a stage, a workflow or their settings.
    """
    settings = _plain(cfg)
    if log_config:
        _log.info("configuration: %s", settings)
    if ("stages" in settings) == ("workflow" in settings):
        raise RuntimeError("the configuration must have either stages or one workflow")
    if "workflow" in settings:
        if len(settings["workflow"]) != 1:
            raise RuntimeError("the configuration must have one workflow")
        return made_of(settings["workflow"][0])
    pipeline = Pipeline(name="yaml_pipeline", description="Create and execute a pipeline from a YAML file")
    for stage in settings["stages"]:
        resources = stage.get("resources")
        made = made_of({name: value for name, value in stage.items() if name != "resources"})
        if resources:
            asked = made_of(resources) if "_target_" in resources else Resources(**resources)
            made = made.with_(resources=asked)
        pipeline.add_stage(made)
    return pipeline


def create_executor_from_yaml(cfg: Any) -> Any:
    """Return the executor of a configuration; None if it names none.

    Raises:
        ValueError: there is no such executor, or no such mode of it.
    """
    settings = _plain(cfg)
    if not {"backend", "execution_mode"} & settings.keys():
        return None
    backend, mode = str(settings.get("backend", "xenna")), str(settings.get("execution_mode", "streaming"))
    if backend not in _EXECUTORS:
        raise ValueError(f"Unknown backend '{backend}'. Choose from: {', '.join(_EXECUTORS)}.")
    if backend == "xenna" and mode not in ("batch", "streaming"):
        raise ValueError(f"Unknown Xenna execution mode '{mode}'. Choose from: batch, streaming.")
    return XennaExecutor(config={"execution_mode": mode}) if backend == "xenna" else RayDataExecutor()


def create_ray_client_from_yaml(cfg: Any) -> Any:
    """Return the client of a configuration, or one with defaults."""
    settings = _plain(cfg)
    return made_of(settings["ray_client"]) if "ray_client" in settings else RayClient()


def made_of(value: Any) -> Any:
    """Make the object that a mapping with ``_target_`` describes, and those within it.

    Raises:
        PipelineError: the target is not a class that a pipeline has.
    """
    if isinstance(value, list):
        return [made_of(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    arguments = {name: made_of(inner) for name, inner in value.items() if name != "_target_"}
    if "_target_" not in value:
        return arguments
    module, _, name = str(value["_target_"]).rpartition(".")
    kind = getattr(importlib.import_module(module), name) if module else None
    if not isinstance(kind, type) or not (issubclass(kind, _MAY_BE) or is_missing(kind)):
        raise PipelineError(f"_target_: {value['_target_']} is not a stage, a workflow, an executor or Resources")
    return kind(**arguments)


def is_missing(kind: type[Any]) -> bool:
    """Whether a class is a placeholder for a missing one, which raises when it is called."""
    return type(kind).__name__ == "Missing"


def _plain(cfg: Any) -> dict[str, Any]:
    """A configuration as a dict, with its references resolved."""
    if isinstance(cfg, dict):
        return cfg
    plain: dict[str, Any] = importlib.import_module("omegaconf").OmegaConf.to_container(cfg, resolve=True)
    return plain


def run(cfg: Any) -> None:
    """Run the pipeline of a configuration."""
    client = create_ray_client_from_yaml(cfg)
    client.start()
    try:
        pipeline, executor = create_pipeline_from_yaml(cfg), create_executor_from_yaml(cfg)
        pipeline.run() if executor is None else pipeline.run(executor=executor)
    finally:
        client.stop()


def main() -> None:
    """Run the pipeline that the arguments of the command name; hydra reads them.

    Raises:
        ResourceError: hydra is not installed.
    """
    try:
        hydra = importlib.import_module("hydra")
    except ImportError as error:
        raise ResourceError("a pipeline in YAML needs hydra, which is not installed: pip install hydra-core") from error
    hydra.main(version_base=None, config_path=str(Path.cwd()), config_name="pipeline")(run)()
