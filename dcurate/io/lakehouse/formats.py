"""Tables by the names of their formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.core.extras import missing, missing_dependency
from dcurate.errors import PipelineError, nearest
from dcurate.io.lakehouse.delta import DeltaTable
from dcurate.io.lakehouse.iceberg import IcebergTable
from dcurate.io.lakehouse.lance import LanceTable
from dcurate.io.lakehouse.table import LakeTable

FORMATS: dict[str, type[LakeTable]] = {"delta": DeltaTable, "iceberg": IcebergTable, "lance": LanceTable}


def table_of(kind: str, path: str, options: Mapping[str, Any], catalog: Any, asks: str) -> LakeTable:
    """Return the table of a format.

    Args:
        kind: the name of the format.
        path: path of the table.
        options: fsspec's ``storage_options``.
        catalog: properties of the Iceberg catalog.
        asks: what needs it, for the error.

    Raises:
        PipelineError: the format is not known, a catalog is given for another format or is not a mapping, or the table
            has no namespace in it.
    """
    if kind not in FORMATS:
        raise PipelineError(f"{asks}: format={kind!r} is not a format of tables{nearest(str(kind), FORMATS)}")
    if catalog is not None and kind != "iceberg":
        raise PipelineError(f"{asks}: only tables of Iceberg are in a catalog; leave out catalog= with {kind!r}")
    if catalog is not None and not isinstance(catalog, Mapping):
        raise PipelineError(
            f"{asks}: catalog must be a mapping of what pyiceberg asks for, such as "
            "{'name': 'prod', 'type': 'rest', 'uri': 'https://catalog.example'}"
        )
    if catalog is not None and not all(path.rpartition(".")[::2]):
        raise PipelineError(f"{asks}: {path!r} must be a name in the catalog, such as 'namespace.table'")
    return FORMATS[kind](path, options, catalog)


def check_library(table: LakeTable, asks: str) -> None:
    """Refuse a table whose library is not installed.

    Raises:
        ResourceError: it is not.
    """
    if missing([table.library]):
        raise missing_dependency(asks, f"No module named {table.library!r}", "tables")
