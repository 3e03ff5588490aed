"""Windows are transcribed behind a real HTTP server, with the retries and limits of its client."""

from __future__ import annotations

import asyncio
import io
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from aiohttp import web

from dcurate import DocumentBatch, PipelineError, ResourceError
from dcurate.audio import EndpointRecognizer, Transcribe
from dcurate.core.fingerprint import fingerprint
from dcurate.endpoints.openai_client import AsyncOpenAIClient
from tests.audio.test_transcribe import level, rows_of, wav


@dataclass
class SpeechServer:
    """Answers with how loud each second is, and fails as it is told to, by the text that it would answer."""

    faults: dict[str, list[int]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    forms: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    languages: tuple[Any, ...] = ()

    async def transcribe(self, request: web.Request) -> web.Response:
        form = await request.post()
        if request.headers["Authorization"] != "Bearer key-12345678":
            return web.json_response({"error": {"message": "who are you?"}}, status=401)
        upload: Any = form["file"]
        samples, rate = soundfile.read(io.BytesIO(upload.file.read()), dtype="float32")
        assert rate == 16_000
        assert upload.filename == "sound.wav"
        parts = [samples[start : start + rate] for start in range(0, len(samples), rate)]
        words = [str(round(float(np.abs(part).mean()) * 10)) for part in parts]
        text = " ".join(words)
        self.seen[text] += 1
        self.forms.append({name: value for name, value in form.items() if isinstance(value, str)})
        statuses = self.faults.get(text, [])
        if statuses:
            status = statuses.pop(0)
            return web.json_response({"error": {"message": "not now"}} if status != 200 else {"txt": ""}, status=status)
        times = [{"word": word, "start": n, "end": n + 1} for n, word in enumerate(words)]
        verbose = form["response_format"] == "verbose_json"
        language = {"language": self.languages[len(words) % len(self.languages)]} if verbose and self.languages else {}
        timed = {"words": times} if verbose and "timestamp_granularities[]" in form else {}
        return web.json_response({"text": text, **timed, **language})


@pytest.fixture
def server() -> Iterator[SpeechServer]:
    speech, loop, started = SpeechServer(), asyncio.new_event_loop(), threading.Event()
    application = web.Application(client_max_size=2**24)
    application.router.add_post("/v1/audio/transcriptions", speech.transcribe)
    runner = web.AppRunner(application)

    def serve() -> None:
        async def start() -> None:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            speech.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            started.set()

        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=serve)
    thread.start()
    assert started.wait(30)
    yield speech
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def stage(server: SpeechServer, **settings: Any) -> Transcribe:
    given = {"max_retries": 2, "base_delay_s": 0.01, "api_key": "key-12345678", **settings}
    return Transcribe(
        EndpointRecognizer(AsyncOpenAIClient(base_url=server.url, **given), "whisper-1", max_window_s=3.0)
    )


def transcribed(made: Transcribe, batch: DocumentBatch) -> DocumentBatch:
    try:
        return made.process(batch)
    finally:
        made.teardown()


def test_windows_are_sent_and_their_words_have_the_times_of_the_recording(server: SpeechServer) -> None:
    files = [wav(level(1, 2)), wav(level(3, 3, 3, 3))]
    made = stage(server)
    made.language_field = "language"
    found = transcribed(made, rows_of(*files, language=["en", None])).to_arrow().to_pylist()
    assert found[0]["pred_text"] == "1 2"
    assert found[0]["words"][1] == {"word": "2", "start": 1.0, "end": 2.0, "confidence": None}
    assert [word["word"] for word in found[1]["words"]] == found[1]["pred_text"].split()
    assert found[1]["words"][-1]["start"] > 2.5
    sent = {"model": "whisper-1", "temperature": "0", "response_format": "verbose_json"}
    sent["timestamp_granularities[]"] = "word"
    assert sorted(server.forms, key=len)[0] == sent
    assert {**sent, "language": "en"} in server.forms


