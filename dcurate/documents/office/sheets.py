"""XLSX to blocks."""

from __future__ import annotations

import datetime
import io
import warnings
import zipfile
import zlib
from typing import Any

import openpyxl

from dcurate.documents.office.blocks import Blocks, check_grid, document
from dcurate.documents.office.package import Package, attribute_of_relation, core_properties, local, main_part
from dcurate.media.errors import MediaError

#: Rows that a sheet may have; openpyxl makes all that are missing before one of any number.
_MOST_ROWS = 2**20
#: Cells that may be empty for each that may not: openpyxl makes them before one in a far column.
_EMPTY_A_CELL = 20
#: Namespaces of strict OOXML, and those of the transitional one.
_STRICT = (
    (b"http://purl.oclc.org/ooxml/spreadsheetml/main", b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"),
    (
        b"http://purl.oclc.org/ooxml/officeDocument/relationships",
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    ),
)
#: What a broken archive raises when one of its members is read.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError)


def extract_xlsx(
    data: bytes, package: Package, max_characters: int = 100_000_000, max_cells: int = 5_000_000
) -> dict[str, Any]:
    """The sheets of a workbook as tables, each under its name as heading.

    Formulas appear as the value that the program which saved the file computed. Hidden sheets, empty rows and empty
    columns are left out. Dates are written as in ISO 8601, percentages with their sign.

    Args:
        data: the file.
        package: the same as an opened archive.
        max_characters: the file is refused when its text is longer.
        max_cells: the file is refused when it has more cells that hold something.

    Raises:
        MediaError: "damaged", also if a sheet that the file names is missing; "too many cells", "too much text".
    """
    blocks = Blocks(max_characters)
    cells = looked_at = 0
    main = main_part(package, "xl/workbook.xml")
    if _STRICT[0][0] in package.read(main):
        data = _transitional(package)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that are not read
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
            _require_sheets(package.xml(main), book.sheetnames)
            for sheet in book.worksheets:
                if sheet.sheet_state != "visible":
                    continue
                blocks.page()
                blocks.heading(2, sheet.title)
                sheet.reset_dimensions()
                rows: list[dict[int, str]] = []
                for row in sheet.iter_rows(max_row=_MOST_ROWS):
                    filled = {cell.column: _shown(cell) for cell in row if cell.value is not None}
                    cells += len(filled)
                    looked_at += 1 + len(row)
                    if cells > max_cells or looked_at > _EMPTY_A_CELL * max_cells:
                        raise MediaError("too many cells", f"more than {max_cells}")
                    if filled:
                        rows.append(filled)
                _table(blocks, rows)
    except MediaError:
        raise
    except BROKEN as error:
        raise MediaError("broken zip", str(error)[:200]) from None
    except Exception as error:  # openpyxl raises undocumented errors on unusual files
        raise MediaError("damaged", f"{type(error).__name__}: {error}"[:200]) from None
    return document("xlsx", blocks, **core_properties(package))


def _transitional(package: Package) -> bytes:
    """A workbook of strict OOXML with the namespaces of the transitional one, which openpyxl reads."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in package.names:
            if name.endswith((".xml", ".rels")):
                part = package.read(name)
                for strict, transitional in _STRICT:
                    part = part.replace(strict, transitional)
                archive.writestr(name, part)
    return file.getvalue()


def _require_sheets(main: Any, found: list[str]) -> None:
    """Refuse a workbook of which `found` are fewer sheets than it names: openpyxl leaves out those without a part."""
    named = [each.get("name", "") for each in main.iter() if local(each) == "sheet" and attribute_of_relation(each)]
    if len(found) < len(named):
        missing = [name for name in named if name not in found]
        raise MediaError("damaged", f"{len(named) - len(found)} of {len(named)} sheets are missing: {missing}"[:200])


def _table(blocks: Blocks, rows: list[dict[int, str]]) -> None:
    columns = sorted({column for row in rows for column in row})
    check_grid(len(rows), len(columns), sum(map(len, rows)))
    blocks.table([row.get(column, "") for column in columns] for row in rows)


def _shown(cell: Any) -> str:
    value = cell.value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float | int):
        if "%" in (cell.number_format or ""):
            return f"{value * 100:.12g}%"
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    return str(value)
