import importlib
import sys

import pytest

from dcurate.moved import MOVED


@pytest.mark.parametrize(("old", "new"), [pair for pair in MOVED.items() if pair[1]])
def test_an_old_name_of_a_module_warns_and_gives_what_the_new_one_has(old: str, new: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        before = importlib.import_module(old)
    after = importlib.import_module(new)
    assert {name: vars(before)[name] for name in vars(after) if name[:2] != "__"} == {
        name: value for name, value in vars(after).items() if name[:2] != "__"
    }


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("dcurate.execute.nothing")
