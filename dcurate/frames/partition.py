"""Convert partitions of a Dask DataFrame to batches and back; columns that no stage changed keep their exact values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import BatchKey
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames import convert
from dcurate.frames.document import DocumentBatch
from dcurate.frames.libraries import pd

#: The column of a batch that numbers the rows of its partition; it is gone from the result.
ROW = "_dcurate_row"
#: Dask's mark of a categorical column whose categories differ from partition to partition.
_UNKNOWN_CATEGORIES = "__UNKNOWN_CATEGORIES__"


@dataclass
class Partition(DocumentBatch):
    """The rows of one partition, with row numbers in the column `ROW`.

    Args:
        origin: the partition as it came.
        needed: the columns that stages read; any other may be of a type that Arrow does not have.
        kept: the columns that have the dtype afterwards that they came with, unless a stage changes their values.
        aside: columns left out of the Arrow table, because Arrow cannot hold them.
    """

    origin: Any = None
    needed: Collection[str] = ()
    kept: Collection[str] = ()
    aside: set[str] = field(default_factory=set)

    def to_arrow(self) -> pa.Table:
        if not isinstance(self.data, pd.DataFrame):
            return super().to_arrow()
        columns = {}
        for place, name in enumerate(map(str, self.data.columns)):
            column = convert.arrow_column(self.data.iloc[:, place], self._kind(name))
            if column is not None and not _no_way_back(column.type):
                columns[name] = column
            elif name in self.needed:
                return super().to_arrow()  # which says why it cannot
            else:
                self.aside.add(name)
        return pa.table(columns)

    def _kind(self, name: str) -> pa.DataType | None:
        return self._types.field(name).type if self._types is not None and name in self._types.names else None

    def to_pandas(self) -> pd.DataFrame:
        if not isinstance(self.data, pa.Table):
            return super().to_pandas()
        rows = super().to_pandas()
        for place, name in enumerate(self.data.column_names):
            came, made = _column(self.origin, name), self.data.column(place)
            if came is not None and came.dtype != rows.dtypes.iloc[place] and _type(came) == made.type:
                rows.isetitem(place, _cast(made, came.dtype, name, str(self.key)).array)
        return rows


def check_frame(columns: Sequence[Any]) -> None:
    """Refuse ambiguous column names.

    Raises:
        PipelineError: two have the same name as text, or one has the name of the column that numbers the rows.
    """
    names = [str(name) for name in columns]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise PipelineError(f"several columns of the frame are called {listed(twice)}; rename all but one")
    if ROW in names:
        raise PipelineError(f"column {ROW!r} of the frame has the name by which dcurate numbers rows; rename it")


def parted(frame: Any, key: BatchKey, needed: Collection[str], kept: Collection[str] = ()) -> Partition:
    """A partition as a batch; see `Partition`."""
    data = frame.reset_index(drop=True)
    data[ROW] = np.arange(len(data), dtype=np.int64)
    return Partition(data=data, key=key, origin=frame, needed=needed, kept=kept)


def meta_of(part: Partition, made: Sequence[DocumentBatch]) -> pd.DataFrame:
    """The empty frame that stages make of an empty partition.

    A column keeps its dtype if the type of its output is the same; the index is kept if the rows can be traced.
    """
    rows, origin = _stacked(made), part.origin
    traced = ROW in convert.columns(rows)
    names = [name for name in convert.columns(rows) if name != ROW]
    for name in _left_out(part, names) if traced else ():
        before = [earlier for earlier in _before(origin, name) if earlier in names]
        names.insert(names.index(before[-1]) + 1 if before else 0, name)
    labels = {str(label): label for label in origin.columns}
    columns = {labels.get(name, name): _model(_column(origin, name), _column(rows, name)) for name in names}
    return _framed(columns, origin, origin.index[:0] if traced else None)


def _before(origin: pd.DataFrame, name: str) -> list[str]:
    names = [str(label) for label in origin.columns]
    return names[: names.index(name)]


def _model(came: pd.Series[Any] | None, made: Any) -> pd.Series[Any]:
    """An empty column with its output dtype: the original one if its type is the same."""
    if came is not None and (made is None or _is_of(made, came.dtype) or _type(made) == _type(came)):
        if _open(came.dtype):  # Dask gives no categories for what it reads from Parquet, and could not write that
            return came.iloc[:0].cat.set_categories([_UNKNOWN_CATEGORIES])
        return came.iloc[:0]
    if isinstance(made, pd.Series):
        return made.iloc[:0]
    return pd.Series(dtype=_default(made.type))


def restored(part: Partition, made: Sequence[DocumentBatch], meta: pd.DataFrame) -> pd.DataFrame:
    """The frame made by stages, with the columns, dtypes and index of a model.

    Raises:
        DataError: there are other columns, a value does not fit its dtype, or rows cannot be traced whose index, or
            values that Arrow cannot hold, are to stay.
    """
    origin, where = part.origin, f"apply() to {part.key}"
    if not made:
        return _nothing(part, meta)
    rows = _stacked(made)
    numbers = _row_numbers(rows, where)
    names = [name for name in convert.columns(rows) if name != ROW]
    left_out = [] if numbers is None else _left_out(part, names)
    wanted = [str(name) for name in meta.columns]
    missing = [name for name in wanted if name not in (*names, *left_out)]
    more = [name for name in names if name not in wanted]
    if missing or more:
        difference = f"no column {listed(missing)}" if missing else f"column {listed(more)} besides those of meta"
        raise DataError(f"{where}: the stages made {difference}; give an empty frame like the result as meta=")
    columns = {}
    for label, dtype in meta.dtypes.items():
        name = str(label)
        came, content = _column(origin, name), None if name in left_out else _column(rows, name)
        if numbers is None or came is None:
            columns[label] = _cast(content, dtype, name, where)
        elif content is None or (name in part.kept and _same(content, came, numbers)):
            columns[label] = came if _is_all(numbers, len(came)) else came.take(numbers)
        else:
            columns[label] = _cast(content, dtype, name, where)
    return _framed(columns, meta, _index(origin.index, numbers, meta.index, where), len(rows))


def with_index_of(meta: pd.DataFrame, origin: Any) -> pd.DataFrame:
    """A model with the index of a frame, unless the model has its own: other than unnamed whole numbers."""
    return meta.iloc[:0].set_axis(origin.index[:0]) if _plain(meta.index) else meta


def _index(origin: pd.Index, numbers: npt.NDArray[np.int64] | None, model: pd.Index, where: str) -> pd.Index | None:
    """The index of the given rows, or a fresh one of the model's kind for None."""
    if numbers is None and not _plain(model):
        raise DataError(
            f"{where}: the stages replaced the rows, so the index {model.name or ''!r} cannot be kept; "
            "make it a column with reset_index() first"
        )
    if numbers is None or (_plain(model) and not _plain(origin)):
        return None
    return origin if _is_all(numbers, len(origin)) else origin.take(numbers)


