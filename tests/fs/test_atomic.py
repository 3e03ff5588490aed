import stat
from pathlib import Path

import pytest

from dcurate.fs.atomic import atomic_write


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with atomic_write(path) as file:
        file.write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content"
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.write("text")  # type: ignore[call-overload]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_may_be_written_in_another_folder(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file", tmp_path / "scratch", durable=False) as file:
        file.write(b"content")
        assert len(list((tmp_path / "scratch").iterdir())) == 1
    assert (tmp_path / "file").read_bytes() == b"content"
    assert not list((tmp_path / "scratch").iterdir())


def test_permissions_of_a_file_can_be_given(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file", mode=0o600):
        pass
    assert stat.filemode((tmp_path / "file").stat().st_mode) == "-rw-------"
