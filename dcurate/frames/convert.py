"""Convert between frame libraries, and measure frames."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.errors import DataError, ResourceError
from dcurate.frames.libraries import pd
from dcurate.frames.schema import fitted, with_fields_of, without
from dcurate.kernels.cuda import usable

#: Types whose values are the same objects in pandas.
_FAMILIES = (
    (pa.types.is_string, pa.types.is_large_string),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
    (pa.types.is_decimal,),
    (pa.types.is_date,),
    (pa.types.is_time,),
    (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    ),
    (pa.types.is_struct,),
    (pa.types.is_dictionary,),
)
#: What Arrow and pandas raise for values that Arrow has no one type for, or that do not fit a type.
NO_TYPE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def is_cudf(frame: Any) -> bool:
    """Whether it is a cuDF frame."""
    return type(frame).__module__.partition(".")[0] == "cudf"


def as_frame(data: Any) -> Any | None:
    """Return rows of another library as an Arrow table; None if `data` is no table.

    Arrow tables, pandas and cuDF frames are returned as they are. Others are read through Arrow's C stream interface
    (frames of Polars, relations of DuckDB, Arrow readers and record batches), and Arrow datasets and scanners whole.
    Dictionaries and views become plain values. The rows of a data set of Hugging Face `datasets` stay where they are,
    in memory or in mapped files, unless it was shuffled or filtered.

    Examples:
        >>> as_frame(pa.table({"n": [1, 2]}).to_reader()).num_rows, as_frame([1, 2])
        (2, None)
    """
    if isinstance(data, pa.Table | pd.DataFrame) or is_cudf(data):
        return data
    try:
        if type(data).__module__ == "pyarrow._dataset":
            table = data.to_table()
        elif type(data).__module__ == "datasets.arrow_dataset":
            return _with_plain_columns(data.with_format("arrow")[:])
        elif callable(getattr(data, "__arrow_c_stream__", None)):
            table = pa.RecordBatchReader.from_stream(data).read_all()
        else:
            return None
    except (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError):  # a column, say, or a fragment of a dataset
        return None
    return _with_plain_columns(table).combine_chunks()


def _with_plain_columns(table: pa.Table) -> pa.Table:
    for place, column in enumerate(table.columns):
        kind = without(column.type, "encoding")
        if kind != column.type:
            table = table.set_column(place, table.column_names[place], _plain(column, kind))
    return table


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column to plain values; Arrow casts no dictionary of views, as Polars has for categories, at once."""
    if pa.types.is_dictionary(column.type):
        values = (pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind)) for chunk in column.chunks)
        column = pa.chunked_array(values, pa.dictionary(column.type.index_type, kind))
    return column.cast(kind)


def to_arrow(frame: Any, types: pa.Schema | None = None) -> pa.Table:
    """An Arrow table of the rows of an Arrow, pandas or cuDF frame, each column in one chunk.

    Args:
        frame: a frame of any of these libraries.
        types: the schema of the rows before they became a frame of another library: lists, maps, decimals, dates, bytes
            and texts, whose exact type pandas does not keep, are restored where their values fit, and so is metadata.

    Raises:
        DataError: the frame is of none of these kinds, or a column holds values that Arrow has no one type for.
    """
    if isinstance(frame, pa.Table):
        plain = _without_views(frame.schema.remove_metadata())
        frame = frame if plain is None else fitted(frame, plain.with_metadata(frame.schema.metadata))
        return frame if all(column.num_chunks <= 1 for column in frame.columns) else frame.combine_chunks()
    if isinstance(frame, pd.DataFrame):
        table = _of_pandas(frame, types)
    elif is_cudf(frame):
        table = frame.to_arrow(preserve_index=False).replace_schema_metadata(None)
    else:
        raise DataError(f"a batch holds an Arrow table or a pandas or cuDF frame, not {type(frame).__name__}")
    return table if types is None else with_fields_of(table, types)


