"""Operators are sent to workers with what errors and fingerprints need of their code."""

import cloudpickle

from dcurate import DocumentBatch, processing_stage
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec


def test_code_that_is_sent_by_value_keeps_its_file() -> None:
    @processing_stage(name="same")
    def same(task: DocumentBatch) -> DocumentBatch:
        return next(task for _ in "a")  # a function within a function

    (sent,) = cloudpickle.loads(pickled(OperatorSpec("same", (same,)))).stages
    assert sent.function is not same.function
    assert sent.function.__code__ == same.function.__code__
    assert sent.function.__code__.co_filename == __file__
