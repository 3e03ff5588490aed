"""A recipe that nobody vouches for imports and calls nothing but what dcurate has for recipes."""

import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import dcurate
import dcurate.text
import dcurate.ui
from dcurate import PipelineError
from dcurate.cli import cli
from dcurate.core.public import homes
from dcurate.recipe import load_recipe
from dcurate.recipe.trust import may_be_made
from dcurate.text import presets

#: A module that leaves a mark when it is imported, and others when what is in it is called.
MINE = """
from dataclasses import dataclass
from pathlib import Path

from dcurate import ProcessingStage
from dcurate.text import DocumentFilter

HERE = Path(__file__).parent
(HERE / "imported").touch()


def call(**anything):
    (HERE / "called").touch()


@dataclass
class Stage(ProcessingStage):
    size: int = 0

    def process(self, batch):
        return batch


@dataclass
class Rule(DocumentFilter):
    size: int = 0

    def score_document(self, text):
        return 1.0

    def keep_document(self, score):
        return True
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a recipe with these stages, beside which a module of one's own could be imported."""
    (tmp_path / "mine_of_trust.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    def load(stages, overrides=None, trust=False, **keys):
        path = tmp_path / "r.yaml"
        path.write_text(yaml.safe_dump({**keys, "stages": stages}) if isinstance(stages, list) else stages)
        try:
            return load_recipe(path, overrides, trust=trust)
        finally:
            sys.modules.pop("mine_of_trust", None)

    return load


MARK = "echo > called"
#: Ways to have a name that is not for recipes imported or called.
NAMES = [
    {"os:system": {"command": MARK}},
    {"subprocess:run": {"args": MARK, "shell": True}},
    {"builtins:eval": {"source": "1"}},
    {"mine_of_trust:call": {"x": 1}},
    {"mine_of_trust:call": {}},
    {"mine_of_trust:call": None},
    "mine_of_trust:Stage",
    {"mine_of_trust:Stage": {"size": 1}},
    {"mine_of_trust:nothing": {}},
    {"dcurate.run:os": {}},
    {"dcurate:subprocess": {}},
    {"dcurate:importlib": {}},
    {"dcurate.ui.monitor.processes:subprocess": {}},
    {"dcurate.engine.worker.sandbox:Alone": {}},
    {"dcurate.cli.__main__:main": {}},
    {"dcurate.cli.group:main": {}},
    {"dcurate.core.stage:FunctionStage": {"function": {"os:system": None}}},
    {"dcurate.core.stage:processing_stage": {"name": "x"}},
    {"dcurate.core.extras:needed": {"module": "mine_of_trust", "what": "x", "extra": "y"}},
    {"dcurate.recipe:load_recipe": {"path_or_name": "r.yaml", "trust": True}},
    {"dcurate:__getattr__": {"name": "Pipeline"}},
    {"JsonlReader:__class__": {}},
    {"dcurate.JsonlReader:__init__": {}},
    {"dcurate.run.os:system": {"command": MARK}},
    {":JsonlReader": {}},
    {"dcurate.text.presets:attach": {}},
    {"profile": {"source": "in"}},
    {"apply": {"stages": [], "ddf": 1}},
    {"inspect": {"output": "out"}},
    {"processing_stage": {"name": "x"}},
    {"Pipeline": {"name": "x"}},
    {"DaskExecutor": {}},
    {"dcurate:Pipeline": {"name": "x"}},
    {"dcurate.run:Pipeline": {"name": "x"}},
    {"LocalCluster": {}},
    {"ExactDeduplicationWorkflow": {"output_path": "out"}},
    {"Tracing": {}},
    {"PII_EXAMPLES": {}},
    {"_target_": "os.system"},
]

#: Stages of dcurate, and what has them run code, or send a key of the environment to whom the recipe names.
ARGUMENTS = [
    {"SequenceClassifier": {"model": "m", "trust_remote_code": True}},
    {"SequenceClassifier": {"model": "m", "trust_remote_code": "yes"}},
    {"VideoEmbedding": {"model": "nvidia/Cosmos-Embed1-336p", "trust_remote_code": True}},
    {"Tokenize": {"model": "m", "transformers_init_kwargs": {"trust_remote_code": True}}},
    {"TextEmbedding": {"model": "m", "transformers_init_kwargs": {"weights_only": False}}},
    {"ScoreFilter": {"filter_obj": {"TokenCountFilter": {"transformers_init_kwargs": {"trust_remote_code": True}}}}},
    {"TokenWriter": {"path": "out", "tokenizer": "m", "transformers_init_kwargs": {"trust_remote_code": True}}},
    {"CountPii": {"recognizer": {"SpacyRecognizer": {"model": "./pipeline"}}}},
    {"CountPii": {"recognizer": {"SpacyRecognizer": {"model": "C:\\pipeline"}}}},
    {"TableReader": {"path": "a.b", "format": "iceberg", "catalog": {"py-catalog-impl": "mine_of_trust.Stage"}}},
    {"TableWriter": {"path": "a.b", "format": "iceberg", "catalog": {"uri": "https://thief.example"}}},
    {"JsonlReader": {"file_paths": "reference::file:///tmp/spec.json"}},
    {"JsonlReader": {"file_paths": ["in", "reference://x"]}},
    {"JsonlReader": {"file_paths": "filecache::http://localhost/a"}},
    {"JsonlReader": {"file_paths": "zip://a.jsonl::dask://x"}},
    {"JsonlReader": {"file_paths": "in", "storage_options": {"protocol": "reference", "fo": "x"}}},
    {"JsonlReader": {"file_paths": "in", "storage_options": {"file": {"target_protocol": "dask"}}}},
    {"JsonlWriter": {"path": "dask://out"}},
    {"Generate": {"client": {"OpenAIClient": {"base_url": "http://thief.example/v1"}}}},
    {"Generate": {"client": {"OpenAIClient": {"base_url": "http://127.0.0.1.thief.example/v1"}}}},
    {"Generate": {"client": {"OpenAIClient": {"base_url": "http://localhost@thief.example/v1"}}}},
    {"Generate": {"client": {"AsyncOpenAIClient": {"api_key_variable": "AWS_SECRET_ACCESS_KEY"}}}},
    {"Generate": {"client": {"dcurate:AsyncOpenAIClient": {"base_url": "https://thief.example/v1"}}}},
    {"Generate": {"client": {"OpenAIClient": {"base_url": "http://thief.example\\@127.0.0.1/v1"}}}},
    {"Generate": {"client": {"OpenAIClient": {"base_url": "http://127.0.0.1\\@thief.example/v1"}}}},
    {"Generate": {"client": {"OpenAIClient": {"base_url": "http://a@127.0.0.1/v1"}}}},
    {"Tokenize": {"model": "m", "tokenizer_kwargs": {"mirror": "http://thief.example"}}},
]

THIEF = "http://thief.example"
#: Options of stores with which requests, and the credentials in them, go where the recipe wants.
OPTIONS = {
    "hf": ("hf://datasets/a/b/x.jsonl", {"endpoint": THIEF}),
    "hf with a token": ("hf://datasets/a/b/x.jsonl", {"endpoint": THIEF, "token": "hf_1"}),
    "hf here": ("hf://datasets/a/b/x.jsonl", {"endpoint": "http://127.0.0.1:8000"}),
    "hf in a chain": ("zip://x.jsonl::hf://datasets/a/b.zip", {"hf": {"endpoint": THIEF}}),
    "s3": ("s3://b/x.jsonl", {"endpoint_url": THIEF}),
    "s3 client": ("s3://b/x.jsonl", {"client_kwargs": {"endpoint_url": THIEF}}),
    "s3 with a session token": ("s3://b/x.jsonl", {"token": "t", "client_kwargs": {"endpoint_url": THIEF}}),
    "s3 proxy": ("s3://b/x.jsonl", {"config_kwargs": {"proxies": {"https": THIEF}}}),
    "s3 region": ("s3://b/x.jsonl", {"client_kwargs": {"region_name": "thief.example/"}}),
    "gs": ("gs://b/x.jsonl", {"endpoint_url": THIEF}),
    "gs session": ("gs://b/x.jsonl", {"session_kwargs": {"base_url": THIEF}}),
    "abfs host": ("abfs://c/x.jsonl", {"account_name": "a", "account_host": "thief.example"}),
    "abfs name": ("abfs://c/x.jsonl", {"account_name": "thief.example/a"}),
    "abfs connection": ("abfs://c/x.jsonl", {"connection_string": f"BlobEndpoint={THIEF}"}),
    "oss": ("oss://b/x.jsonl", {"endpoint": "thief.example"}),
    "lance": ("s3://b/x.jsonl", {"AWS-ENDPOINT": THIEF}),
    "http": ("https://host/x.jsonl", {"client_kwargs": {"trust_env": True}}),
    "http proxy": ("https://host/x.jsonl", {"proxy": THIEF}),
    "list": ("s3://b/x.jsonl", {"other": [{"url": "//thief.example"}]}),
}


def refused(caught, tmp_path):
    assert not (tmp_path / "imported").exists()
    assert not (tmp_path / "called").exists()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("entry", NAMES, ids=str)
def test_a_name_that_is_not_for_recipes_is_refused_before_anything_is_imported_or_called(load, tmp_path, entry):
    monkey = set(sys.modules)
    with pytest.raises(PipelineError) as caught:
        load([entry])
    assert "mine_of_trust" not in set(sys.modules) - monkey
    refused(caught, tmp_path)


@pytest.mark.parametrize("entry", [one for one in NAMES if isinstance(one, dict) and ":" in next(iter(one))], ids=str)
def test_it_is_refused_among_arguments_in_params_and_in_settings_as_well(load, tmp_path, entry):
    inner = {"Modify": {"modifier_fn": [entry]}}
    for stages, keys, overrides in (
        ([inner], {}, {}),
        ([{"ScoreFilter": {"filter_obj": {"WordCountFilter": {"min_words": entry}}}}], {}, {}),
        ([{"Modify": {"modifier_fn": "${p}"}}], {"params": {"p": entry}}, {}),
        ([{"Modify": {"modifier_fn": "${p}"}}], {"params": {"p": 1}}, {"p": [[entry]]}),
        ([{"${p}": entry[next(iter(entry))]}], {"params": {"p": next(iter(entry))}}, {}),
        ([{"AddId": {"id_field": "id"}, "with": {"resources": entry}}], {}, {}),
    ):
        with pytest.raises(PipelineError) as caught:
            load(stages, overrides, **keys)
        refused(caught, tmp_path)


@pytest.mark.parametrize("entry", ARGUMENTS, ids=str)
def test_arguments_that_have_a_stage_run_code_or_send_a_key_are_refused(load, tmp_path, entry):
    with pytest.raises(PipelineError, match="give --trust, or trust=True in Python") as caught:
        load([entry])
    refused(caught, tmp_path)
    name = next(iter(entry))
    with pytest.raises(PipelineError, match="give --trust, or trust=True in Python"):
        load([{name: "${p}"}], {"p": entry[name]}, params={"p": 1})


@pytest.mark.parametrize("name", OPTIONS)
def test_no_store_is_sent_to_an_address_of_the_recipe(load, name):
    path, options = OPTIONS[name]
    for stage in (
        {"JsonlReader": {"file_paths": path, "storage_options": options}},
        {"JsonlReader": {"file_paths": path, "read_kwargs": {"storage_options": options}}},
        {"ParquetWriter": {"path": path, "write_kwargs": {"storage_options": options}}},
        {"ScoreFilter": {"filter_obj": {"C4BadWordsFilter": {"words": path, "storage_options": options}}}},
    ):
        with pytest.raises(PipelineError, match="sent to an address; give --trust"):
            load([stage])
        kind = next(iter(stage))
        with pytest.raises(PipelineError, match="sent to an address; give --trust"):
            load([{kind: "${p}"}], {"p": stage[kind]}, params={"p": 1})


def test_options_of_stores_that_name_no_address_need_no_trust(load):
    options = {
        **{"key": "a/b+c", "secret": "d//e", "anon": True, "profile": "mine", "account_name": "a1", "token": "x"},
        "client_kwargs": {"region_name": "eu-west-1", "headers": {"Referer": "https://host/"}},
        "config_kwargs": {"s3": {"addressing_style": "path"}, "proxies": None},
    }
    [reader] = load([{"JsonlReader": {"file_paths": "s3://b/a", "storage_options": options}}]).pipeline.stages
    assert reader.storage_options == options
    schema = {"endpoint": {"type": "string"}, "mirror": {"type": "string"}}
    load([{"Generate": {"prompt": "{text}", "model": "m", "schema": schema, "client": {"OpenAIClient": {}}}}])
    stage = {"JsonlReader": {"file_paths": "hf://a/b", "storage_options": {"endpoint": THIEF}}}
    assert load([stage], trust=True).pipeline.stages[0].storage_options == {"endpoint": THIEF}


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_token_of_the_environment_reaches_no_server_of_a_recipe(tmp_path, monkeypatch, command):
    asked = []

    class Thief(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            asked.append(dict(self.headers))
            self.send_error(404)

        do_HEAD = do_POST = do_GET

    monkeypatch.setenv("HF_TOKEN", "hf_hunter2hunter2")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Thief) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        recipe = tmp_path / "r.yaml"
        options = f"{{endpoint: 'http://127.0.0.1:{server.server_port}'}}"
        reader = f"JsonlReader: {{file_paths: 'hf://datasets/a/b/x.jsonl', storage_options: {options}}}"
        recipe.write_text(f"stages:\n  - {reader}\n  - JsonlWriter: {{path: '{tmp_path / 'out'}'}}\n")
        try:
            result = CliRunner().invoke(cli, [command, str(recipe)])
        finally:
            server.shutdown()
            thread.join()
    assert (asked, result.exit_code) == ([], 1)
    assert "endpoint may have tokens and keys of yours sent to an address" in str(result.exception)


def test_a_place_for_dropped_rows_is_refused_alike(load):
    with pytest.raises(PipelineError, match="kind of store that may run code"):
        load([{"JsonlReader": {"file_paths": "in"}}], rejected="dask://out")


@pytest.mark.parametrize(
    "text",
    [
        f"stages:\n  - !!python/object/apply:os.system ['{MARK}']\n",
        f"stages: !!python/object/new:os.system ['{MARK}']\n",
        "stages:\n  - JsonlReader: {file_paths: !!python/name:os.system }\n",
        "stages:\n  - JsonlReader: {file_paths: !!python/module:mine_of_trust }\n",
    ],
)
@pytest.mark.parametrize("trust", [False, True])
def test_tags_of_python_in_yaml_make_nothing(load, tmp_path, text, trust):
    with pytest.raises(PipelineError, match="not valid YAML") as caught:
        load(text, trust=trust)
    refused(caught, tmp_path)


def test_the_environment_is_not_read_by_a_recipe(load, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hunter2")
    for text in ("$MY_SECRET", "$env:MY_SECRET", "%MY_SECRET%"):
        [stage] = load([{"AddId": {"id_field": "id", "id_prefix": text}}]).pipeline.stages
        assert stage.id_prefix == text
    with pytest.raises(PipelineError, match="param 'MY_SECRET' does not exist"):
        load([{"AddId": {"id_field": "id", "id_prefix": "${MY_SECRET}"}}])


def test_what_reads_and_writes_what_it_names_needs_no_trust(load):
    client = {"OpenAIClient": {"base_url": "http://localhost:8000/v1"}}
    paid = {"OpenAIClient": {"base_url": "https://models.example/v1", "api_key": "sk-1"}}
    stages = load(
        [
            {
                "JsonlReader": {
                    "file_paths": ["s3://b/in", "zip://*::file:///a.zip", "a::b"],
                    "storage_options": {"a": 1},
                }
            },
            {"dcurate:ScoreFilter": {"filter_obj": {"dcurate.text.filters.words:WordCountFilter": {"min_words": 1}}}},
            {"CountPii": {"recognizer": {"SpacyRecognizer": {"model": "en_core_web_sm"}}}},
            {"Generate": {"prompt": "{text}", "model": "m", "output_field": "a", "client": client}},
            {"Generate": {"prompt": "{text}", "model": "m", "output_field": "b", "client": paid}},
            {"Modify": {"modifier_fn": {"PiiModifier": {}}}},
            {"fineweb": None},
            {"JsonlWriter": {"path": "out"}},
        ]
    ).pipeline.stages
    assert stages[1] == dcurate.ScoreFilter(dcurate.text.WordCountFilter(min_words=1))


def test_with_trust_a_recipe_calls_what_it_names(load, tmp_path):
    [stage] = load([{"mine_of_trust:Stage": {"size": 3}}], trust=True).pipeline.stages
    assert stage.size == 3
    with pytest.raises(PipelineError, match="is not a stage"):
        load([{"mine_of_trust:call": {}}], trust=True)
    assert (tmp_path / "imported").exists()


def test_every_public_name_is_decided():
    """A name that is added later is refused, unless somebody says that it is for recipes."""
    others = {
        *(
            "adapt_kinds",
            "apply",
            "AttachedCluster",
            "Batch",
            "BatchKey",
            "BenchmarkImages",
            "BenchmarkRecordings",
            "PageOcr",
            "bloom_state",
            "bucket_limits",
            "BloomSize",
            "BloomState",
        ),
        *("compare_runs", "CorpusProfile", "DaskExecutor", "DataError", "DcurateError", "dedup_report", "deduplicate"),
        *("DedupReport", "DedupReportTable", "DocumentBatch", "ElasticCluster", "ExactDeduplicationWorkflow"),
        *("Job", "JobRecord", "jobs_on", "LogLine", "submit"),
        *("fetch", "File", "MediaError", "MediaFault", "Recognizer", "Ref", "ref_array", "SoundWindow", "Transcript"),
        *(
            "FileGroup",
            "fit_importance",
            "cohen_kappa",
            "ColumnStudent",
            "krippendorff_alpha",
            "measure_agreement",
            "FuzzyDeduplicationWorkflow",
            "GpuMemorySettings",
            "InlineExecutor",
            "inspect",
            "JsonProgress",
            "Kind",
        ),
        *("LocalCluster", "Needs", "NgramIndex", "NodeInfo", "PII_EXAMPLES", "Pipeline", "PipelineError"),
        *(
            "peek",
            "Preview",
            "processing_stage",
            "profile",
            "Progress",
            "publish",
            "Published",
            "prove",
            "prove_row",
            "prove_sample",
            "Proof",
            "RowChange",
            "RowProof",
            "read_rejected",
            "read_run",
            "refilter",
            "report_table",
            "RequestError",
        ),
        *("ResourceError", "RunError", "RunPlaces", "RunResult", "SemanticDeduplicationWorkflow", "Shape", "Signals"),
        *("SummaryField", "SummaryOptions", "SummarySection", "training_summary", "TrainingSummary"),
        *(
            "Skipped",
            "Source",
            "StageError",
            "Student",
            "StudentHead",
            "TextDuplicatesRemovalWorkflow",
            "TextSemanticDeduplicationWorkflow",
            "trace",
        ),
        *(
            "Lineage",
            "lineage",
            "OpenLineage",
            "OpenLineageSettings",
            "ThresholdPlot",
            "threshold_plot",
            "TracedPiece",
            "TraceHook",
            "Tracing",
            "way_back",
            "WaysBack",
            "WorkerMetadata",
            "WorkflowRunResult",
            "write_student_page",
        ),
    }
    assert {name for name in homes() if not may_be_made(name)} == others
    assert all(map(may_be_made, presets.__all__))


def command(folder, *arguments):
    """What the command, installed elsewhere, answers in a folder."""
    script = folder / "bin" / "dcurate"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from dcurate.cli import main\n\nif __name__ == '__main__':\n    main()\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(dcurate.__file__).parent.parent)}
    line = [sys.executable, script, *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_imports_nothing_of_the_folder_it_runs_in_unless_the_recipe_is_trusted(tmp_path):
    (tmp_path / "mine_of_trust.py").write_text(MINE)
    (tmp_path / "trafilatura.py").write_text("raise SystemExit('a module of the folder was imported')")
    (tmp_path / "r.yaml").write_text("stages:\n  - mine_of_trust:Stage: {size: 1}\n")
    code, _, said = command(tmp_path, "plan", "r.yaml")
    assert (code, said.count("\n")) == (2, 1)
    assert "mine_of_trust:Stage is not dcurate's, so it may run any code; give --trust" in said
    assert not (tmp_path / "imported").exists()
    code, shown, said = command(tmp_path, "plan", "r.yaml", "--trust")
    assert (code, said) == (0, "")
    assert "stage" in shown
    assert (tmp_path / "imported").exists()


def test_a_folder_has_no_code_run_by_the_command_nor_by_its_workers(tmp_path):
    (tmp_path / "r.yaml").write_text("stages:\n  - JsonlReader: {file_paths: in.jsonl}\n")
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    for name in ("multiprocessing", "pickle", "socket", "dask", "trafilatura"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'w').close()\nraise SystemExit(3)\n"
        )
    code, _, said = command(tmp_path, "run", "r.yaml", "--workers", "1", "--progress", "none")
    assert not (tmp_path / "imported").exists()
    assert code == 0, said
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: here\n")
    code, _, said = command(tmp_path, "plan", "r.yaml")
    assert (code, said.count("\n")) == (2, 1)
    assert ".numba_config.yaml in this folder sets where numba loads compiled code from" in said


def test_a_corpus_is_profiled_with_rules_of_ones_own_only_where_the_recipe_is_trusted(tmp_path, monkeypatch):
    (tmp_path / "mine_of_trust.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    recipe = tmp_path / "r.yaml"
    recipe.write_text("stages:\n  - ScoreFilter: {filter_obj: {mine_of_trust:Rule: {}}}\n")
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n')
    with pytest.raises(PipelineError, match="give --trust"):
        dcurate.profile(str(source), filters=str(recipe), executor=dcurate.InlineExecutor())
    assert not (tmp_path / "imported").exists()
    found = dcurate.profile(str(source), filters=str(recipe), executor=dcurate.InlineExecutor(), trust=True)
    assert found.documents == 1
