"""Rows a second and CPU of asking a model, beside the `openai` package, against a server that takes a known time.

``python -m benchmarks.llm [--latency S ...] [--spread SHARE ...] [--concurrency N] [--rounds N] [--json FILE]``. The
server is the one of the tests, a process of its own, and answers without thinking: what is measured is the client. What
could be had at best is ``concurrency / latency`` rows a second, with the latencies that the server takes. CPU is that
of the asking process, from the first request to the last. See README.md here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import ROOT, job, machine, save, table, versions
from dcurate import DocumentBatch, InlineExecutor, Pipeline
from dcurate.llm import AsyncOpenAIClient, Generate, RequestError
from dcurate_testing.llm_server import Behaviour, served

MODULE = "benchmarks.llm"
WORDS = "Say what this is about, and how well it is written. " * 20

#: Who asks, and with how many requests at a time; one that asks one at a time is given fewer rows.
WHO = {"dcurate": None, "dcurate over AsyncOpenAI": None, "AsyncOpenAI and gather": None, "OpenAI, one at a time": 1}


def _texts(rows: int) -> list[str]:
    return [f"{number} {WORDS}" for number in range(rows)]


def _measured(work: Callable[[], int]) -> dict[str, float]:
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    rows = work()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": rows, "wall_s": wall, "cpu_s": cpu}


# The jobs


class OverOpenAI(AsyncOpenAIClient):
    """Send requests with the `openai` package; retries, limits, cache and errors are those of dcurate."""

    async def _exchange(
        self, method: str, path: str, content: bytes | None, limit: int = 0, content_type: str | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        import httpx2  # noqa: PLC0415 - the peer is loaded where it runs
        import openai  # noqa: PLC0415

        if "_openai" not in vars(self):
            headers = {name: value.reveal() for name, value in self.default_headers.items()}
            settings: Any = {"timeout": self.timeout_s, "max_retries": 0, "default_headers": headers}
            self._openai = openai.AsyncOpenAI(api_key=self._key(), base_url=self.address, **settings)
        try:
            if content is None:
                response = await self._openai.get(path, cast_to=httpx2.Response)
            else:
                json_headers: Any = {"headers": {"Content-Type": content_type or "application/json"}}
                response = await self._openai.post(path, cast_to=httpx2.Response, content=content, options=json_headers)
        except openai.APIStatusError as error:
            response = error.response
        except openai.APITimeoutError as error:
            raise RequestError(f"no answer within timeout={self.timeout_s:g} s", "timeout", again=True) from error
        except openai.APIConnectionError as error:
            raise RequestError(f"{self.address + path} cannot be reached: {error}", "connection", again=True) from error
        return response.status_code, response.headers, response.content

    async def close(self) -> None:
        if "_openai" in vars(self):
            await vars(self).pop("_openai").close()


def dcurate(url: str, rows: int, concurrency: int, batch: int) -> dict[str, float]:
    """A pipeline of one stage, on batches of so many rows."""
    return _piped(AsyncOpenAIClient(concurrency, base_url=url), rows, batch)


def over_openai(url: str, rows: int, concurrency: int, batch: int) -> dict[str, float]:
    """The same, with the package under the client."""
    return _piped(OverOpenAI(concurrency, base_url=url), rows, batch)


def _piped(client: AsyncOpenAIClient, rows: int, batch: int) -> dict[str, float]:
    stage = Generate(prompt="{text}", output_field="said", client=client, model="made-up")
    texts = _texts(rows)
    batches = [DocumentBatch(data=pa.table({"text": texts[at : at + batch]})) for at in range(0, rows, batch)]
    pipeline = Pipeline("llm", stages=[stage])
    pipeline.run(InlineExecutor(), initial_tasks=[DocumentBatch(data=pa.table({"text": ["warm up"]}))])
    return _measured(lambda: sum(len(each) for each in _said(pipeline.run(InlineExecutor(), initial_tasks=batches))))


def _said(result: Any) -> list[list[str]]:
    return [[text for text in batch.to_arrow()["said"].to_pylist() if text.startswith("echo")] for batch in result]


def gathered(url: str, rows: int, concurrency: int, batch: int) -> dict[str, float]:
    """What one would write by hand: the package's client, a semaphore and gather."""
    import openai  # noqa: PLC0415 - the peer is loaded where it runs

    async def all_of() -> dict[str, float]:
        turns = asyncio.Semaphore(concurrency)
        async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:

            async def one(text: str) -> str:
                async with turns:
                    message: Any = {"role": "user", "content": text}
                    answer = await client.chat.completions.create(model="made-up", messages=[message])
                    return str(answer.choices[0].message.content)

            await one("warm up")
            texts = _texts(rows)
            before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            said = await asyncio.gather(*map(one, texts))
            after = resource.getrusage(resource.RUSAGE_SELF)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return {"rows": len(said), "wall_s": time.perf_counter() - began, "cpu_s": cpu}

    return asyncio.run(all_of())


