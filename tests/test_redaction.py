"""Secrets are removed from texts in every form, whatever the text, and in linear time."""

import base64
import html
import json
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, InlineExecutor, JsonlReader, Pipeline, StageError
from dcurate.core.secrets import remember_secrets
from dcurate.download import Transfer
from dcurate.endpoints.settings import Secret
from dcurate.llm import AsyncOpenAIClient, RequestError
from dcurate.redaction import LONGEST, hush, is_secret, legible, redacted, remember, text_of, without_secrets

MARK = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        "https://u:hunter2@host/a",
        "https://u:p'hunter2@host/a",
        'https://u:p"hunter2@host/a',
        "https://hunter2@host/a",
        "https://host/a?pass=hunter2",
        "https://host/a?x=1&db_pass=hunter2",
        "https://host/a?subscription-key=hunter2&x=1",
        "https://host/a?Ocp-Apim-Subscription-Key=hunter2",
        "https://host/a?code=hunter2",
        "https://host/a?hmac=hunter2",
        "https://host/a;jsessionid=hunter2",
        "https://host/a;JSESSIONID=hunter2?x=1",
        "https://host/a?PHPSESSID=hunter2",
        "https://host/a#access_token=hunter2",
        "https://host/a?x=1#state=2&id_token=hunter2",
        "https://host/a?p%61ssword=hunter2",
        "https://host/a?sig=it's-hunter2",
        "https://host/a?x-functions-key=hunter2",
        "https://host/a?license_key=hunter2",
        "https://host/a?sign=hunter2&t=1",
        "https://host/a?hdnts=hunter2",
        "https://host/a?ticket=hunter2",
        "https://host/a?url=https%3A%2F%2Fother%2Fb%3Fsig%3Dhunter2",
        "https://host/a?url=https%3A%2F%2Fme%3Ahunter2%40other%2Fb",
        "postgresql://me:hunter2@db/x?sslpassword=hunter2",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2;BlobEndpoint=https://a/",
    ],
)
@pytest.mark.parametrize("frame", ["{}", "cannot read '{}'", '{{"url": "{}"}}', "({}), gone", "<a href='{}'>"])
def test_no_secret_of_a_url_stays(url: str, frame: str) -> None:
    text = frame.format(url)
    for shown in (without_secrets(text), redacted(text), legible(text), str(DataError(text))):
        assert MARK not in shown
        assert "host" in shown or "db" in shown or "Protocol" in shown


@pytest.mark.parametrize(
    "text",
    [
        "Max retries exceeded with url: /a?X-Amz-Signature=hunter2 (Caused by timeout)",
        "connection failed: password=hunter2 host=db",
        "{'password': 'hunter2', 'x': 1}",
        '{"api_key": "hunter2"}',
        "client_secret = hunter2",
        "Authorization: Bearer hunter2-0000000000",
        "authorization: basic bWU6aHVudGVyMg==",
    ],
)
def test_no_secret_of_a_message_of_a_library_stays(text: str) -> None:
    assert MARK not in redacted(text)
    assert "bWU6aHVudGVyMg" not in redacted(text)


def test_what_is_not_secret_stays() -> None:
    for text in (
        "give api_key= or default_headers=",
        "set api_key, or name another endpoint with base_url=",
        "basic configuration, bearer instruments",
        "/a?key=1.jsonl",
        "https://host/a?page=2&sort_key=x&compass=3&author=me&tokenizer=x&eos_token=y",
        "max_tokens=3, pad_token='<pad>', eos_token: 'x'",
        "it is so; code = 3",
    ):
        assert redacted(text) == text


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "percent": lambda text: quote(text, safe=""),
    "percent, lower": lambda text: quote(text, safe="").lower(),
    "form": quote_plus,
    "path": quote,
    "json": lambda text: json.dumps({"key": text}),
    "json of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "html": html.escape,
    "repr": repr,
    "bytes": lambda text: repr(text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "among others": lambda text: f"x{text}x",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("secret", ["sk-hunter2/Q+1=&x", "hunter2hunter2", 'it\'s <hunter2> "Q"', "pä✓hunter2\\n"])
def test_a_value_that_is_known_is_removed_in_every_form(encoding: str, secret: str) -> None:
    remember([secret])
    written = ENCODINGS[encoding](secret)
    shown = redacted(f"401: the key {written} is bad")
    assert MARK not in shown.lower()
    assert written.strip("\"'b") not in shown


def test_what_holds_secrets_has_them_removed_from_all_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"key": "AKIA-hunter2-1", "client_kwargs": {"headers": {"X-Mine": "hunter2-22", "Accept": "text/plain"}}}
    remember_secrets(
        JsonlReader("https://me:hunter2-333@host/a", storage_options=options),
        {"params": {"api_key": "hunter2-4444", "input": "plain-text-stays"}},
        [Transfer(headers={"X-Api-Key": "hunter2-5555"})],
    )
    Secret("hunter2-6666")
    pickle.loads(pickle.dumps(Secret("hunter2-7777")))
    monkeypatch.setenv("MY_DB_PASS", "hunter2-8888")
    secrets = ["AKIA-hunter2-1", "hunter2-22", "hunter2-333", *(f"hunter2-{digit * 4}" for digit in "45678")]
    login = base64.b64encode(b"me:hunter2-333").decode()
    sentence = f"refused: {' '.join(secrets)} {login} but plain-text-stays text/plain"
    shown = str(StageError(sentence))
    assert shown == f"refused: {' '.join(['***'] * 9)} but plain-text-stays text/plain"


