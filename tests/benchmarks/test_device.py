"""Wheels reach a machine without a package index whole, and what runs there says so where there is no GPU."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import struct
import subprocess
import sys
import zipfile
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

import benchmarks.device.__main__ as device
from benchmarks.device import kernels, parts, preflight, receive, sanitizer, slim, slots, stage, visits
from benchmarks.device.compiled import faults
from benchmarks.device.preflight import gpus

pytestmark = pytest.mark.program

KEPT, OTHER = b"code of 90 " * 9, b"code of 80 " * 40


def wheel(folder: Path, name: str, content: bytes, library: bytes = b"") -> Path:
    """A wheel of one module, and a library and a header if there is one."""
    path, info = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    files = {f"{name}.py": content, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()}
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if library:
        files |= {f"{name}/lib{name}.so": library, f"{name}/include/{name}.h": b"int x;"}
    rows = [f"{file},sha256={_hash(data)},{len(data)}" for file, data in files.items()]
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in files.items():
            archive.writestr(file, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))
    return path


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def container(*entries: tuple[int, bytes]) -> bytes:
    """Machine code as it stands in a library: each entry says for which architecture."""
    body = b"".join(
        (struct.pack("<HHIQ", 2, 1, 64, len(code)) + bytes(12) + struct.pack("<I", arch)).ljust(64, b"\0") + code
        for arch, code in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(*containers: bytes) -> bytes:
    """A 64-bit ELF file with a section of machine code for GPUs."""
    code = b"".join(one.ljust(-(-len(one) // 8) * 8, b"\0") for one in containers)
    names = b"\0.nv_fatbin\0.shstrtab\0"
    heads = [(0, 0, 0), (1, 64, len(code)), (12, 64 + len(code), len(names))]
    table = 64 + len(code) + len(names)
    head = (b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", table)).ljust(58, b"\0")
    head += struct.pack("<HHH", 64, len(heads), 2)
    rows = (struct.pack("<IIQQQQ", name, 1, 0, 0, offset, size).ljust(64, b"\0") for name, offset, size in heads)
    return head + code + names + b"".join(rows)


def test_a_library_keeps_the_code_of_one_architecture_where_there_is_any() -> None:
    both, other = container((80, OTHER), (90, KEPT)), container((80, OTHER))
    whole = library(both, other)
    data = bytearray(whole)
    kept, untouched = slim.prune(data, 90)
    assert (kept, untouched, len(data)) == (64 + len(KEPT), 1, len(whole))
    assert (data.count(KEPT), data.count(OTHER), whole.count(OTHER)) == (1, 1, 2)
    first = slim.sections(data)[".nv_fatbin"][0]
    (entry,) = slim.entries(data, first + 16, first + 16 + kept)
    assert (entry.kind, entry.arch) == (2, 90)
    assert slim.prune(bytearray(b"no library"), 90) == (0, 0)


def test_a_smaller_wheel_has_no_headers_and_says_truly_what_it_holds(tmp_path: Path) -> None:
    big = library(container((80, OTHER * 3000), (90, KEPT)))
    made = slim.slim(wheel(tmp_path, "cuda", b"x = 1", big), tmp_path / "slim", 90)
    with zipfile.ZipFile(made) as archive:
        names = set(archive.namelist())
        rows = archive.read("cuda-1.0.dist-info/RECORD").decode().splitlines()
        for name, digest, size in (row.split(",") for row in rows if not row.endswith(",,")):
            assert (digest, size) == (f"sha256={_hash(archive.read(name))}", str(len(archive.read(name))))
        assert OTHER not in archive.read("cuda/libcuda.so")
    assert names == {
        "cuda.py",
        "cuda/libcuda.so",
        *(f"cuda-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
    }
    assert made.stat().st_size < 5000


def test_wheels_that_are_cut_arrive_whole_and_lists_are_installed_when_they_are_complete(tmp_path: Path) -> None:
    noise = b"data = " + repr(hashlib.shake_256(b"x").digest(700_000)).encode()
    wheels = [("base", wheel(tmp_path, "small", b"x = 1")), ("cudf", wheel(tmp_path, "large", noise))]
    folders = stage.write(wheels, 1_500_000, tmp_path)
    assert len(folders) > 1
    assert all(sum(file.stat().st_size for file in folder.iterdir()) < 1_600_000 for folder in folders)
    store, site = tmp_path / "store", tmp_path / "site"
    waiting = [receive.receive([folder], store, site) for folder in folders]
    assert [len(one) for one in waiting] == [1] * (len(folders) - 1) + [0]
    assert waiting[0][0].startswith("cudf (")
    assert (site / "small.py").read_bytes() == b"x = 1"
    assert (site / "large.py").read_bytes() == noise
    (site / "numba.pth").write_text("import sys; sys.redirected = True")  # numba-cuda has one
    command = [sys.executable, "-c", "import small, sys; print(small.x, sys.redirected)"]
    done = subprocess.run(command, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"


def test_a_folder_is_as_large_as_what_is_carried_with_it_leaves(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("ignored\n")
    whole = stage.what_fits(tmp_path)
    assert 64_000_000 < whole < 62 * 2**20
    for name in ("ignored", "new", "known"):
        (tmp_path / name).write_bytes(bytes(1000))
    subprocess.run(["git", "add", "known"], cwd=tmp_path, check=True)
    assert stage.what_fits(tmp_path) == whole - 2000
    with (tmp_path / "large").open("wb") as file:
        file.truncate(60_000_000)
    with pytest.raises(SystemExit, match=r"the checkout has 60\.0 MB, and 65\.0 can be carried: make it smaller"):
        stage.what_fits(tmp_path)


def test_a_wheel_that_was_harmed_on_the_way_is_not_installed(tmp_path: Path) -> None:
    (folder,) = stage.write([("base", wheel(tmp_path, "small", b"x = 1"))], 10**6, tmp_path)
    piece = next(folder.glob("small*"))
    piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    with pytest.raises(SystemExit, match="is not what was sent: its hash differs"):
        receive.receive([folder], tmp_path / "store", tmp_path / "site")


def test_the_lists_name_each_wheel_once_and_with_its_version() -> None:
    wanted = stage.pins(stage.LISTS)
    assert set(wanted.values()) == {"base", "cudf"}
    assert all(pin.count("==") == 1 for pin in wanted)
    names = sorted(pin.partition("==")[0] for pin in wanted)
    assert all(one != other for one, other in pairwise(names))


def test_the_first_folder_has_what_numba_cuda_needs_beside_a_newer_numpy() -> None:
    base = dict(pin.split("==") for pin, name in stage.pins(stage.LISTS).items() if name == "base")
    assert base["numba-cuda"] == "0.30.4"
    assert tuple(map(int, base["numpy"].split("."))) < (2, 5)


def test_without_a_gpu_it_says_so_in_one_line_and_a_part_that_is_none_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.device"]
    if not gpus():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (
            2,
            "no GPU: NVML finds none on this machine; --cpu runs what needs none\n",
        )
        assert preflight.missing() == {"gpu": "no GPU: NVML finds none on this machine"}
    refused = subprocess.run([*command, "--cpu", "--only", "kernel"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "there is no part 'kernel'; there are peaks, right, speed" in refused.stderr


def test_what_a_library_raises_is_named_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> str:
        raise RuntimeError("no driver\nand more lines")

    monkeypatch.setattr(preflight, "CHECKS", {"gpu": lambda: "", "torch": refuses, "dask": lambda: ""})
    assert preflight.missing() == {"torch": "torch: RuntimeError: no driver"}


def _part(
    name: str, code: str, limit: float = 20.0, least: float = 0.0, needs: tuple[str, ...] = ()
) -> parts.DevicePart:
    return parts.DevicePart(name, limit, least, ("-c", code), needs)


_WRITES = "import json, sys; json.dump({'kernels': 3}, open(sys.argv[-1], 'w')); print('said'); "


def _all(
    chosen: list[parts.DevicePart], folder: Path, budget: float = 60.0, missing: dict[str, str] | None = None
) -> Any:
    """What came of parts, and the file as it was after each of them."""
    file, after = folder / "all.json", []

    def written(found: list[dict[str, Any]]) -> None:
        device.written(file, {"date": "today"}, found)
        after.append([one["part"] for one in json.loads(file.read_text())["parts"]])

    run = partial(parts.run_part, folder=folder, cpu=False)
    return parts.run_all(chosen, missing or {}, budget, run, written), after


def test_a_part_that_hangs_or_dies_leaves_its_figures_and_the_parts_after_it(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; subprocess.Popen(['sleep', '77.7']); "
    chosen = [
        _part("hangs", _WRITES + child + "sys.stdout.flush(); time.sleep(60)", limit=6.0),
        _part("dies", _WRITES + "import os; sys.stdout.flush(); os.abort()"),
        _part("half", "import sys; open(sys.argv[-1], 'w').write('{\"a'); sys.exit(1)"),
        _part("good", _WRITES),
    ]
    found, after = _all(chosen, tmp_path)
    assert [(one["right"], one["ended"], one["figures"]) for one in found] == [
        (False, "ended after 6 s", {"kernels": 3}),
        (False, "exit status -6", {"kernels": 3}),
        (False, "exit status 1", None),
        (True, "done", {"kernels": 3}),
    ]
    assert found[0]["said"].strip() == found[3]["said"].strip() == "said"
    assert after == [["hangs", "dies", "half", "good"][: number + 1] for number in range(4)]
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "77.7"]]


def test_no_part_begins_that_the_budget_does_not_last_for_or_that_something_is_missing_for(tmp_path: Path) -> None:
    chosen = [
        _part("cut", _WRITES + "import time; sys.stdout.flush(); time.sleep(60)", limit=50.0),
        _part("long", _WRITES, least=30.0),
        _part("cudf", _WRITES, needs=("cudf",)),
    ]
    found, _ = _all(chosen, tmp_path, budget=1.5, missing={"cudf": "cudf: ModuleNotFoundError: no cuDF"})
    assert [(one["right"], one["ended"]) for one in found] == [
        (False, "ended after 1 s"),
        (None, "not run: 0 s of the budget were left, and it needs 30"),
        (None, "not run: cudf: ModuleNotFoundError: no cuDF"),
    ]


def test_parts_are_limited_and_their_modules_exist() -> None:
    for part in parts.PARTS:
        assert 0 < part.least <= part.limit <= 540
        assert set(part.needs) <= set(preflight.CHECKS)
        for command in filter(None, (part.command, part.cpu)):
            assert command == ("pytest",) or importlib.util.find_spec(command[1]) is not None
    assert len({part.name for part in parts.PARTS}) == len(parts.PARTS)


def test_a_run_without_a_gpu_writes_what_each_part_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.device", "--cpu", "--only", "peaks,kmeans"]
    done = subprocess.run([*command, "--json", str(tmp_path / "all.json")], capture_output=True, text=True, check=False)
    by_name = {one["part"]: one for one in json.loads((tmp_path / "all.json").read_text())["parts"]}
    assert (done.returncode, [one["right"] for one in by_name.values()]) == (0, [True, True])
    assert by_name["kmeans"]["figures"]["labels_agree"] == 1.0
    assert by_name["peaks"]["figures"]["products in bfloat16, TFLOP/s"] > 0


def _ran(module: Any, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any]:
    """Exit status and figures of a module of the benchmark."""
    file = folder / "figures.json"
    monkeypatch.setattr(sys, "argv", [module.__name__, *command.split(), "--json", str(file)])
    return module.main(), json.loads(file.read_text())


def test_the_processes_that_time_and_check_kernels_run_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in parts._SIMULATED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(kernels, "SIMULATED", ("word",))
    status, (timed,) = _ran(kernels, "speed --cpu", tmp_path, monkeypatch)
    assert (status, timed["kernel"], timed["equal"]) == (0, "word", True)
    assert min(timed["core_gb_s"], timed["gpu_gb_s"], timed["gpu_gb_s_with_1_mb"]) > 0
    status, checked = _ran(sanitizer, "--cpu", tmp_path, monkeypatch)
    assert (status, checked) == (0, [{"tool": "memcheck", "kernel": "word", "status": 0, "said": ""}])
    under = sanitizer.command_of("initcheck", "word", False)
    assert under[:2] == ["compute-sanitizer", "--tool=initcheck"]
    assert under[4:] == sanitizer.command_of("initcheck", "word", True)[:-1]


def test_slots_work_together_in_threads_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "SHAPES_OF_CPU", ((2, 2),))
    status, (found,) = _ran(slots, "--cpu --seconds 0.1", tmp_path, monkeypatch)
    assert (status, found["processes"], found["slots"], found["texts_s"] > 0) == (0, 2, 2, True)


def test_what_has_no_form_without_a_gpu_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, made = _ran(device, "--cpu --only frames,rmm,tests", tmp_path, monkeypatch)
    assert (status, [one["ended"] for one in made["parts"]]) == (0, ["not run: nothing of it runs without a GPU"] * 3)
    assert capsys.readouterr().out.count("nothing of it runs without a GPU") == 6
    assert [part.name for part in map(device.without_gpu, parts.PARTS) if part.needs] == ["frames", "rmm", "tests"]


def test_three_visits_run_every_part_in_the_time_that_a_machine_is_lent(tmp_path: Path) -> None:
    planned = [name for visit in visits.VISITS.values() for name in visit.parts]
    assert sorted(planned) == sorted(part.name for part in parts.PARTS)
    assert all(visit.budget <= 540 for visit in visits.VISITS.values())
    assert sum(visit.budget for visit in visits.VISITS.values()) <= 1500
    command = [sys.executable, "-m", "benchmarks.device.visits", "3", "--out", str(tmp_path), "--cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    made = json.loads((tmp_path / "visit3.json").read_text())
    assert (done.returncode, [one["part"] for one in made["parts"]]) == (0, ["frames", "rmm", "tests"])


def test_code_that_spills_or_has_a_stack_or_constants_is_a_fault() -> None:
    good = {"kernel": "k", "arch": 90, "registers": 128, "stack_bytes": 0, "spilled_bytes": 0, "constant_bytes": 0}
    assert faults(good) == []
    for name, value in (("registers", 129), ("stack_bytes", 8), ("spilled_bytes", 4), ("constant_bytes", 256)):
        assert faults({**good, name: value}) == [
            f"k for sm_90 has {value} {name.replace('_', ' ')}; at most {good[name]} are allowed"
        ]