def _plain(index: pd.Index) -> bool:
    """Whether an index is unnamed whole numbers, like a fresh one."""
    return not isinstance(index, pd.MultiIndex) and index.name is None and pd.api.types.is_integer_dtype(index.dtype)


def _is_all(numbers: npt.NDArray[np.int64], rows: int) -> bool:
    return len(numbers) == rows and bool((numbers == np.arange(rows)).all())


def _row_numbers(rows: Any, where: str) -> npt.NDArray[np.int64] | None:
    """The source row in the partition of each row; None if stages do not record it."""
    column = _column(rows, ROW)
    if column is None:
        return None
    numbers = convert.arrow_column(column) if isinstance(column, pd.Series) else column
    if numbers is None or numbers.null_count or not pa.types.is_integer(numbers.type):
        raise DataError(f"{where}: a stage changed the column {ROW!r}, which numbers the rows; leave it as it is")
    return np.asarray(numbers.to_numpy(), np.int64)


def _stacked(made: Sequence[DocumentBatch]) -> Any:
    """The rows of batches in one frame of pandas or Arrow; dtypes of empty ones are ignored if there are others."""
    full = [batch for batch in made if batch.num_items] or list(made[:1])
    if len(full) == 1:
        data = full[0].data
        return data if isinstance(data, pd.DataFrame) else full[0].to_arrow()
    if all(isinstance(batch.data, pd.DataFrame) for batch in full):
        return convert.stacked([batch.data for batch in full])
    return pa.concat_tables([batch.to_arrow() for batch in full], promote_options="permissive").combine_chunks()


def _nothing(part: Partition, meta: pd.DataFrame) -> pd.DataFrame:
    """An empty frame with the columns of the model; kept columns are unchanged."""
    columns = {
        label: _column(part.origin if str(label) in part.kept else meta, str(label)).iloc[:0] for label in meta.columns
    }
    return _framed(columns, meta, meta.index[:0] if _plain(meta.index) else part.origin.index[:0])


def kept_of(meta: pd.DataFrame, origin: Any) -> tuple[str, ...]:
    """The columns with the same dtype in both frames."""
    before = dict(zip(convert.columns(origin), origin.dtypes, strict=True))
    return tuple(
        str(label)
        for label, dtype in meta.dtypes.items()
        if before.get(str(label)) == dtype or (_open(before.get(str(label))) and _open(dtype))
    )


def _framed(columns: dict[Any, Any], model: pd.DataFrame, index: pd.Index | None, rows: int = 0) -> pd.DataFrame:
    """Return a frame of columns of equal length, with the name of the column index of the model."""
    index = pd.RangeIndex(rows) if index is None else index
    made = {
        label: pd.Series(content.array, index=index, dtype=content.dtype, copy=False)
        for label, content in columns.items()
    }
    frame = pd.DataFrame(made, index=index)
    frame.columns.name = model.columns.name
    return frame


def _left_out(part: Partition, names: Sequence[str]) -> list[str]:
    """The columns that stages did not receive, and did not make themselves."""
    return [name for name in map(str, part.origin.columns) if name in part.aside and name not in names]


