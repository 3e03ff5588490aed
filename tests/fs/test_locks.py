import os
from pathlib import Path

from dcurate.fs.locks import is_at, lock, locked, open_locked, try_lock


def test_one_file_can_be_locked_once(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as mine, open(tmp_path / "lock") as theirs:
        with locked(mine):
            assert not try_lock(theirs)
        assert try_lock(theirs)


def test_shared_locks_exclude_an_exclusive_one(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as mine, open(tmp_path / "lock") as theirs, open(tmp_path / "lock") as third:
        lock(mine, shared=True)
        lock(theirs, shared=True)
        assert not try_lock(third)


def test_a_removed_or_replaced_file_is_not_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    file = open_locked(path)
    assert is_at(path, file)
    path.unlink()
    assert not is_at(path, file)
    other = open_locked(path)
    assert (is_at(path, file), is_at(path, other)) == (False, True)
    os.close(file)
    os.close(other)


def test_a_link_is_not_the_folder_that_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    folder = os.open(tmp_path / "folder", os.O_RDONLY)
    assert is_at(tmp_path / "link", folder)
    assert not is_at(tmp_path / "link", folder, follow_symlinks=False)
    os.close(folder)
