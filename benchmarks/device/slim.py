"""A smaller copy of a wheel of CUDA libraries: the machine code of one architecture, no headers.

    python -m benchmarks.device.slim WHEEL FOLDER [--arch 90]

Machine code stands in the section ``.nv_fatbin`` of a library, in containers of one entry for each architecture. In a
container that has the wanted one, that entry moves to the front, the container ends behind it, and what follows is set
to zero, which compresses well; containers keep their addresses and libraries their size. The format is not documented:
look at a result with ``cuobjdump --list-elf``. It is for the machine that it was made for, and not to be passed on.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: A container begins with this number, its version, the bytes of its head, and those of what follows.
_MAGIC, _HEAD = 0xBA55ED50, struct.Struct("<IHHQ")
#: An entry begins with its kind, its version, the bytes of its head, and those of what follows.
_ENTRY, _ARCH_AT, _ARCH = struct.Struct("<HHIQ"), 28, struct.Struct("<I")
_MACHINE_CODE = 2
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_HEADERS = re.compile(r"(^|/)(include|cmake)/")
_SMALL = 2**20


class FatbinEntry(NamedTuple):
    """An entry of a container: where it begins and ends, what it is, and for which architecture."""

    start: int
    stop: int
    kind: int
    arch: int


def sections(data: bytes | bytearray) -> dict[str, tuple[int, int]]:
    """Where the sections of a 64-bit ELF file stand: offset and size by name."""
    if bytes(data[:6]) != b"\x7fELF\x02\x01":
        return {}
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, table + number * size) for number in range(count)]
    text = heads[names][4]
    found = {}
    for name, _, _, _, offset, length in heads:
        end = data.index(0, text + name)
        found[bytes(data[text + name : end]).decode()] = (offset, length)
    return found


def entries(data: bytearray, start: int, stop: int) -> Iterator[FatbinEntry]:
    """The entries of a container from behind its head on."""
    while start < stop:
        kind, _, head, size = _ENTRY.unpack_from(data, start)
        (arch,) = _ARCH.unpack_from(data, start + _ARCH_AT)
        yield FatbinEntry(start, start + head + size, kind, arch)
        start += head + size


def prune(data: bytearray, arch: int) -> tuple[int, int]:
    """Leave one architecture's machine code in a library; how many bytes stay, and how many containers had none."""
    offset, size = sections(data).get(".nv_fatbin", (0, 0))
    at, end, kept, untouched = offset, offset + size, 0, 0
    while at + _HEAD.size <= end:
        magic, _, head, length = _HEAD.unpack_from(data, at)
        if magic != _MAGIC:
            at += 8
            continue
        start, stop = at + head, at + head + length
        wanted = [entry for entry in entries(data, start, stop) if (entry.kind, entry.arch) == (_MACHINE_CODE, arch)]
        if wanted:
            body = b"".join(data[entry.start : entry.stop] for entry in wanted)
            data[start:stop] = body + bytes(length - len(body))
            struct.pack_into("<Q", data, at + 8, len(body))
            kept += len(body)
        else:
            untouched += 1
        at = -(-stop // 8) * 8
    return kept, untouched


def slim(wheel: Path, folder: Path, arch: int) -> Path:
    """Write the smaller copy, under the same name."""
    out = folder / wheel.name
    out.parent.mkdir(parents=True, exist_ok=True)
    record, rows = "", []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as copy:
        for info in source.infolist():
            if info.filename.endswith(".dist-info/RECORD"):
                record = info.filename
            elif not info.is_dir() and not _HEADERS.search(info.filename):
                data = bytearray(source.read(info))
                if _LIBRARY.search(info.filename) and len(data) > _SMALL:
                    prune(data, arch)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                rows.append(f"{info.filename},sha256={digest},{len(data)}")
                entry = zipfile.ZipInfo(info.filename, info.date_time)
                entry.external_attr, entry.compress_type = info.external_attr, zipfile.ZIP_DEFLATED
                copy.writestr(entry, bytes(data))
        copy.writestr(record, "\n".join([*rows, f"{record},,", ""]))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", type=int, default=90, help="compute capability times ten")
    options = parser.parse_args()
    out = slim(options.wheel, options.folder, options.arch)
    print(f"{out.name}: {options.wheel.stat().st_size / 1e6:.1f} -> {out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
