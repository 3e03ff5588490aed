"""The stages of Nemotron-CC that generate training data from documents, and those that clean the results."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.endpoints.generate import Generate
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import values, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.llm.nemotron_prompts import PROMPTS, QA_PREFIX
from dcurate.text.filters.tokens import Tokenizer

#: Nemotron-CC draws more pairs for longer texts: ``max_num_pairs`` per this many tokens.
_TOKENS_PER_DRAW = 150


@dataclass
class Rephrase(Generate):
    """Generate training data from texts, with one of five tasks of Nemotron-CC.

    The task decides what other arguments are by default. Without a system message: ``system_prompt=""``.

    Args:
        task: ``"wikipedia_paraphrasing"`` rewrites texts in the style of an encyclopedia, ``"diverse_qa"`` asks for
            questions about them and answers, ``"distill"`` for a condensed version, ``"extract_knowledge"`` for a
            passage with the knowledge in them, ``"knowledge_list"`` for a list of the facts.
        system_prompt: the system message; by default the task's.
        prompt: the user message, with ``{document}`` for the text; by default the task's.
        input_field: the column with the text.
        output_field: the column for the answer; by default the task's own, such as ``diverse_qa``.
        name: name of the stage; by default the task's.

    The other arguments are those of `Generate`.

    Raises:
        PipelineError: a task that there is not.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = Rephrase(task="distill", client=client, model="llama", input_field="page")
        >>> stage.inputs()[1], stage.outputs()[1]
        (['page'], ['distill'])
    """

    input_field: str | None = "text"
    name: str = ""
    task: str = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.task not in PROMPTS:
            raise PipelineError(
                f"{self.name or 'Rephrase'}: task={self.task!r} is unknown{nearest(self.task, PROMPTS)}"
            )
        task = PROMPTS[self.task]
        self.name = self.name or task.stage
        self.prompt = task.prompt if self.prompt is None else self.prompt
        self.system_prompt = task.system_prompt if self.system_prompt is None else self.system_prompt
        if self.output_field is None and self.schema is None:
            self.output_field = task.output_field
        super().__post_init__()


@dataclass
class CleanDiverseQA(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Parse the questions and answers of `Rephrase`, sample some of them, and append them to the text.

    The number of pairs is random: from 1 to ``max_num_pairs``, or with a tokenizer to ``max_num_pairs`` for each 150
    tokens of the text; so is their order. Both follow from the text and the seed, so a run can be repeated. An answer
    that is not a list of questions becomes an empty text.

    Args:
        input_field: the column with the text.
        qa_field: the column with the answers; the result replaces it.
        tokenizer: an object with ``encode``; None to ignore the length of the text.
        prefix: a line that may come first.
        max_num_pairs: see above.
        seed: seed of the random choice.
        name: name of the stage.

    Raises:
        PipelineError: ``max_num_pairs`` is below 1.

    Examples:
        >>> import pandas as pd
        >>> answer = "Here it is:\n- Question: Why? Answer: Because."
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["A text."], "diverse_qa": [answer]}))
        >>> stage = CleanDiverseQA(prefix="Here it is:")
        >>> stage.process(batch).to_arrow()["diverse_qa"].to_pylist()
        ['A text.\n\nQuestion: Why? Answer: Because.']
    """

    input_field: str = "text"
    qa_field: str = "diverse_qa"
    tokenizer: Tokenizer | None = field(default=None, repr=False)
    prefix: str = QA_PREFIX
    max_num_pairs: int = 10
    seed: int = 0
    name: str = "DiverseQAPostProcessing"

    def __post_init__(self) -> None:
        if self.max_num_pairs < 1:
            raise PipelineError(f"{self.name}: max_num_pairs={self.max_num_pairs} must be at least 1")

    def inputs(self) -> Spec:
        return ["data"], [self.input_field, self.qa_field]

    def outputs(self) -> Spec:
        return ["data"], [self.qa_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        rows = zip(values(table, self.input_field), values(table, self.qa_field), strict=True)
        texts = [None if answer is None else self._joined(text or "", answer) for text, answer in rows]
        return task.with_data(with_text(table, self.qa_field, texts))

    def _joined(self, text: str, answer: str) -> str:
        pairs = qa_pairs(answer, self.prefix)
        if not pairs:
            return ""
        dice = random.Random(hashlib.blake2b(f"{self.seed}\n{text}\n{answer}".encode(errors="replace")).digest())
        dice.shuffle(pairs)
        most = self.max_num_pairs
        if self.tokenizer is not None:
            most = max(1, int(most * len(self.tokenizer.encode(text)) / _TOKENS_PER_DRAW))
        return "\n\n".join([text, *pairs[: dice.randint(1, most)]])


def qa_pairs(answer: str, prefix: str) -> list[str]:
    r"""The pairs of a list of questions and answers; none if it is not such a list.

    Examples:
        >>> qa_pairs("- Question: A?\nAnswer: B.\n- Question: C? Answer: D.", "")
        ['Question: A?\nAnswer: B.', 'Question: C? Answer: D.']
        >>> qa_pairs("I cannot do that.", "")
        []
    """
    lines = [line.strip().removeprefix("- ").strip() for line in answer.split("\n") if line.strip()]
    if lines and lines[0] == prefix:
        lines = lines[1:]
    pairs: list[str] = []
    for line in lines:
        if line.startswith("Question:"):
            pairs.append(line)
        elif pairs:
            pairs[-1] += "\n" + line
        else:
            return []
    return pairs


@dataclass
class CleanKnowledgeList(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Strip bullets and indentation from the lines of a list, and its first line if it is not an item.

    Args:
        input_field: the column with the list; the result replaces it.
        name: name of the stage.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"knowledge_list": ["Here:\n- One.\n  more\n- Two."]}))
        >>> CleanKnowledgeList().process(batch).to_arrow()["knowledge_list"].to_pylist()
        ['One.\nmore\nTwo.']
    """

    input_field: str = "knowledge_list"
    name: str = "KnowledgeListPostProcessing"

    def inputs(self) -> Spec:
        return ["data"], [self.input_field]

    def outputs(self) -> Spec:
        return ["data"], [self.input_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        texts = [plain_list(text or "") for text in values(table, self.input_field)]
        return task.with_data(with_text(table, self.input_field, texts))


def plain_list(text: str) -> str:
    r"""The lines of a list without bullets and indentation.

    Examples:
        >>> plain_list("- One.\n- Two."), plain_list("")
        ('One.\nTwo.', '')
    """
    first, *remaining = text.split("\n")
    lines = [first, *remaining] if first.startswith("-") else remaining
    return "\n".join(line[2:].strip() if line.startswith(("  ", "- ")) else line for line in lines)
