"""NVML of a machine with two GPUs of 80 GB, as far as dask-cuda, distributed and dcurate ask it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NVML_DEVICE_MIG_ENABLE, NVML_DEVICE_MIG_DISABLE = 1, 0
UUIDS = ("GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000")
MEMORY = 80 * 10**9


class NVMLError(Exception):
    """What NVML raises."""


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_NotFound(NVMLError):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_DriverNotLoaded(NVMLError):
    pass


class NVMLError_Unknown(NVMLError):
    pass


def nvmlInit() -> None:
    pass


def nvmlShutdown() -> None:
    pass


def nvmlSystemGetDriverVersion() -> str:
    return "580.65.06"


def nvmlDeviceGetCount() -> int:
    return len(UUIDS)


def nvmlDeviceGetHandleByIndex(index: Any) -> int:
    if not 0 <= int(index) < len(UUIDS):
        raise NVMLError_NotFound
    return int(index)


def nvmlDeviceGetHandleByUUID(uuid: bytes | str) -> int:
    return UUIDS.index(uuid.decode() if isinstance(uuid, bytes) else uuid)


def nvmlDeviceGetIndex(handle: int) -> int:
    return handle


def nvmlDeviceGetUUID(handle: int) -> str:
    return UUIDS[handle]


def nvmlDeviceGetName(handle: int) -> str:
    return "NVIDIA H100 80GB HBM3"


def nvmlDeviceGetMemoryInfo(handle: int) -> Any:
    return SimpleNamespace(total=MEMORY, used=10**9, free=MEMORY - 10**9)


def nvmlDeviceGetUtilizationRates(handle: int) -> Any:
    return SimpleNamespace(gpu=0)


def nvmlDeviceGetMigMode(handle: int) -> tuple[int, int]:
    raise NVMLError_NotSupported


def nvmlDeviceGetMaxMigDeviceCount(handle: int) -> int:
    return 0


def nvmlDeviceIsMigDeviceHandle(handle: int) -> bool:
    return False


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Any]:
    return []


def nvmlDeviceGetCpuAffinity(handle: int, size: int) -> list[int]:
    return [1 << handle] + [0] * (size - 1)


def nvmlDeviceGetGraphicsRunningProcesses(handle: int) -> list[Any]:
    return []
