import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import ResourceError, Resources

amounts = st.floats(0, 1000)


@given(cpus=amounts)
def test_cpu_resources_never_require_a_gpu(cpus: float) -> None:
    assert not Resources(cpus=cpus).requires_gpu


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"cpus": -1}, "cpus=-1 must be zero or more"),
        ({"cpus": float("nan")}, "cpus=nan must be zero or more"),
        ({"cpus": "2"}, "cpus='2' is not a number"),
        ({"gpus": 1.5}, "gpus=1.5 must be a fraction of one GPU or a whole number of GPUs"),
        ({"gpus": 1, "gpu_memory_gb": 8}, "gpus=1 and gpu_memory_gb=8 say the same thing twice; give one of them"),
    ],
)
def test_impossible_resources_are_refused_in_one_sentence(settings: dict, sentence: str) -> None:
    with pytest.raises(ResourceError, match="^" + sentence.replace("(", r"\(") + "$"):
        Resources(**settings)


def test_more_gpu_memory_than_any_card_has_is_no_matter_of_this_machine() -> None:
    assert Resources(gpu_memory_gb=10_000).requires_gpu