def test_short_values_are_removed_as_words_alone() -> None:
    remember(["sk-123", "short"])
    assert redacted("sk-123 and task-1234 and 'sk-123'; in short") == "*** and task-1234 and '***'; in short"


def test_a_file_that_a_variable_names_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_CREDENTIALS", os.path.abspath(__file__))
    assert redacted(os.path.abspath(__file__)) == os.path.abspath(__file__)


def test_names_depend_on_the_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "a-part-of-a-path")
    remember(["a-part-of-a-path"])
    for path in ("s3://b/a-part-of-a-path/x.jsonl", "in/password=a-part-of-a-path/x.jsonl"):
        assert without_secrets(path) == path


def test_an_error_keeps_no_secret_on_its_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(DataError("cannot read 'https://me:hunter2@host/a'")))
    assert MARK not in repr(error.args)


def test_an_error_of_a_request_travels() -> None:
    error = pickle.loads(pickle.dumps(RequestError("no", "timeout", again=True, after=2.0)))
    assert (str(error), error.reason, error.again, error.after) == ("no", "timeout", True, 2.0)


def test_causes_are_printed_without_secrets() -> None:
    class Own(Exception):
        def __str__(self) -> str:
            return "https://me:hunter2@host/a"

    def failing() -> None:
        try:
            try:
                raise Own
            except Own as own:
                raise OSError(5, "cannot read https://me:hunter2@host/a") from own
        except OSError as error:
            error.add_note("at https://me:hunter2@host/a")
            raise DataError("no") from error

    with pytest.raises(DataError) as caught:
        failing()
    hush(caught.value)
    text = "".join(traceback.format_exception(caught.value))
    assert MARK not in text
    assert "DataError: no" in text


@given(st.text(max_size=300), st.integers(50, 200))
def test_what_is_legible_can_be_written_is_short_and_stays_so(text: str, most: int) -> None:
    shown = legible(text, most)
    shown.encode()
    assert len(shown) <= most
    assert legible(shown, most) == shown


def test_half_a_secret_does_not_stay_at_a_cut() -> None:
    secret = "hunter2-" * 10
    remember([secret])
    for shift in range(0, 200, 7):
        text = (
            "x" * (LONGEST // 2 - shift) + f" {secret} " + "y" * 30_000 + f" {secret} " + "z" * (LONGEST // 2 - shift)
        )
        assert MARK not in legible(text)


class Refuses(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class NoText(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307


def test_a_message_that_cannot_be_read_is_said() -> None:
    assert text_of(Refuses()) == "(its message cannot be read: RuntimeError)"
    assert text_of(NoText()) == "(its message cannot be read: TypeError)"
    assert text_of(ValueError("a\ud800")) == "a\\ud800"
    assert len(text_of(ValueError("x" * 10**7))) <= LONGEST


@pytest.mark.parametrize(
    "piece",
    [
        "://",
        "://a:b",
        "://'",
        "?a",
        "&a=",
        "&sig='",
        "password=",
        'password="',
        "password ",
        "bearer ",
        "Bearer a",
        "api_key='\n",
    ],
)
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    """Of a quadratic search a text of this length would take minutes, and the test its time limit."""
    text = piece * (2**20 // len(piece))
    redacted(text)
    without_secrets(text)


def test_names_of_secrets() -> None:
    for name in ("AZURE_STORAGE_KEY", "RAILS_MASTER_KEY", "OPENAI_KEY", "DB_PASS", "GITHUB_PAT", "SENTRY_DSN", "auth"):
        assert is_secret(name)
    for name in ("PATH", "group_key", "primary-key", "max_tokens", "pad_token", "author", "bypass", "language_code"):
        assert not is_secret(name)


def test_columns_placeholders_and_names_of_variables_are_not_secret(tmp_path: Path) -> None:
    (tmp_path / "numbers.jsonl").write_text('{"code": "x", "text": "y"}\n{\n')
    reader = JsonlReader(str(tmp_path / "numbers.jsonl"), schema={"code": "string"})
    client = AsyncOpenAIClient(base_url="http://localhost:1/v1", api_key="ollama")
    with pytest.raises(DataError, match=r"numbers\.jsonl line 2"):
        Pipeline("columns", stages=[reader]).run(InlineExecutor(), observers=[])
    assert "api_key_variable='OPENAI_API_KEY'" in repr(client)
    assert redacted("a string for ollama in numbers.jsonl") == "a string for ollama in numbers.jsonl"
