"""Workers that come as jobs of several processes each, as a batch system starts them: what dask-jobqueue does."""

from __future__ import annotations

import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from distributed.deploy.spec import ProcessInterface

from tests.forked import FORKS, start_forked

#: Jobs that the queue did not take. Something refers to them until the cluster is closed, as the traceback may.
REFUSED: list[ProcessInterface] = []


class Job(ProcessInterface):
    """A ``dask worker`` command of two processes; the first submission of a job named in ``refused`` fails.

    Args:
        scheduler: its address.
        name: of the job; its workers are called after it.
        folder: where logs and the marks of refusals are written.
        refused: names of jobs.
    """

    def __init__(self, scheduler: str, name: str, folder: str, refused: tuple[str, ...] = (), **_: Any) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.scheduler = scheduler
        self.name = name
        self.folder = Path(folder)
        self.refused = refused
        self.process: BaseProcess | None = None

    async def start(self) -> None:
        mark = self.folder / f"{self.name}.refused"
        if self.name in self.refused and not mark.exists():
            mark.touch()
            REFUSED.append(self)
            raise RuntimeError(f"the queue takes no job {self.name}")
        options = ["--name", self.name, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
        command = [sys.executable, "-m", "dask", "worker", self.scheduler, *options, "--local-directory", self.folder]
        self.process = start_forked(command, self.folder / f"{self.name}.log", **FORKS)
        await super().start()

    async def close(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.join(20)
        await super().close()