@lru_cache(maxsize=64)
def _without_views(schema: pa.Schema) -> pa.Schema | None:
    """A schema with plain types for views, as Arrow cannot take rows of views; None if it has no views."""
    plain = pa.schema([column.with_type(without(column.type, "view")) for column in schema])
    return None if plain.types == schema.types else plain


def arrow_column(column: pd.Series[Any], kind: pa.DataType | None = None) -> pa.ChunkedArray | None:
    """A pandas column as Arrow; None for values without a common Arrow type.

    Args:
        column: a column of any dtype.
        kind: the type that it had before it was pandas, if it had one.
    """
    before = kind if kind is not None and pa.types.is_map(kind) else None  # pandas has tuples, which are no map
    schema = None if before is None else pa.schema([("column", before)])
    try:
        made = pa.Table.from_pandas(column.to_frame("column"), schema, preserve_index=False).column(0)
    except NO_TYPE:
        return _of_type(column, kind) if before is None else arrow_column(column)
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    is_bool8 = stored is not kind and stored == pa.int8() and made.type == pa.int64()
    if stored is None or made.type == kind or not (made.type == stored or _alike(made.type, stored) or is_bool8):
        return made
    try:
        return made.cast(stored).cast(kind)
    except NO_TYPE:  # Arrow casts no lists to views of lists
        typed = _of_type(column, kind)
        return made if typed is None else typed


def _of_type(column: pd.Series[Any], kind: pa.DataType | None) -> pa.ChunkedArray | None:
    """A column as Arrow of the type that it had; Arrow itself takes no whole numbers of 64 bits within objects."""
    try:
        return None if kind is None else pa.chunked_array([pa.array(column, kind, from_pandas=True)])
    except NO_TYPE:
        return None


def _of_pandas(frame: pd.DataFrame, types: pa.Schema | None) -> pa.Table:
    columns, names = [], [str(name) for name in frame.columns]
    for place, name in enumerate(names):
        kind = types.field(name).type if types is not None and name in types.names else None
        column = arrow_column(frame.iloc[:, place], kind)
        if column is None:
            raise DataError(
                f"column {name!r} ({frame.dtypes.iloc[place]}) holds values without a common Arrow type, "
                "which a batch needs; convert or drop the column"
            )
        columns.append(column)
    return pa.Table.from_arrays(columns, names) if columns else pa.table({"": pa.nulls(len(frame))}).select([])


def _alike(made: pa.DataType, before: pa.DataType) -> bool:
    """Whether two types are of one family, for which pandas has a single dtype."""
    if pa.types.is_null(made):
        return not pa.types.is_dictionary(before)
    return any(any(is_(made) for is_ in family) and any(is_(before) for is_ in family) for family in _FAMILIES)


def to_pandas(frame: Any) -> pd.DataFrame:
    """A pandas frame of the rows, with pandas' default dtypes (strings are backed by Arrow).

    Whole numbers with gaps are pandas' ``Int64`` and its like: the default is floats, which cannot hold large ids.

    Raises:
        DataError: the frame is not an Arrow, pandas or cuDF frame.
    """
    if isinstance(frame, pd.DataFrame):
        return frame.copy(deep=False)
    if is_cudf(frame):
        return cast(pd.DataFrame, frame.to_pandas())
    table = to_arrow(frame)
    try:
        rows = _as_objects(table, _without_objects())
    except (pa.ArrowNotImplementedError, ValueError, OverflowError):
        rows = _as_objects(table, _without_objects() | _kept_as_arrow(table))
    for place, column in enumerate(table.columns):
        if pa.types.is_integer(column.type) and column.null_count:
            rows.isetitem(place, column.to_pandas(types_mapper=_with_gaps().get))
    return rows


def _as_objects(table: pa.Table, dtypes: Mapping[pa.DataType, Any]) -> pd.DataFrame:
    return cast(pd.DataFrame, table.to_pandas(integer_object_nulls=True, types_mapper=dtypes.get))


