"""The stages of Nemotron-CC that generate training data from documents, and those that clean the results."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.endpoints.generate import Generate
from dcurate.errors import PipelineError
from dcurate.frames.columns import values, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.llm.nemotron_prompts import (
    ASSISTANT,
    CAREFUL_ASSISTANT,
    DISTILL,
    DIVERSE_QA,
    EXTRACT_KNOWLEDGE,
    KNOWLEDGE_LIST,
    QA_PREFIX,
    WIKIPEDIA_PARAPHRASE,
)
from dcurate.text.filters.tokens import Tokenizer

#: Nemotron-CC draws more pairs for longer texts: ``max_num_pairs`` per this many tokens.
_TOKENS_PER_DRAW = 150


@dataclass
class WikipediaParaphrase(Generate):
    """Rewrite texts in the style of an encyclopedia, as Nemotron-CC does with those of low quality.

    Arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> WikipediaParaphrase(client=client, model="llama").outputs()[1]
        ['rephrased']
    """

    system_prompt: str | None = ASSISTANT
    prompt: str | None = WIKIPEDIA_PARAPHRASE
    input_field: str | None = "text"
    output_field: str | None = "rephrased"
    name: str = "WikipediaParaphrasing"


@dataclass
class DiverseQA(Generate):
    """Generate questions of several kinds about a text, with their answers.

    Arguments are those of `Generate`. Those of `CleanDiverseQA` are accepted for NeMo Curator's sake
    and have no effect.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> DiverseQA(client=client, model="llama").outputs()[1]
        ['diverse_qa']
    """

    system_prompt: str | None = ASSISTANT
    prompt: str | None = DIVERSE_QA
    input_field: str | None = "text"
    output_field: str | None = "diverse_qa"
    tokenizer: Tokenizer | None = field(default=None, repr=False)
    prefix: str = QA_PREFIX
    max_num_pairs: int = 10
    name: str = "DiverseQA"


@dataclass
class Distill(Generate):
    """Generate a condensed version of a text.

    Arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> Distill(client=client, model="llama", input_field="page").inputs()[1]
        ['page']
    """

    system_prompt: str | None = CAREFUL_ASSISTANT
    prompt: str | None = DISTILL
    input_field: str | None = "text"
    output_field: str | None = "distill"
    name: str = "Distill"


@dataclass
class ExtractKnowledge(Generate):
    """Extract the knowledge in a text, rewritten as a passage.

    Arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> ExtractKnowledge(client=client, model="llama").outputs()[1]
        ['extract_knowledge']
    """

    system_prompt: str | None = ASSISTANT
    prompt: str | None = EXTRACT_KNOWLEDGE
    input_field: str | None = "text"
    output_field: str | None = "extract_knowledge"
    name: str = "ExtractKnowledge"


@dataclass
class KnowledgeList(Generate):
    """Extract the facts in a text, as a list.

    Arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> KnowledgeList(client=client, model="llama").outputs()[1]
        ['knowledge_list']
    """

    system_prompt: str | None = ASSISTANT
    prompt: str | None = KNOWLEDGE_LIST
    input_field: str | None = "text"
    output_field: str | None = "knowledge_list"
    name: str = "KnowledgeList"


@dataclass
class CleanDiverseQA(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Parse the questions and answers of `DiverseQA`, sample some of them, and append them to the text.

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
