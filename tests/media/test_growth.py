"""The time to list archives grows with their members, also where headers are hostile."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from dcurate.core.batch import FilePart
from dcurate.isolate.errors import MediaError
from dcurate.media import tar
from dcurate.media.containers import of_tar, of_zip
from dcurate.media.image.pixels import decode
from dcurate.media.samples import ShardSample, samples_of
from tests.growth import assert_linear


def tar_of(names: list[str], data: bytes = b"a") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zip_of(names: list[str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, b"a")
    return made.getvalue()


def header(kind: bytes, data: bytes) -> bytes:
    """A header with further fields, and its data."""
    info = tarfile.TarInfo("a")
    info.type, info.size = kind, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % tar.BLOCK)


def members(path: Path) -> list[tar.Member | tar.TarDamage]:
    size = path.stat().st_size
    with tar.opened(LocalFileSystem(), str(path), size) as window:
        return [*tar.walk(window)]


def test_archives_of_many_members_are_listed_in_linear_time(tmp_path: Path) -> None:
    """Each of 16,000 members is found once; so are the members of samples, also of one sample."""

    def listed(path: Path) -> None:
        count = int(path.stem.split("-")[1])
        part = FilePart(str(path), size=path.stat().st_size)
        of = of_zip if path.suffix == ".zip" else of_tar
        assert len(list(of(LocalFileSystem(), str(path), part, path.name))) == count
        if path.suffix == ".tar":
            samples = [one for one in samples_of(members(path), path.name) if isinstance(one, ShardSample)]
            assert sum(len(sample.members) for sample in samples) == count

    def made(kind: str, name: Callable[[int], str], pack: Callable[[list[str]], bytes]) -> Callable[[int], Path]:
        def file(count: int) -> Path:
            path = tmp_path / f"{kind}-{count}.{'zip' if pack is zip_of else 'tar'}"
            if not path.exists():
                path.write_bytes(pack([name(number) for number in range(count)]))
            return path

        return file

    archives = [
        made("zip", "{}.png".format, zip_of),
        made("tar", "{}.png".format, tar_of),
        made("sample", "one.{}".format, tar_of),
    ]
    assert_linear(listed, archives, (4_000, 16_000), bytes_each=2 * tar.BLOCK)


def test_pictures_of_digits_are_decoded_in_linear_time() -> None:
    """Comments, blanks and digits, in the header and after it."""
    parts = (b"#\n", b"# a\r", b"#", b" ", b"0 ", b"0#\n ")

    def decoded(file: bytes) -> None:
        with suppress(MediaError):
            decode(file)

    def file(start: bytes, part: bytes) -> Callable[[int], bytes]:
        return lambda count: start + part * count

    starts = (b"P3 ", b"P3 500 500 255\n", b"P1 500 500\n")
    assert_linear(decoded, [file(start, part) for start in starts for part in parts], (5_000, 30_000), bytes_each=2)


def test_headers_that_say_nothing_are_read_in_linear_time(tmp_path: Path) -> None:
    """A chain of headers without a member is damage; fields that nothing uses are not kept for each member."""
    field = b"31 comment.%010d=aaaaaaaa\n"
    common = b"".join(field[:3] + field[3:] % number for number in range(5_000))
    member = tar_of(["a"])[: 2 * tar.BLOCK]
    hostile: list[Callable[[int], bytes]] = [
        lambda count: header(tarfile.XHDTYPE, b"") * count,
        lambda count: header(tarfile.XHDTYPE, b"11 path=ab\n") * count,
        lambda count: header(tarfile.XGLTYPE, common) + member * count,
    ]

    def file(make: Callable[[int], bytes]) -> Callable[[int], Path]:
        def made(count: int) -> Path:
            (tmp_path / str(count)).write_bytes(make(count))
            return tmp_path / str(count)

        return made

    assert_linear(members, map(file, hostile), (500, 2_000), bytes_each=tar.BLOCK)


def test_a_name_in_a_header_of_posix_is_kept_beside_fields_that_are_not(tmp_path: Path) -> None:
    member = tar_of(["a"])[: 2 * tar.BLOCK]
    fields = b"16 comment=abcd\n11 path=bc\n"
    (tmp_path / "a.tar").write_bytes(header(tarfile.XHDTYPE, fields) + member)
    (found,) = members(tmp_path / "a.tar")
    assert isinstance(found, tar.Member)
    assert (found.name, found.kind, found.size) == ("bc", "file", 1)