def one_at_a_time(url: str, rows: int, concurrency: int, batch: int) -> dict[str, float]:
    """The package's client that waits for each answer."""
    import openai  # noqa: PLC0415 - the peer is loaded where it runs

    def ask(text: str) -> str:
        message: Any = {"role": "user", "content": text}
        answer = client.chat.completions.create(model="made-up", messages=[message])
        return str(answer.choices[0].message.content)

    with openai.OpenAI(api_key="none", base_url=url) as client:
        ask("warm up")
        return _measured(lambda: len([ask(text) for text in _texts(rows)]))


JOBS = {
    "dcurate": "dcurate",
    "dcurate over AsyncOpenAI": "over_openai",
    "AsyncOpenAI and gather": "gathered",
    "OpenAI, one at a time": "one_at_a_time",
}


# The figures


def at(latency: float, spread: float, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Who needs how long where an answer takes so many seconds, give or take a share."""
    figures = []
    with served() as endpoint:
        for who, alone in WHO.items():
            concurrency = alone or options.concurrency
            rows = concurrency * options.rounds
            runs = []
            for _ in range(options.repeat):
                endpoint.behave(latency=latency, spread=spread)
                asked = {
                    "url": endpoint.url,
                    "rows": rows,
                    "concurrency": concurrency,
                    "batch": concurrency * options.rounds,
                }
                done = subprocess.run(
                    job(f"{MODULE}:{JOBS[who]}", **asked), check=True, stdout=subprocess.PIPE, cwd=ROOT
                )
                runs.append(json.loads(done.stdout))
                assert runs[-1]["rows"] == rows, f"{who} answered {runs[-1]['rows']} of {rows} rows"
            behaviour = Behaviour(latency=latency, spread=spread)
            best = sum(map(behaviour.seconds, _texts(rows))) / concurrency
            asked_at = {"who": who, "latency_s": latency, "spread": spread, "concurrency": concurrency, "best_s": best}
            figures.append(asked_at | _medians(runs))
    return figures


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """The medians of several runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _shown(figures: list[dict[str, Any]]) -> str:
    rows = []
    for one in figures:
        rows.append(
            [
                one["who"],
                f"{one['latency_s'] * 1000:.0f} ms ± {one['spread']:.0%}",
                one["concurrency"],
                f"{one['rows'] / one['wall_s']:,.1f}",
                f"{one['best_s'] / one['wall_s']:.1%}",
                f"{one['cpu_s'] / one['rows'] * 1000:.2f}",
            ]
        )
    titles = ["who asks", "an answer takes", "at a time", "rows/s", "of the best there is", "CPU-s for 1,000 requests"]
    return table(titles, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, nargs="+", default=[0.1, 0.5, 2.0], metavar="S")
    parser.add_argument("--spread", type=float, nargs="+", default=[0.0, 0.5], metavar="SHARE")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20, help="so many times concurrency rows are asked about")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "aiohttp", "openai", "httpx2")}
    figures["runs"] = [
        one for latency in options.latency for spread in options.spread for one in at(latency, spread, options)
    ]
    print(_shown(figures["runs"]), flush=True)
    save(options.json, figures)


if __name__ == "__main__":
    main()
