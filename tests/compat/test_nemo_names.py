"""The table of NeMo Curator's names, and the imports that it serves."""

import copy
import importlib
import operator
import os
import pickle
import re
import subprocess
import sys
from typing import Any

import cloudpickle
import numpy as np
import pytest

import dcurate
import dcurate.text
from dcurate import PipelineError
from dcurate.compat import nemo
from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.bridge import engine_stage
from dcurate.compat.nemo.builtin import BuiltIn
from dcurate.compat.nemo.missing import Missing, MissingError, missing
from dcurate.compat.nemo.names import names, native_name
from dcurate.core.public import find_public, homes
from tests.conftest import ROOT

NAMES = [(module, name) for module, group in names().modules.items() for name in group]


@pytest.fixture(autouse=True)
def installed():
    nemo.install()
    yield
    nemo.uninstall()


@pytest.mark.parametrize("module", [*names().modules, *names().without])
def test_every_module_of_the_table_imports(module):
    assert importlib.import_module(module).__all__ == names().modules.get(module, [])


def test_every_name_is_something_here_or_says_what_to_use_instead():
    for module, name in NAMES:
        value = getattr(importlib.import_module(module), name)
        if isinstance(value, Missing):
            with pytest.raises(MissingError, match=f"^{module}.{name} is not in dcurate(: .+| yet)$"):
                value()


def test_the_table_has_one_source_for_each_name_and_no_unused_source():
    used = {key for module, name in NAMES for key in (f"{module}:{name}", name) if key in names().known}
    assert {*names().known} - used == {"__version__"} - used
    assert not [module for module in names().modules if names().use_instead_of(module)]