def _column(frame: Any, name: str) -> Any:
    """The column of that name: a pandas Series, or a chunked Arrow array; None if it does not exist."""
    names = convert.columns(frame)
    if name not in names:
        return None
    place = names.index(name)
    return frame.column(place) if isinstance(frame, pa.Table) else frame.iloc[:, place]


def _is_of(column: Any, dtype: Any) -> bool:
    """Whether a column is a pandas Series of a dtype."""
    return isinstance(column, pd.Series) and bool(column.dtype == dtype)


def _no_way_back(kind: pa.DataType) -> bool:
    """Whether pandas cannot restore the column: categories that are intervals or periods."""
    return pa.types.is_dictionary(kind) and isinstance(kind.value_type, pa.BaseExtensionType)


def _type(column: Any) -> pa.DataType | None:
    content = convert.arrow_column(column) if isinstance(column, pd.Series) else column
    return None if content is None else content.type


def _same(made: Any, came: pd.Series[Any], numbers: npt.NDArray[np.int64]) -> bool:
    """Whether a column equals the given rows of the original, nulls and NaN included, in the same type."""
    before = convert.arrow_column(came)
    if before is None:
        return False
    after = convert.arrow_column(made, before.type) if isinstance(made, pd.Series) else made
    if after is None or before.type != after.type:
        return False
    if not _is_all(numbers, len(came)):
        before = before.take(pa.array(numbers))
    if pa.types.is_floating(before.type):
        bits = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[before.type.bit_width]
        before, after = (
            pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits) for column in (before, after)
        )
    if before.equals(after):
        return True
    nested = pa.types.is_nested(before.type) or pa.types.is_dictionary(before.type)
    return nested and repr(before.to_pylist()) == repr(after.to_pylist())  # a NaN within is equal to no other


def _open(dtype: Any) -> bool:
    """Whether a categorical dtype of a model leaves the categories open."""
    return isinstance(dtype, pd.CategoricalDtype) and list(dtype.categories) in ([], [_UNKNOWN_CATEGORIES])


def _default(kind: pa.DataType) -> Any:
    """The dtype for an Arrow column added by stages: a specific one, where pandas has only object."""
    if pa.types.is_dictionary(kind):
        return _default(kind.value_type)
    dtype = pa.table({"column": pa.array([], kind)}).to_pandas().dtypes.iloc[0]
    return pd.ArrowDtype(kind) if pd.api.types.is_object_dtype(dtype) and not pa.types.is_null(kind) else dtype


def _cast(made: Any, dtype: Any, name: str, where: str) -> pd.Series[Any]:
    """Cast a column to another dtype.

    Raises:
        DataError: that would change a value.
    """
    if _is_of(made, dtype):
        return cast("pd.Series[Any]", made)
    try:
        return _casted(made, dtype)
    except (*convert.NO_TYPE, NotImplementedError) as error:
        holds = made.dtype if isinstance(made, pd.Series) else made.type
        raise DataError(
            f"{where}: column {name!r} holds {holds}, which does not fit {dtype} ({_first_line(error)}); "
            "give an empty frame with a dtype that holds all of its values as meta="
        ) from error


def _first_line(error: Exception) -> str:
    return str(error.args[0] if error.args else error).partition("\n")[0]


def _casted(made: Any, dtype: Any) -> pd.Series[Any]:
    content = convert.arrow_column(made) if isinstance(made, pd.Series) else made
    if content is None:
        return cast("pd.Series[Any]", made.astype(dtype))
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(content, dtype)
    if pa.types.is_dictionary(content.type) and not isinstance(dtype, pd.ArrowDtype):
        content = content.cast(content.type.value_type)
    if isinstance(dtype, pd.StringDtype):
        content = content.cast(pa.large_string())
    elif isinstance(dtype, pd.DatetimeTZDtype):
        content = content.cast(pa.timestamp(dtype.unit, str(dtype.tz)))
    elif isinstance(dtype, pd.api.extensions.ExtensionDtype):
        number = getattr(dtype, "numpy_dtype", None)
        if number is not None and not isinstance(dtype, pd.ArrowDtype):
            content = content.cast(pa.from_numpy_dtype(number))
    elif not pd.api.types.is_object_dtype(dtype):
        content = content.cast(pa.from_numpy_dtype(dtype))
        if content.null_count and dtype.kind in "biu":
            raise ValueError(f"{content.null_count} missing values")
    if hasattr(dtype, "__from_arrow__"):
        return pd.Series(dtype.__from_arrow__(content))
    values = pa.table({"column": content}).to_pandas(integer_object_nulls=True)["column"]  # else floats
    return cast("pd.Series[Any]", values.astype(dtype))


def _categories(content: pa.ChunkedArray, dtype: pd.CategoricalDtype) -> pd.Series[Any]:
    values = cast("pd.Series[Any]", pa.table({"column": content}).to_pandas()["column"])
    if _open(dtype):
        return values.astype("category")
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.dtype.categories.dtype)
    unknown = values[values.notna() & ~values.isin(dtype.categories)]
    if len(unknown):
        raise ValueError(f"{unknown.iloc[0]!r} is not a category")
    return values.astype(dtype)
