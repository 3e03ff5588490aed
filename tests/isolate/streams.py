"""Functions over served files that the child processes of tests call."""

from __future__ import annotations

import os
import signal
import time


def answer(source, request, options):
    """Do what the request says with the file."""
    what = request["do"]
    if what == "read":
        for offset, size in request["ranges"]:
            source.seek(offset)
            yield {"at": source.tell()}, [source.read(size)]
    if what == "die":
        yield {"n": 1}, []
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "spin":
        yield {"n": 1}, []
        while True:
            pass
    if what == "read forever":
        while True:
            for start in range(0, request["size"], 2**18):
                source.seek(start)
                source.read(1)
    if what == "progress":
        for _ in range(request["times"]):
            until = time.process_time() + request["cpu_s"]
            while time.process_time() < until:
                pass
            yield None
        yield {"n": 2}, []
    if what == "fail":
        raise ValueError("broken")
