"""`VisionExtract`: pages that neither the file nor OCR gives, read by a vision model behind an endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from dcurate.core.stage import Spec, WorkerMetadata
from dcurate.documents.columns import PAGE, SPAN
from dcurate.documents.conventions import CONVENTIONS, Convention, PageAnswer
from dcurate.documents.routes import ASIDE, VISION
from dcurate.documents.vision_child import wanted
from dcurate.endpoints.config import Answer, GenerationConfig, Question, Request
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.generate import Generate
from dcurate.endpoints.images import content
from dcurate.errors import PipelineError, nearest
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer, Sandbox
from dcurate.media.refs import BYTES, REF, fetch, has_media
from dcurate.media.stage import with_columns

#: Characters of the text of the file that go with a picture.
_ANCHOR = 6000
_AGAIN = 2


@dataclass
class _Page:
    """A page that a model is asked about."""

    row: int
    number: int
    text: str
    picture: bytes = b""
    turn: int = 0
    answer: PageAnswer | None = None
    failure: str = ""


@dataclass
class VisionExtract(Generate):
    """Ask a vision model to read the pages whose route is ``"vision"``.

    The rows are those of ``PdfExtract(ocr="auto", hard="vision")`` or of ``NeedsOcr(otherwise="vision")``, with their
    files in ``media_ref`` or ``bytes``. Pages are drawn in a child process, at 300 dpi or less so that they fit 1664 x
    2048 pixels, and sent as JPEG in data URLs to an OpenAI-compatible endpoint. Their text takes its place among that
    of the other pages in `text_field`, and ``page_spans`` follows. A page that gets no usable answer is
    ``"set aside"`` in ``pages``, with the reason; its row stays.

    Args:
        convention: ``"markdown"`` for any model, ``"olmocr"`` or ``"nemotron-parse"`` for these: the prompt, and how
            an answer is read. olmOCR may ask for a page to be turned; then it is turned and sent again, once.
        anchor: send the text that the file has for the page with its picture.
        text_field: the column with the text.
        prompt: another prompt for the same form of answers.
        draw_timeout_s: seconds of CPU time that drawing the pages of a PDF may take, and ten times as many by the
            clock.
        storage_options: for fsspec.

    The other arguments are those of `Generate`; ``max_tokens`` is 8,000 unless `generation_config` is given.

    Raises:
        PipelineError: arguments that do not fit together.

    Examples:
        >>> from dcurate.documents import VisionExtract
        >>> from dcurate.llm import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> VisionExtract(client=client, model="olmOCR-2", convention="olmocr").inputs()[1]
        ['text', 'pages', 'page_spans']
    """

    name: str = "vision_extract"
    convention: str = "markdown"
    anchor: bool = False
    text_field: str = "text"
    draw_timeout_s: float = 60.0
    storage_options: dict[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        self._sandbox: Sandbox | None = None
        if self.convention not in CONVENTIONS:
            raise PipelineError(
                f"{self.name}: convention={self.convention!r} is unknown{nearest(self.convention, CONVENTIONS)}"
            )
        self.prompt = self.prompt or self._convention.prompt
        self.output_field = self.output_field or self.text_field
        self.generation_config = self.generation_config or GenerationConfig(max_tokens=8000)
        super().__post_init__()

    @property
    def _convention(self) -> Convention:
        return CONVENTIONS[self.convention]

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "pypdfium2": "documents", "PIL": "documents"}

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        without = ("_sandbox", "storage_options")
        return {name: value for name, value in super().settings().items() if name not in without}

    def inputs(self) -> Spec:
        return ["data"], [self.text_field, "pages", "page_spans"]

    def outputs(self) -> Spec:
        return ["data"], [self.text_field, "pages", "page_spans"]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        self._sandbox = Sandbox(
            "dcurate.documents.vision_child:draw_pages",
            timeout_s=self.draw_timeout_s,
            memory_bytes=parse_bytes("1GiB"),
            recycle_items=1000,
        )

    def teardown(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        super().teardown()

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        """The batches with the text of their pages."""
        return [self._revised(task) for task in tasks]

    def _revised(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        texts = [text or "" for text in table[self.text_field].to_pylist()]
        pages, spans = ([value or [] for value in table[name].to_pylist()] for name in ("pages", "page_spans"))
        parts = [_parts(text, rows, of) for text, rows, of in zip(texts, pages, spans, strict=True)]
        asked = [
            _Page(row, page["number"], parts[row][place])
            for row, of in enumerate(pages)
            for place, page in enumerate(of)
            if page.get("route") == VISION
        ]
        if asked:
            if not has_media(table):
                raise PipelineError(
                    f"{self.name}: the rows have no column {REF!r} or {BYTES!r}; keep {REF!r}, which the reader gives"
                )
            self._answer(table, asked)
        for page in asked:
            place = next(place for place, candidate in enumerate(pages[page.row]) if candidate["number"] == page.number)
            if page.answer is None:
                pages[page.row][place].update(route=ASIDE, route_reason=f"vision model: {page.failure}")
            else:
                parts[page.row][place] = page.answer.text
        if not asked:
            return task
        joined = [_joined(of) for of in parts]
        return replace(
            task,
            data=with_columns(
                table,
                pa.table(
                    {
                        self.text_field: pa.array([text for text, _ in joined], pa.string()),
                        "pages": pa.array(pages, pa.list_(PAGE)),
                        "page_spans": pa.array([of for _, of in joined], pa.list_(SPAN)),
                    }
                ),
            ),
        )

    def _answer(self, table: pa.Table, asked: Sequence[_Page]) -> None:
        """Draw the pages and ask about them; those that have to be turned twice."""
        waiting = list(asked)
        for attempt in range(_AGAIN):
            self._draw(table, waiting)
            drawn = [page for page in waiting if page.picture]
            questions: list[Question | None] = [self._question(page) for page in drawn]
            for page, outcome in zip(drawn, self._ask(questions), strict=True):
                page.picture = b""
                try:
                    page.answer = self._page_answer(outcome)
                except RequestError as error:
                    if self.on_error == "raise":
                        raise
                    page.failure = error.reason
            waiting = [page for page in drawn if page.answer is not None and page.answer.turn]
            if not waiting or attempt + 1 == _AGAIN:
                return
            for page in waiting:
                page.turn, page.answer = (page.answer or PageAnswer("")).turn, None

    def _page_answer(self, outcome: Any) -> PageAnswer:
        if isinstance(outcome, RequestError):
            raise outcome
        if not isinstance(outcome, Answer):
            raise RequestError("no answer", "empty answer")
        if outcome.cut:
            raise RequestError("the answer was cut at max_tokens", "answer too long")
        return self._convention.read(outcome.texts[0])

    def _draw(self, table: pa.Table, pages: Sequence[_Page]) -> None:
        assert self._sandbox is not None, "a stage is set up before it is used"
        by_row: dict[int, list[_Page]] = {}
        for page in pages:
            by_row.setdefault(page.row, []).append(page)
        for row, of in by_row.items():
            data = fetch(table.slice(row, 1), storage_options=self.storage_options or {})[0]
            drawn: Any = data
            if isinstance(data, bytes):
                turns = {page.number: page.turn for page in of}
                drawn = self._sandbox.call(wanted(data, [page.number for page in of], turns))
            pictures = (
                dict(zip(drawn.value["pages"], drawn.blobs, strict=True)) if isinstance(drawn, ChildAnswer) else {}
            )
            for page in of:
                page.picture = pictures.get(page.number, b"")
                page.failure = drawn.reason if isinstance(drawn, MediaFault) else "not drawn"

    def _question(self, page: _Page) -> Request:
        prompt = str(self.prompt)
        if self.anchor and page.text and prompt == self._convention.prompt:
            prompt = self._convention.anchored.replace("{anchor}", page.text[:_ANCHOR])
        system: list[dict[str, Any]] = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        messages = [*system, {"role": "user", "content": content(prompt, [page.picture])}]
        return Request(messages, str(self.model), GenerationConfig.of(self.generation_config))


def _parts(text: str, pages: Sequence[Any], spans: Sequence[Mapping[str, int]]) -> list[str]:
    """The text of each page."""
    data = text.encode()
    parts = [data[span["start"] : span["stop"]].decode(errors="ignore") for span in spans]
    return parts + [""] * (len(pages) - len(parts))


def _joined(parts: Sequence[str]) -> tuple[str, list[dict[str, int]]]:
    """Pages as one text, and where each is in it, in bytes."""
    spans, at = [], 0
    for part in parts:
        size = len(part.encode())
        spans.append({"start": at, "stop": at + size})
        at += size + 2
    return "\n\n".join(parts), spans
