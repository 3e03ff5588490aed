from hypothesis import given
from hypothesis import strategies as st

from dcurate.cluster import Shape

shapes = st.builds(
    lambda least, more, **fields: Shape(minimum=least, maximum=least + more, **fields),
    least=st.integers(0, 9),
    more=st.integers(1, 9),
    cpus=st.floats(0, 1e3),
    gpus=st.integers(0, 8),
    gpu_memory=st.floats(0, 1e12),
    max_slots=st.integers(1, 64),
    host=st.text(max_size=3),
)


@given(shapes, st.integers(-5, 50))
def test_a_clamped_number_may_be_and_is_the_nearest_that_may(shape: Shape, number: int) -> None:
    clamped = shape.clamped(number)
    assert shape.minimum <= clamped <= shape.maximum
    assert all(abs(clamped - number) <= abs(other - number) for other in range(shape.minimum, shape.maximum + 1))


@given(shapes)
def test_a_shape_survives_being_sent(shape: Shape) -> None:
    assert Shape.from_dict(shape.to_dict()) == shape
