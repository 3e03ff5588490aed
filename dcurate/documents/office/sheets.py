"""XLSX to blocks."""

from __future__ import annotations

import datetime
import io
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import openpyxl

from dcurate.documents.losses import DocumentLosses
from dcurate.documents.office.blocks import Blocks, check_grid, document
from dcurate.documents.office.package import (
    Package,
    attribute_of_relation,
    core_properties,
    linked_xml,
    local,
    main_part,
    relationships,
    seen,
)
from dcurate.documents.office.slides import add_drawing, shape_text
from dcurate.isolate.errors import MediaError

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
#: A sheet without cells.
_EMPTY = b"<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><sheetData/></worksheet>"
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
        MediaError: "damaged", also if all sheets are damaged or missing; "too many cells", "too much text".
    """
    blocks = Blocks(max_characters)
    count = _Count(max_cells)
    main = main_part(package, "xl/workbook.xml")
    if _STRICT[0][0] in package.read(main):
        data = _transitional(package)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that are not read
            targets = _targets(package, main)
            try:
                book = _opened(data)
            except Exception:  # openpyxl reads all sheets, and raises undocumented errors for a damaged one
                book = _opened(_without_broken(package, targets))
            for name in targets:
                if name not in book.sheetnames:
                    package.part("sheets", partial(_missing, name))
            for sheet in book.worksheets:
                if sheet.sheet_state != "visible":
                    continue
                blocks.page()
                rows = package.part("sheets", partial(_rows, sheet, count, package.losses))
                if rows is not None:
                    blocks.heading(2, sheet.title)
                    _table(blocks, rows)
                if sheet.title in targets:
                    _text_boxes(package, targets[sheet.title], blocks)
    except MediaError:
        raise
    except BROKEN as error:
        raise MediaError("broken zip", str(error)[:200]) from None
    except Exception as error:  # openpyxl raises undocumented errors on unusual files
        raise MediaError("damaged", f"{type(error).__name__}: {error}"[:200]) from None
    return document("xlsx", blocks, **core_properties(package))


@dataclass(slots=True)
class _Count:
    """Counts the cells of a workbook, and refuses too many.

    Args:
        most: cells that hold something, at most.
        filled: such cells.
        looked_at: cells, the missing ones before others included.
    """

    most: int
    filled: int = 0
    looked_at: int = 0

    def add(self, filled: int, looked_at: int) -> None:
        """Count the cells of a row.

        Raises:
            MediaError: "too many cells".
        """
        self.filled += filled
        self.looked_at += looked_at
        if self.filled > self.most or self.looked_at > _EMPTY_A_CELL * self.most:
            raise MediaError("too many cells", f"more than {self.most}")


def _rows(sheet: Any, count: _Count, losses: DocumentLosses) -> list[dict[int, str]]:
    """The texts of the cells of a sheet by their columns, row by row.

    Raises:
        MediaError: "broken zip", "damaged", "too many cells".
    """
    rows: list[dict[int, str]] = []
    sheet.reset_dimensions()
    try:
        for number, row in enumerate(sheet.iter_rows(max_row=_MOST_ROWS + 1)):
            if number == _MOST_ROWS:
                losses.add("far rows", where=sheet.title)
                break
            filled = {cell.column: _shown(cell) for cell in row if cell.value is not None}
            count.add(len(filled), 1 + len(row))
            if filled:
                rows.append(filled)
    except MediaError:
        raise
    except BROKEN as error:
        raise MediaError("broken zip", f"{sheet.title}: {error}"[:200]) from None
    except Exception as error:  # openpyxl raises undocumented errors on unusual files
        raise MediaError("damaged", f"{sheet.title}: {type(error).__name__}: {error}"[:200]) from None
    return rows


def _text_boxes(package: Package, part: str, blocks: Blocks) -> None:
    """Add the texts of shapes and diagrams that lie over a sheet."""
    for relation, (kind, target, _) in (links := relationships(package, part)).items():
        if kind != "drawing":
            continue
        root = package.part("parts", partial(linked_xml, package, part, links, relation))
        for element in seen(root) if root is not None else ():
            if local(element) == "sp":
                blocks.paragraph(shape_text(element))
            elif local(element) == "relIds":
                add_drawing(package, target, element, relationships(package, target), blocks)


def _transitional(package: Package) -> bytes:
    """A workbook of strict OOXML with the namespaces of the transitional one, which openpyxl reads."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in package.names:
            if name.endswith((".xml", ".rels")):
                archive.writestr(name, _as_transitional(package.read(name)))
    return file.getvalue()


def _as_transitional(part: bytes) -> bytes:
    for strict, transitional in _STRICT:
        part = part.replace(strict, transitional)
    return part


def _opened(data: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)


def _targets(package: Package, main: str) -> dict[str, str]:
    """The parts of the sheets of a workbook by their names."""
    links = relationships(package, main)
    return {
        sheet.get("name", ""): links.get(attribute_of_relation(sheet), ("", "", False))[1]
        for sheet in package.xml(main).iter()
        if local(sheet) == "sheet" and attribute_of_relation(sheet)
    }


def _without_broken(package: Package, targets: dict[str, str]) -> bytes:
    """A workbook whose sheets that cannot be read are empty; those count as losses."""
    broken = {
        target
        for target in targets.values()
        if target in package and package.part("sheets", partial(package.xml, target)) is None
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in package.names:
            if name in broken:
                archive.writestr(name, _EMPTY)
            elif name.endswith((".xml", ".rels")):
                archive.writestr(name, _as_transitional(package.read(name)))
    return file.getvalue()


def _missing(name: str) -> None:
    raise MediaError("damaged", f"the sheet {name!r} is missing"[:200])


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
