"""Compare the records of CSV files, and write files again without some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dcurate.errors import DataError
from dcurate.fs.compression import blocks, ending_of, packing
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.csv_rows import Dialect, first_record, parse, records
from dcurate.io.optouts import ComparedColumns
from dcurate.io.row_removal import ComparedRows

_BOM = b"\xef\xbb\xbf"


def compared_records(
    directory: Directory, name: str, compared: ComparedColumns, dialect: Dialect
) -> Iterator[ComparedRows]:
    """Yield the values that documents are known by, of the records of a file with a header; it is held in memory.

    Raises:
        DataError: the file cannot be read, or has records of another number of values than its header.
    """
    data = _content(directory, name)
    try:
        names, begin = first_record(data, dialect)
    except ValueError as error:
        raise DataError(f"{directory.path(name)!r}: {error}; its documents cannot be compared") from error
    table, bad, _ = parse(data[begin:], names, {}, dialect)
    if bad:
        raise DataError(
            f"{directory.path(name)!r}, line {bad[0].line} after the header: {bad[0].error}; correct it, or move it "
            "elsewhere"
        )
    columns = {column: table.column(place).to_pylist() for place, column in enumerate(names)}
    id_name = compared.id_in(names)
    yield ComparedRows(
        list(range(table.num_rows)),
        columns.get(compared.url),
        None if id_name is None else columns[id_name],
        columns.get(compared.text),
    )


def write_without_records(
    directory: Directory, name: str, gone: Collection[int], staged: Directory, dialect: Dialect
) -> int:
    """Write a file again under its name in another directory without some records, by their numbers after the header.

    All other bytes stay.

    Returns:
        The bytes that were written.

    Raises:
        DataError: the file cannot be read, or not written.
    """
    data = _content(directory, name)
    with staged.writing(name) as file:
        with packing(file, ending_of(name)) as packed:
            at = 0
            for number, record in enumerate(records(data, dialect), start=-1):
                if number in gone:
                    packed.write(data[at : record.start])
                    at = record.start + len(record.raw)
            packed.write(data[at:])
        return file.tell()


def _content(directory: Directory, name: str) -> bytes:
    path = directory.path(name)
    store, place = open_store(path, directory.options)
    with storage_errors("read", path), store.open(place, "rb") as file:
        data = b"".join(blocks(file, ending_of(name), path))
    if data.startswith(_BOM):
        raise DataError(f"{path!r} begins with a byte order mark, which dcurate does not write; save it without one")
    return data
