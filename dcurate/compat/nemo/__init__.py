"""Run pipelines that were written for NeMo Curator."""


def install() -> None:
    """Let ``import nemo_curator`` find dcurate."""
