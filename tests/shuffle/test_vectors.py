"""Files of vectors."""

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate.shuffle.vectors import read_vector_rows, read_vectors, write_vectors


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.sets(st.integers(0, 49)))
def test_any_rows_of_a_file_can_be_read_alone(tmp_path: Path, rows: set[int]) -> None:
    matrix = np.random.default_rng(1).random((50, 7), np.float32)
    path = tmp_path / "a.vectors"
    with path.open("wb") as file:
        write_vectors(file, matrix)
    assert path.stat().st_size == matrix.nbytes
    assert (read_vectors(str(path), {}, 7, 3, 9) == matrix[3:9]).all()
    assert read_vectors(str(path), {}, 7, 4, 4).shape == (0, 7)
    wanted = np.array(sorted(rows), np.int64)
    assert (read_vector_rows(str(path), {}, 7, wanted) == matrix[wanted]).all()


def test_rows_far_apart_are_read_without_what_lies_between(tmp_path: Path) -> None:
    matrix = np.arange(3 * 2**17, dtype=np.float32).reshape(-1, 8)
    path = tmp_path / "a.vectors"
    with path.open("wb") as file:
        write_vectors(file, matrix)
    wanted = np.array([0, 1, 30_000, len(matrix) - 1])
    assert (read_vector_rows(str(path), {}, 8, wanted) == matrix[wanted]).all()