def test_importing_a_module_loads_no_more_than_itself():
    code = (
        "import sys, dcurate\n"
        "assert not [m for m in sys.modules if m.startswith('dcurate.compat')]\n"
        "from dcurate.compat import nemo; nemo.install(); nemo.install()\n"
        "import nemo_curator.stages.text.classifiers, nemo_curator.stages.text.io.reader\n"
        "assert not {'torch', 'dask', 'pandas', 'pyarrow', 'numba'} & {*sys.modules}\n"
        "assert len([f for f in sys.meta_path if 'nemo' in type(f).__module__]) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT)}, timeout=60)


def test_names_come_from_dcurate():
    from nemo_curator.stages.text.filters.heuristic.string import WhiteSpaceFilter, WordCountFilter  # noqa: PLC0415

    assert WhiteSpaceFilter is dcurate.text.WhiteSpaceFilter
    assert WordCountFilter.__bases__ == (dcurate.text.WordCountFilter,)  # it takes `lang`, which is `language` here


def test_a_module_also_has_the_names_that_nearly_all_import():
    base, stages = (importlib.import_module(f"nemo_curator.{name}") for name in ("stages.base", "stages.resources"))
    assert base.Resources is stages.Resources
    assert "Resources" not in base.__all__
    with pytest.raises(ImportError, match="has no 'Resource'"):
        exec("from nemo_curator.stages.base import Resource")


def test_a_stage_has_the_methods_of_nemo_curator():
    scored = importlib.import_module("nemo_curator.stages.text.filters").ScoreFilter
    assert issubclass(scored, dcurate.ScoreFilter)
    assert scored(dcurate.text.WordCountFilter()).with_(name="mine", ray_stage_spec={"max_restarts": 1}).name == "mine"


def test_a_class_that_takes_other_arguments_is_a_subclass_and_all_others_are_dcurates():
    for module, name in NAMES:
        known = names().known.get(f"{module}:{name}") or names().known[name]
        source, _, here = known.target.partition(":")
        value, native = getattr(importlib.import_module(module), name), native_name(here) or here
        if source == "dcurate":
            assert value is find_public(native), name
        elif source == "builtin":
            assert issubclass(value, find_public(native)), name
    words = builtin.WordCountFilter(lang="ja")
    assert words.language == "ja"
    with pytest.raises(AttributeError, match="Nothing"):
        builtin.Nothing  # noqa: B018


def test_star_imports_and_submodules_as_attributes():
    names_here: dict = {}
    exec("from nemo_curator.stages.text.modifiers import *\nimport nemo_curator", names_here)
    assert names_here["NewlineNormalizer"] is dcurate.text.NewlineNormalizer
    assert names_here["nemo_curator"].stages.text.modifiers.string.Slicer is dcurate.text.Slicer
    assert names_here["nemo_curator"].__version__


EARLIER: dict[str, tuple[dict[str, object], str, object]] = {
    "stages.text.classifiers:QualityClassifier": ({"pred_column": "a", "prob_column": "b"}, "label_field", "a"),
    "stages.text.classifiers.base:DistributedDataClassifier": (
        {"model_identifier": "a/b", "padding_side": "right", "prob_column": "b"},
        "score_field",
        "b",
    ),
    "stages.text.classifiers:FineWebEduClassifier": ({"int_score_column": "c"}, "int_score_field", "c"),
    "stages.text.classifiers:AegisClassifier": (
        {"aegis_variant": "nvidia/Aegis-AI-Content-Safety-LlamaGuard-Defensive-1.0", "keep_raw_pred": True},
        "keep_raw_output",
        True,
    ),
    "stages.text.deduplication.removal_workflow:TextDuplicatesRemovalWorkflow": (
        {"input_path": "i", "ids_to_remove_path": "r", "output_path": "o", "ids_to_remove_duplicate_id_field": "d"},
        "duplicate_id_field",
        "d",
    ),
    "stages.deduplication.fuzzy.buckets_to_edges:BucketsToEdgesStage": (
        {"output_path": "o", "doc_id_field": "d"},
        "document_id_field",
        "d",
    ),
    "stages.image.io.image_reader:ImageReaderStage": ({"task_batch_size": 5}, "dali_batch_size", 5),
    "stages.image.io:ImageReaderStage": ({"batch_size": 6}, "dali_batch_size", 6),
    "stages.resources:Resources": ({"entire_gpu": True, "nvdecs": 1}, "gpus", 1.0),
    "backends.experimental.ray_actor_pool:RayActorPoolExecutor": ({"show_progress": False}, "show_progress", False),
}


@pytest.mark.parametrize("name", EARLIER)
def test_arguments_by_their_names_of_25_09_are_taken(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, _, kind = name.partition(":")
    arguments, attribute, value = EARLIER[name]
    made = getattr(importlib.import_module(f"nemo_curator.{module}"), kind)(**arguments)
    assert getattr(made, attribute) == value


def test_a_list_in_the_table_is_a_persons_own():
    first, second = (names().get("nemo_curator.stages.text.classifiers.aegis", "AEGIS_VARIANTS") for _ in range(2))
    assert first == second
    assert first is not second


WRONG = {
    "from nemo_curator.tasks import DocumentBach": "did you mean 'DocumentBatch'?",
    "from nemo_curator.tasks.document import DocumentBach": "did you mean 'DocumentBatch'?",
    "import nemo_curator.taks": "did you mean 'tasks'?",
    "import nemo_curator.stages.text.filter": "did you mean 'filters'?",
}


@pytest.mark.parametrize("statement", WRONG)
def test_a_wrong_name_in_an_import_names_the_nearest(statement):
    with pytest.raises(ImportError, match="nemo_curator.* has no ") as raised:
        exec(statement)
    assert str(raised.value).endswith(WRONG[statement])


def test_a_wrong_attribute_names_the_nearest():
    module = importlib.import_module("nemo_curator.tasks")
    with pytest.raises(AttributeError, match="did you mean 'FileGroupTask'"):
        module.FileGroupTsk  # noqa: B018
    assert not hasattr(module, "__path__of__")


def test_what_is_missing_can_be_imported_and_subclassed_until_it_is_used():
    from nemo_curator.stages.audio.inference import InferenceAsrNemoStage  # noqa: PLC0415

    class Own(InferenceAsrNemoStage[int]):
        pass

    for use in (InferenceAsrNemoStage, Own, lambda: InferenceAsrNemoStage.make(1)):
        with pytest.raises(PipelineError, match="dcurate.audio.Transcribe writes down") as raised:
            use()
        assert isinstance(raised.value, NotImplementedError)
    assert not hasattr(Own, "__special__")


CONSTANT = missing("nemo_curator.backends.utils", "ACTOR_POOL_SIZING_KEYS", "")
#: What a person may do with a constant, and what Python does by itself.
USES: dict[str, Any] = {
    "in": lambda value: "a" in value,
    "not in": lambda value: 3 not in value,
    "iter": iter,
    "for": lambda value: [one for one in value],  # noqa: C416
    "list": list,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "sorted": sorted,
    "sum": sum,
    "max": max,
    "any": any,
    "zip": lambda value: list(zip(value, value, strict=False)),
    "enumerate": lambda value: list(enumerate(value)),
    "reversed": reversed,
    "star": lambda value: [*value],
    "unpack": lambda value: max(*value),
    "double star": lambda value: {**value},
    "assign": lambda value: exec("a, b = value", {"value": value}),
    "next": next,
    "len": len,
    "bool": bool,
    "if": lambda value: 1 if value else 2,
    "number": lambda value: value[0],
    "slice": lambda value: value[:2],
    "delete": lambda value: operator.delitem(value, 0),
    "set item": lambda value: operator.setitem(value, "a", 1),
    "int": int,
    "float": float,
    "complex": complex,
    "index": lambda value: [1, 2][value],
    "range": range,
    "bytes": bytes,
    "bytearray": bytearray,
    "path": os.fspath,
    "open": open,
    "join": ",".join,
    "numpy": lambda value: np.array([1.0]) + value,
    "with": lambda value: exec("with value: pass", {"value": value}),
    "round": round,
    "abs": abs,
    "divmod": lambda value: divmod(value, 2),
    "itemgetter": operator.itemgetter(0),
    "call": lambda value: value(),
    "attribute": lambda value: value.anything,
    **{
        f"{side} {name}": (lambda value, use=use, side=side: use(value, 2) if side == "left" else use(2, value))
        for side in ("left", "right")
        for name, use in {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "/": operator.truediv,
            "//": operator.floordiv,
            "%": operator.mod,
            "**": operator.pow,
            "@": operator.matmul,
            "<<": operator.lshift,
            ">>": operator.rshift,
            "&": operator.and_,
            "^": operator.xor,
            "<": operator.lt,
            ">=": operator.ge,
        }.items()
    },
    "+=": lambda value: operator.iadd(value, 1),
    "-x": operator.neg,
    "~": operator.invert,
}


@pytest.mark.parametrize("use", USES)
def test_a_missing_constant_that_is_used_says_so_at_once(use):
    with pytest.raises(MissingError, match="ACTOR_POOL_SIZING_KEYS is not in dcurate yet"):
        USES[use](CONSTANT)


def test_a_missing_class_can_still_be_named():
    assert {CONSTANT: 1}[CONSTANT] == 1
    assert CONSTANT == CONSTANT  # noqa: PLR0124
    assert (CONSTANT | None).__args__[0] is CONSTANT
    assert "ACTOR_POOL_SIZING_KEYS" in f"{CONSTANT} {CONSTANT!r}"
    assert CONSTANT["T"] is CONSTANT
    assert not isinstance(3, CONSTANT)
    assert copy.deepcopy(CONSTANT) is CONSTANT


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_modules_and_names_pickle_by_reference(pickler):
    module = importlib.import_module("nemo_curator.eval")
    sent = pickler.dumps((module, module.Anything))
    nemo.uninstall()
    received, anything = pickle.loads(sent)
    assert received.__name__ == module.__name__
    assert anything.__qualname__ == "Anything"


def test_the_alias_takes_the_place_of_an_installed_package_and_gives_it_back(tmp_path, monkeypatch):
    nemo.uninstall()
    (tmp_path / "nemo_curator").mkdir()
    (tmp_path / "nemo_curator" / "__init__.py").write_text("real = True")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("nemo_curator").real
    nemo.install()
    assert not hasattr(importlib.import_module("nemo_curator"), "real")
    nemo.uninstall()
    assert importlib.import_module("nemo_curator").real


def more_than_its_arguments(value: Any, native: Any) -> bool:
    """Whether a name of the alias is another thing than dcurate's, or changes what a method of it does."""
    if value is native or isinstance(value, Missing):
        return False
    if not (isinstance(value, type) and isinstance(native, type) and issubclass(value, native)):
        return True
    added = {*value.__mro__} - {*native.__mro__} - {*BuiltIn.__mro__}
    return any(
        name[0] != "_" and hasattr(native, name) and (callable(held) or isinstance(held, property))
        for kind in added
        for name, held in vars(kind).items()
    )


def test_the_page_says_which_names_of_both_differ_in_more_than_arguments():
    page = (ROOT / "docs" / "from-nemo-curator.md").read_text()
    section = page.partition("## Names that both have")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| .+ \|$", section, re.MULTILINE)
    listed = [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]
    differ = {
        name
        for module, name in NAMES
        if name in homes()
        and more_than_its_arguments(getattr(importlib.import_module(module), name), find_public(name))
    }
    assert sorted(listed) == sorted(differ)


def test_resources_are_those_of_dcurate_in_another_order():
    resources = importlib.import_module("nemo_curator.stages.resources").Resources
    made = resources(2.0, 10.0)
    assert isinstance(made, dcurate.Resources)
    assert (made.cpus, made.gpus, made.gpu_memory_gb) == (2.0, 0.0, 10.0)
    for wrong in ({"gpus": 1.0, "gpu_memory_gb": 10.0}, {"cpus": -1.0}):
        with pytest.raises(ValueError, match="|".join(wrong)):
            resources(**wrong)
    stage = builtin.Score(len, "n").with_(resources=resources(cpus=2.0))
    assert engine_stage(stage).resources == dcurate.Resources(cpus=2.0)  # equal, so that stages can share a slot


def test_the_page_lists_what_is_not_here():
    page = (ROOT / "docs" / "nemo-missing.md").read_text()
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", page, re.MULTILINE)
    listed = {name: use for cell, use in rows for name in re.findall(r"`([^`]+)`", cell)}
    by_table = names().without | {name: known.use for name, known in names().known.items() if known.use}
    assert listed == by_table
    assert all(follows in page for follows in names().follows)
    for module, name in NAMES:
        value = getattr(importlib.import_module(module), name)
        assert not isinstance(value, Missing) or f"`{name}`" in page, f"{module}.{name} is on no page"
