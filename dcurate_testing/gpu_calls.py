"""The names of GPU libraries that dcurate uses, found in its source, and whether the libraries have them.

Most of them are called only where there is a GPU, so no test on a CPU reaches them. Variables are followed from where a
library is imported; parameters, and attributes of what libraries return, are in tables here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = ("numba.cuda", "cupy", "cudf", "pylibcudf", "rmm", "dask_cuda", "pynvml", "torch")
#: Where GPU libraries are used, below the root of the repository.
SOURCES = ("dcurate", "benchmarks/device", "dcurate_testing/device.py")

_ARRAY, _DRIVER = "numba.cuda.cudadrv.devicearray.DeviceNDArray", "numba.cuda.cudadrv.driver"
#: Functions of dcurate that return a library.
_GETTERS = {"_cuda": "numba.cuda", "cudf": "cudf", "array_library": "cupy"}
#: Types of what functions return; ``[]`` means an item.
_RESULTS = {
    **dict.fromkeys([f"numba.cuda.{name}" for name in ("to_device", "device_array", "as_cuda_array")], _ARRAY),
    **dict.fromkeys([f"{_ARRAY}{name}" for name in (".view", ".reshape", "[]")], _ARRAY),
    "numba.cuda.stream": f"{_DRIVER}.Stream",
    "numba.cuda.event": f"{_DRIVER}.Event",
    "numba.cuda.current_context": f"{_DRIVER}.Context",
    f"{_DRIVER}.Context.get_memory_info": f"{_DRIVER}.MemoryInfo",
    **dict.fromkeys(
        [
            f"cupy.{name}"
            for name in (
                "asarray",
                "zeros",
                "ones",
                "where",
                "maximum",
                "tri",
                "take_along_axis",
                "arange",
                "ndarray[]",
            )
        ],
        "cupy.ndarray",
    ),
    "cupy.ndarray.argmax": "cupy.ndarray",
    "cupy.ndarray.sum": "cupy.ndarray",
    "cupy.cuda.Device": "cupy.cuda.Device",
    "cupy.get_default_memory_pool": "cupy.cuda.MemoryPool",
    "cupy.get_default_pinned_memory_pool": "cupy.cuda.PinnedMemoryPool",
    "cudf.DataFrame.from_arrow": "cudf.DataFrame",
    "cudf.DataFrame.take": "cudf.DataFrame",
    "cudf.DataFrame[]": "cudf.Series",
    "cudf.Series.fillna": "cudf.Series",
    "pylibcudf.Column.child": "pylibcudf.Column",
    "pylibcudf.Column.type": "pylibcudf.DataType",
    "cudf.core.buffer.spill_manager.get_global_manager": "cudf.core.buffer.spill_manager.SpillManager",
    "pynvml.nvmlDeviceGetMemoryInfo": "pynvml.c_nvmlMemory_t",
    "pynvml.nvmlDeviceGetUtilizationRates": "pynvml.c_nvmlUtilization_t",
    **dict.fromkeys(("torch.cuda.Stream", "torch.cuda.current_stream"), "torch.cuda.Stream"),
    **dict.fromkeys(("torch.cuda.Event", "torch.cuda.Stream.record_event"), "torch.cuda.Event"),
}
#: Types of attributes.
_MEMBERS = {
    "cudf.Series._column": "cudf.core.column.column.ColumnBase",
    "cudf.Series.str": "cudf.core.accessors.string.StringMethods",
    f"{_DRIVER}.Context.deallocations": f"{_DRIVER}._PendingDeallocs",
}
_CUDF_FRAME = {f"frame.{name}": f"cudf.DataFrame.{name}" for name in ("to_arrow", "to_pandas", "memory_usage")}
#: Types of variables and other expressions by file, ``function:expression`` in one function only.
_VARIABLES: dict[str, dict[str, str]] = {
    "dcurate/kernels/cuda.py": {"cuda": "numba.cuda", "free:memory": f"{_DRIVER}.MemoryInfo"},
    "dcurate/kernels/cuda_copies.py": {
        "library": "numba.cuda",
        "stream": f"{_DRIVER}.Stream",
        "copied": f"{_DRIVER}.Event",
        "copy": _ARRAY,
        "to_host:array": _ARRAY,
    },
    "dcurate/kernels/cuda_compiler.py": {"self._cache_file": "numba.cuda.core.caching.IndexDataCacheFile"},
    "dcurate/frames/gpus.py": {
        "frame": "cudf.DataFrame",
        "series": "cudf.Series",
        "column": "pylibcudf.Column",
        "part": "pylibcudf.Column",
        "read": "cudf.read_parquet",
        "decode:column": "",
        "texts_on_gpu:frame": "",
    },
    "dcurate/frames/convert.py": {
        **_CUDF_FRAME,
        "rows_at:frame": "cudf.DataFrame",
        "with_column:frame": "cudf.DataFrame",
    },
    "dcurate/frames/vectors.py": {"array.get": "cupy.ndarray.get"},
    "dcurate/dedup/semantic/kmeans.py": {"library": "cupy"},
    "dcurate/dedup/semantic/similar.py": {"library": "cupy"},
    "dcurate/core/gpu_memory.py": {
        "_free_numba:library": "numba.cuda",
        "_free_cupy:library": "cupy",
        "_free_torch:library": "torch",
        "_free_cudf:library": "cudf.core.buffer.spill_manager",
        "torch": "torch",
        "cupy": "cupy",
        "numba_cuda": "numba.cuda",
    },
    "dcurate/cluster/worker_info.py": {
        "nvml": "pynvml",
        "memory": "pynvml.c_nvmlMemory_t",
        "process": "pynvml.c_nvmlProcessInfo_t",
        "detect:memory": "",
        "_gpus_of:memory": "",
        "_is_of_dask:process": "",
    },
    "dcurate/models/transfer.py": {"self.torch": "torch", "self._stream": "torch.cuda.Stream"},
    "dcurate_testing/device.py": {"frame": "cudf.DataFrame", "rate:torch": "torch"},
    "benchmarks/device/peaks.py": {"torch": "torch"},
}
#: What the source uses by names that it puts together, and what the stand-in for cuDF has beside.
_BESIDE = (
    *(f"dask_cuda.{name}.{name}.register" for name in ("is_device_object", "is_spillable_object")),
    "dask_cuda.LocalCUDACluster.__init__",
    "cudf.DataFrame.columns",
    "rmm.allocators.numba.RMMNumbaManager",
)


class Use(NamedTuple):
    """A name of a library where it is used.

    Args:
        place: file and line.
        name: with its module.
        given: number of positional arguments, and keywords, where it is called with what the source shows.
    """

    place: str
    name: str
    given: tuple[int, tuple[str, ...]] | None = None


class _Reader(ast.NodeVisitor):
    """Follows the variables of a module.

    Args:
        file: its path, from the root of the repository.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Use] = []
        self._hints = _VARIABLES.get(file, {})
        self._scopes: list[dict[str, str | None]] = [
            {name: kind for name, kind in self._hints.items() if ":" not in name}
        ]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        own = {name.partition(":")[2]: kind for name, kind in self._hints.items() if name.startswith(f"{node.name}:")}
        self._scopes.append({**self._scopes[-1], **own})
        self.generic_visit(node)
        self._scopes.pop()

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            if _of_library(one.name):
                self._scopes[-1][one.asname or one.name] = one.name

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                for one, kind in zip(target.elts, self._kinds(node.value, len(target.elts)), strict=True):
                    self._put(one, kind)
            else:
                self.visit(target)
                self._put(target, self._kind(node.value))

    def visit_withitem(self, node: ast.withitem) -> None:
        self.visit(node.context_expr)
        if node.optional_vars is not None:
            self._put(node.optional_vars, self._kind(node.context_expr))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        self._note(node, self._named(node))

    def visit_Call(self, node: ast.Call) -> None:
        for child in (node.func, *node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(child)
        name = self._named(node.func)
        starred = any(isinstance(one, ast.Starred) for one in node.args) or any(
            one.arg is None for one in node.keywords
        )
        if not starred:
            self._note(node, name, (len(node.args), tuple(str(one.arg) for one in node.keywords)))

    def _note(self, node: ast.expr, name: str | None, given: tuple[int, tuple[str, ...]] | None = None) -> None:
        if name is not None and name not in LIBRARIES:
            self.found.append(Use(f"{self.file}:{node.lineno}", name, given))

    def _put(self, target: ast.expr, kind: str | None) -> None:
        text = ast.unparse(target)
        if kind is not None or text not in self._hints:
            self._scopes[-1][text] = kind

    def _named(self, node: ast.expr) -> str | None:
        """The full name of a function or an attribute."""
        known = self._scopes[-1].get(ast.unparse(node))
        if known is not None or not isinstance(node, ast.Attribute):
            return known or None
        base = self._kind(node.value)
        return f"{base}.{node.attr}" if base else None

    def _kinds(self, node: ast.expr, count: int) -> list[str | None]:
        if isinstance(node, ast.Tuple) and not any(isinstance(value, ast.Starred) for value in node.elts):
            return [self._kind(value) for value in node.elts]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "map" and isinstance(node.args[1], ast.Tuple):
            return [_constant(one) for one in node.args[1].elts]
        return [None] * count

    def _kind(self, node: ast.expr) -> str | None:
        """The library or the type that an expression is; None if it is none of a library."""
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func).rpartition(".")[2]
            if function in ("import_module", "needed") and node.args:
                return _constant(node.args[0])
            if function == "_dask_cuda":
                return f"dask_cuda{ast.literal_eval(node.args[0])}"
            return _GETTERS.get(function) or _RESULTS.get(self._named(node.func) or "")
        if isinstance(node, ast.Subscript):
            return _RESULTS.get(f"{self._kind(node.value)}[]")
        if isinstance(node, ast.IfExp):
            return self._kind(node.body) or self._kind(node.orelse)
        if isinstance(node, ast.BinOp):
            return self._kind(node.left) or self._kind(node.right)
        name = self._named(node)
        return _MEMBERS.get(name, name) if name else None