def test_what_fails_is_sent_again_and_what_still_fails_is_a_reason(server: SpeechServer) -> None:
    server.faults = {"1": [503, 429], "2": [503] * 3, "3": [400], "4": [200, 200, 200]}
    files = [wav(level(tenths)) for tenths in (1, 2, 3, 4, 5)]
    found = transcribed(stage(server), rows_of(*files, id=[1, 2, 3, 4, 5]))
    assert found.to_arrow().select(["id", "pred_text"]).to_pylist() == [
        {"id": 1, "pred_text": "1"},
        {"id": 5, "pred_text": "5"},
    ]
    reasons = {rejection.reason: rejection.rows for rejection in found.rejections}
    assert reasons == {"status 503": 1, "status 400": 1, "empty answer": 1}
    assert server.seen == {"1": 3, "2": 3, "3": 1, "4": 3, "5": 1}


def test_equal_windows_are_sent_once_and_answers_are_kept(server: SpeechServer, tmp_path: Path) -> None:
    batch = rows_of(wav(level(1)), wav(level(1)))
    for _ in range(2):
        found = transcribed(stage(server, cache=str(tmp_path / "answers")), batch).to_arrow()
        assert found["pred_text"].to_pylist() == ["1", "1"]
        assert found["words"][0].as_py()[0]["word"] == "1"
    assert server.seen == {"1": 1}


def test_a_model_without_words_gives_text(server: SpeechServer) -> None:
    client = AsyncOpenAIClient(base_url=server.url, api_key="key-12345678")
    made = Transcribe(EndpointRecognizer(client, "gpt", words=False))
    found = transcribed(made, rows_of(wav(level(1)))).to_arrow()
    assert (found["pred_text"].to_pylist(), found["words"].to_pylist()) == (["1"], [None])
    assert server.forms == [{"model": "gpt", "temperature": "0", "response_format": "json"}]


@pytest.mark.parametrize("words", [True, False])
def test_the_language_that_the_model_heard_is_a_code(server: SpeechServer, tmp_path: Path, words: bool) -> None:
    server.languages = ("english", "de-AT", 7)
    batch = rows_of(*(wav(level(*range(1, count + 1))) for count in (1, 2, 3, 1)), language=[None, None, None, "en"])
    for _ in range(2):  # the second time from the store of answers
        made = stage(server, cache=str(tmp_path / "answers"))
        made.recognizer = replace(made.recognizer, words=words)  # type: ignore[type-var]
        made.heard_language_field, made.language_field = "heard", "language"
        found = transcribed(made, batch).to_arrow()
        assert found["heard"].to_pylist() == ["de", None, "en", None]
        assert [row is not None for row in found["words"].to_pylist()] == [words] * 4
    assert sum(server.seen.values()) == 4
    plain = stage(server, cache=str(tmp_path / "answers"))
    assert transcribed(plain, batch).to_arrow()["pred_text"].equals(found["pred_text"])


def test_a_wrong_key_ends_the_run(server: SpeechServer) -> None:
    with pytest.raises(ResourceError, match="the API key is refused"):
        transcribed(stage(server, api_key="other"), rows_of(wav(level(1))))


def test_limits_make_one_slot_and_the_address_does_not_decide_the_rows(server: SpeechServer) -> None:
    assert stage(server, requests_per_minute=60).num_workers() == 1
    assert stage(server).num_workers() is None
    elsewhere = SpeechServer(url="http://localhost:1/v1")
    assert fingerprint([stage(server)]) == fingerprint([stage(elsewhere, max_retries=9)])


def test_something_else_than_a_client_is_refused() -> None:
    with pytest.raises(PipelineError, match="must be an AsyncOpenAIClient or OpenAIClient"):
        EndpointRecognizer("http://localhost", "m")  # type: ignore[arg-type]


def test_an_empty_table_asks_nothing(server: SpeechServer) -> None:
    empty = DocumentBatch(data=pa.table({"bytes": pa.array([], pa.binary())}))
    assert transcribed(stage(server), empty).to_arrow().num_rows == 0
    assert not server.seen
