"""Writes down the signatures of what dcurate calls of cuDF, from an installed cuDF; no GPU is needed.

python -m venv /tmp/cudf && /tmp/cudf/bin/pip install 'cudf-cu13==26.10.*'
/tmp/cudf/bin/python tests/frames/record_cudf.py >tests/frames/cudf_signatures.json
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from importlib.metadata import distributions
from typing import Any

#: Functions by their full names; those of C extensions without a signature are there or not.
CALLED = (
    "cudf.DataFrame.from_arrow",
    "cudf.DataFrame.to_arrow",
    "cudf.DataFrame.to_pandas",
    "cudf.DataFrame.memory_usage",
    "cudf.DataFrame.take",
    "cudf.DataFrame.reset_index",
    "cudf.DataFrame.assign",
    "cudf.DataFrame.columns",
    "cudf.DataFrame.iloc",
    "cudf.Series.dtype",
    "cudf.Series.fillna",
    "cudf.Series.to_pylibcudf",
    "cudf.concat",
    "cudf.core.column.column.ColumnBase.access",
    "cudf.read_parquet",
    "cudf.core.accessors.string.StringMethods.minhash",
    "pylibcudf.Column.child",
    "pylibcudf.Column.data",
    "pylibcudf.Column.null_count",
    "pylibcudf.Column.num_children",
    "pylibcudf.Column.offset",
    "pylibcudf.Column.size",
    "pylibcudf.Column.type",
    "pylibcudf.DataType.id",
    "pylibcudf.TypeId.INT64",
    "pylibcudf.TypeId.STRING",
    "pylibcudf.gpumemoryview.gpumemoryview.__cuda_array_interface__",
    "dask_cuda.LocalCUDACluster.__init__",
    "rmm.allocators.numba.RMMNumbaManager",
    "cupy.add.at",
    "cupy.asarray",
    "cupy.maximum",
    "cupy.ones",
    "cupy.take_along_axis",
    "cupy.tri",
    "cupy.where",
    "cupy.zeros",
    "cupy.ndarray.argmax",
    "cupy.ndarray.get",
    "cupy.ndarray.sum",
)


def found(name: str) -> Any:
    """Return the object with a full name."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise ImportError(name)


def signature(value: Any) -> list[list[Any]] | None:
    """The parameters of a function: names, kinds, whether they are optional; None if unknown."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[one.name, one.kind.name, one.default is not inspect.Parameter.empty] for one in parameters]


def main() -> None:
    names = ("cudf-cu13", "pylibcudf-cu13", "dask-cuda", "rmm-cu13", "cupy-cuda13x")
    versions = {one.name: one.version for one in distributions() if one.name in names}
    signatures = ",\n".join(f"  {json.dumps(name)}: {json.dumps(signature(found(name)))}" for name in CALLED)
    sys.stdout.write(
        f'{{\n "versions": {json.dumps(versions, sort_keys=True)},\n "signatures": {{\n{signatures}\n }}\n}}\n'
    )


if __name__ == "__main__":
    main()