def _constant(node: ast.expr) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) and _of_library(value) else None


def _of_library(module: str) -> bool:
    return any(f"{module}.".startswith(f"{library}.") for library in LIBRARIES)


def uses(root: Path) -> Iterator[Use]:
    """Yield what the source below a root uses of GPU libraries, and `_BESIDE`."""
    for source in SOURCES:
        path = root / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            reader = _Reader(file.relative_to(root).as_posix())
            reader.visit(ast.parse(file.read_text("utf-8")))
            yield from reader.found
    yield from (Use("beside", name) for name in _BESIDE)


def resolved(name: str) -> Any:
    """Return the object with a full name, from its library; None for an attribute that its class sets in objects.

    Raises:
        AttributeError: there is none.
    """
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if inspect.isclass(value) and not hasattr(value, part) and part in _set_in_objects(value):
                return None
            value = getattr(value, part)
        return value
    raise AttributeError(name)


def _set_in_objects(kind: type) -> set[str]:
    """Attributes that methods of a class set, also those of its bases."""
    found: set[str] = set()
    for one in kind.__mro__[:-1]:
        try:
            tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(one)))
        except (OSError, TypeError, SyntaxError):  # of a C extension
            continue
        stored = (
            node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        )
        found |= {node.attr for node in stored if ast.unparse(node.value) == "self"}
    return found