def _kept_as_arrow(table: pa.Table) -> dict[pa.DataType, pd.ArrowDtype]:
    """The dtypes of columns of which Python has no values: of dates behind the year 9999, of lists of UUIDs."""
    dtypes = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            _as_objects(pa.table({name: column}), _without_objects())
        except (pa.ArrowNotImplementedError, ValueError, OverflowError):
            dtypes[column.type] = pd.ArrowDtype(column.type)
    return dtypes


@cache
def _with_gaps() -> dict[pa.DataType, Any]:
    """Nullable integers, in pandas."""
    signed = (pd.Int8Dtype(), pd.Int16Dtype(), pd.Int32Dtype(), pd.Int64Dtype())
    unsigned = (pd.UInt8Dtype(), pd.UInt16Dtype(), pd.UInt32Dtype(), pd.UInt64Dtype())
    return {pa.type_for_alias(dtype.name.lower()): dtype for dtype in signed + unsigned}


@cache
def _without_objects() -> dict[pa.DataType, pd.ArrowDtype]:
    """Times without a Python type, which ends at microseconds."""
    return {pa.time64("ns"): pd.ArrowDtype(pa.time64("ns"))}


def to_python(frame: Any) -> pd.DataFrame:
    """Like `to_pandas`, but lists within the rows are Python's lists, not NumPy's arrays.

    Examples:
        >>> to_python(pa.table({"tags": [["a", "b"], []]})).tags.tolist()
        [['a', 'b'], []]
    """
    rows = to_pandas(frame)
    if is_arrow(frame):
        for place, column in enumerate(frame.columns):
            if pa.types.is_nested(column.type):
                values = np.empty(len(rows), object)
                values[:] = column.to_pylist()
                rows.isetitem(place, values)
    return rows


def is_arrow(frame: Any) -> bool:
    """Whether it is an Arrow table."""
    return isinstance(frame, pa.Table)


def to_cudf(frame: Any) -> Any:
    """A cuDF frame of the rows.

    Raises:
        ResourceError: cuDF is not installed or finds no GPU.
    """
    return frame if is_cudf(frame) else cudf().DataFrame.from_arrow(to_arrow(frame))


def cudf() -> Any:
    """The library cuDF.

    Raises:
        ResourceError: it is not installed or finds no GPU.
    """
    try:
        library = importlib.import_module("cudf")
    except ImportError as error:
        raise ResourceError("to_cudf() needs cuDF: pip install 'dcurate[cuda13]' on a machine with a GPU") from error
    if not usable():  # asked first, as cuDF fails with an error of another kind at each of its functions
        raise ResourceError("cuDF needs a GPU, and there is none here; use to_arrow() or to_pandas()")
    return library


def rows_at(frame: Any, rows: npt.NDArray[np.int64]) -> Any:
    """The rows of a cuDF frame with these numbers, in this order, on the GPU."""
    return frame.take(rows).reset_index(drop=True)


def with_column(frame: Any, name: str, column: Any) -> Any:
    """A cuDF frame with a column added or replaced."""
    return frame.assign(**{name: column})


def from_rows(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A pandas frame of rows, each a mapping of columns to values."""
    return pd.DataFrame(rows)


def stacked(frames: list[Any]) -> Any:
    """Concatenate pandas or cuDF frames, with a fresh index."""
    if len(frames) == 1:
        return frames[0]
    return (cudf() if is_cudf(frames[0]) else pd).concat(frames, ignore_index=True)


def columns(frame: Any) -> list[str]:
    """Column names of the frame, in order."""
    return list(frame.column_names) if isinstance(frame, pa.Table) else [str(name) for name in frame.columns]


def nbytes(frame: Any) -> int:
    """Bytes of the frame's rows in memory; of a slice, only the slice."""
    if isinstance(frame, pa.Table):
        return int(frame.nbytes)
    if isinstance(frame, pd.DataFrame) or is_cudf(frame):
        return int(frame.memory_usage(index=False).sum())
    return sys.getsizeof(frame)
