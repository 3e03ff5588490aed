"""Functions that kernels call are compiled into them, and kernels are known before they are called."""

import numpy as np
import pytest
from numba import njit

from dcurate import ScoreFilter
from dcurate.kernels import json_rows, json_texts
from dcurate.kernels.json_values import skip_white
from dcurate.kernels.kept import missing
from dcurate.kernels.layout import INLINE, OPTIONS, longest
from dcurate.kernels.words import word_signals
from dcurate.text import NonAlphaNumericFilter, WordCountFilter

JSON = [json_rows._count_lines, json_rows._fill, json_rows._scan, json_rows._decode, json_rows._edit]
JSON += [json_texts._encoded_sizes, json_texts._encode]


def test_an_inlined_function_has_no_machine_code_of_its_own():
    @njit(**INLINE)
    def twice(number):
        return 2 * number

    @njit(**{**OPTIONS, "cache": False})
    def kernel(numbers):
        total = 0
        for number in numbers:
            total += twice(number)
        return total

    assert kernel(np.arange(4)) == 12
    [inlined], [whole] = twice.overloads.values(), kernel.overloads.values()
    assert not inlined.library._codegen._engine.is_symbol_defined(inlined.fndesc.mangled_name)
    assert whole.library._codegen._engine.is_symbol_defined(whole.fndesc.mangled_name)
    assert inlined.fndesc.mangled_name not in {one.name for one in whole.library._final_module.functions}


def test_an_inlined_function_can_be_called_from_python():
    assert skip_white(np.frombuffer(b" \t{", np.uint8), 0, 3) == 2
    assert longest(np.array([0, 3, 5]), np.array([0, 1])) == 3


@pytest.mark.parametrize("one", json_rows.KERNELS, ids=lambda one: one.name)
def test_a_group_of_kernels_is_kept_once_it_is_loaded(one):
    one.load()
    assert one.missing() == 0


def test_the_named_kernels_of_json_lines_are_those_that_reading_and_editing_calls():
    for one in json_rows.KERNELS:
        one.load()
    before = [kernel.signatures for kernel in JSON]
    data = b'{"a": 1, "b": "x\\n"}\n{}\n'
    rows = json_rows.scan(data, ["a", "b"], 40)
    json_rows.decode(data, rows, 1)
    name, value = json_rows.encode(np.array([0, 1]), np.frombuffer(b"a", np.uint8))[1], np.frombuffer(b"77", np.uint8)
    actions = np.array([[json_rows.WRITE, json_rows.LEAVE]] * 2, np.uint8)
    keys = (np.array([0, 3, 6]), np.concatenate([name, name]))
    edits = json_rows.Edits(keys, actions, np.array([[0, 1, 2], [0, 0, 0]]), value)
    assert json_rows.edit(data, rows, ["a", "b"], edits, 40)[1].tobytes() == b'{"a": 7, "b": "x\\n"}{"a":7}'
    assert [kernel.signatures for kernel in JSON] == before


def test_a_stage_of_filters_names_the_kernels_that_its_set_up_compiles_without_compiling_them():
    words = ScoreFilter(WordCountFilter(min_words=3))
    both = ScoreFilter([WordCountFilter(min_words=3), NonAlphaNumericFilter()])
    names = [[one.name for one in stage.kernels()] for stage in (words, both)]
    assert names == [
        ["dcurate.kernels.words.word_signals"],
        ["dcurate.kernels.words.word_signals", "dcurate.kernels.characters.character_signals"],
    ]
    [one] = words.kernels()
    one.load()
    assert one.missing() == 0
    assert word_signals.loop is not None
    loop = word_signals.loop()
    before = loop.signatures
    words.setup_on_node()
    assert loop.signatures == before


def test_a_kernel_that_was_never_called_is_missing():
    @njit
    def uncached(number):
        return number

    assert missing(lambda: [uncached]) == 0, "nothing would be kept"