Signature = list[list[Any]] | None


def signature(value: Any) -> Signature:
    """The parameters of a function: names, kinds, whether they are optional; None if unknown."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[one.name, one.kind.name, one.default is not inspect.Parameter.empty] for one in parameters]


def bound(recorded: list[list[Any]]) -> inspect.Signature:
    """A signature as it was recorded."""
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(
                name, getattr(inspect.Parameter, kind), default=None if optional and "VAR" not in kind else empty
            )
            for name, kind, optional in recorded
        ]
    )


def refused(found: Iterable[Use], signatures: Mapping[str, Signature]) -> list[str]:
    """Uses that do not fit recorded signatures, each in a sentence."""
    wrong = []
    for use in found:
        if use.name not in signatures:
            wrong.append(f"{use.place}: {use.name} is not among the names that were recorded")
            continue
        recorded = signatures[use.name]
        if use.given is None or recorded is None:
            continue
        count, keywords = use.given
        # Methods were recorded from their class, and functions for kernels with what numba gives them.
        count += bool(recorded) and recorded[0][0] in ("self", "typingctx")
        try:
            bound(recorded).bind(*range(count), **dict.fromkeys(keywords))
        except TypeError as error:
            wrong.append(f"{use.place}: {use.name}: {error}")
    return wrong
