"""YAML that users supply is refused in one sentence within a second."""

import contextlib

import pytest
import yaml

from dcurate import PipelineError
from dcurate.recipe import load_recipe, parse_setting
from dcurate.text.presets import fineweb2
from dcurate.text.yaml_values import MAX_DEPTH, MAX_LENGTH, yaml_values
from tests.growth import SHORT, assert_linear, assert_quick, singles

SIZE = MAX_LENGTH - 100


def layers(line):
    return "a0: &a0 [x]\n" + "".join(line.format(n=n, before=", ".join([f"*a{n - 1}"] * 10)) for n in range(1, 10))


HOSTILE = {
    "a list that holds itself": "stages: &a [*a]",
    "a mapping that holds itself": "stages: &a {b: {c: [*a]}}",
    "a mapping that is its own key": "stages: &a {? *a : b}",
    "a mapping merged into itself": "stages: &a {<<: *a}",
    "lists": "[" * SIZE,
    "lists that end": "[" * 20_000 + "]" * 20_000,
    "mappings": "{a: " * (SIZE // 4),
    "keys": "? " * (SIZE // 2),
    "items": "- " * (SIZE // 2),
    "blocks": "\n".join(" " * n + "a:" for n in range(1400)),
    "mixed": "[{? " * (SIZE // 4),
    "an alias bomb": layers("a{n}: &a{n} [{before}]\n"),
    "a bomb of merges": layers("a{n}: &a{n} {{<<: [{before}]}}\n").replace("[x]", "{k: v}"),
    "a bomb of text": "a: &a " + "x" * (SIZE // 2) + "\nb: [" + "*a, " * 10_000 + "]",
    "a number of many digits": "a: " + "9" * SIZE,
    "a number to the base of 60": "a: 1" + ":59" * (SIZE // 3 - 5),
    "such a number with a fraction": "a: 1" + ":59" * 300 + ".5",
    "a day that there is not": "a: 2001-99-99",
    "a tag": "a: !" + "x" * SIZE,
    "a file that is too long": "#" * (MAX_LENGTH + 1),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_yaml_is_one_sentence_in_a_second_wherever_it_may_come_from(tmp_path, case):
    path = tmp_path / "r.yaml"
    path.write_text(HOSTILE[case])
    for read in (load_recipe, fineweb2, lambda path: parse_setting("a=" + path.read_text())):
        sentences = []

        def refuse(read=read, sentences=sentences):
            with pytest.raises(PipelineError) as caught:
                read(path)
            sentences.append(str(caught.value))

        assert_quick(refuse, 1)
        assert "\n" not in sentences[0]
        assert len(sentences[0]) < 500


def test_yaml_of_any_shape_within_the_bounds_is_read():
    assert yaml_values("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(yaml.YAMLError, match="nested deeper"):
        yaml_values("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert yaml_values("a: &a {k: v}\nb: &b {<<: *a, l: w}\nc: [*a, *b, *a]") == {
        "a": {"k": "v"},
        "b": {"k": "v", "l": "w"},
        "c": [{"k": "v"}, {"k": "v", "l": "w"}, {"k": "v"}],
    }
    assert len(yaml_values("- word\n" * 50_000)) == 50_000


@pytest.mark.parametrize(
    ("first", "following"),
    [("xxxxxxxxxx", '"' + "${before}" * 10 + '"'), ("[1]", "[" + ", ".join(["'${before}'"] * 10) + "]")],
)
def test_params_that_multiply_are_refused_in_a_second(tmp_path, first, following):
    params = [f"  p{n}: {following.replace('before', f'p{n - 1}')}\n" for n in range(1, 40)]
    path = tmp_path / "r.yaml"
    path.write_text(f"params:\n  p0: {first}\n{''.join(params)}stages: [JsonlReader: {{file_paths: ${{p39}}}}]\n")

    def refuse():
        with pytest.raises(PipelineError, match="with its params filled in"):
            load_recipe(path)

    assert_quick(refuse, 1)


MARKS = [
    "[1, ",
    "{a: ",
    "a: ",
    "- a\n",
    "&a ",
    "*a ",
    "? ",
    "'",
    '"',
    "|\n",
    ">\n a\n\n",
    "# a\n",
    "<<: ",
    "a: &b\n",
    "'' ",
]


def test_yaml_is_read_or_refused_in_linear_time() -> None:
    def work(text: str) -> None:
        with contextlib.suppress(yaml.YAMLError):
            yaml_values(text)

    assert_linear(work, singles(MARKS), SHORT)
