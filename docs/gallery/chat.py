"""Chat data: conversations whose turns alternate, without refusals, personal data and repeated questions.

dcurate sample conversations --chat
python chat.py conversations chat
"""

import sys

from dcurate import ExactDuplicates, Filter, FuzzyDuplicates, JsonlReader, JsonlWriter, Modify, Pipeline, Score
from dcurate.text import PiiModifier

REFUSALS = ("as an ai language model", "i cannot answer", "i'm sorry, but i can't")


def turns_alternate(messages: list[dict]) -> bool:
    """User and assistant by turns, perhaps after a system prompt, and the assistant last."""
    roles = [message["role"] for message in messages if message["role"] != "system"]
    return len(roles) > 1 and roles == ["user", "assistant"] * (len(roles) // 2)


def has_answers(messages: list[dict]) -> bool:
    answers = [message["content"].strip() for message in messages if message["role"] == "assistant"]
    return all(answers) and not any(answer.lower().startswith(REFUSALS) for answer in answers)


def first_question(messages: list[dict]) -> str:
    return next(message["content"] for message in messages if message["role"] == "user")


def answers(messages: list[dict]) -> str:
    return "\n".join(message["content"] for message in messages if message["role"] == "assistant")


class HidePii:
    """Replace personal data in each turn."""

    def __init__(self) -> None:
        self.modifier = PiiModifier(anonymize_action="replace")

    def __call__(self, messages: list[dict]) -> list[dict]:
        return [{**message, "content": self.modifier.modify_document(message["content"])} for message in messages]


def pipeline(source: str, output: str) -> Pipeline:
    """Cheap rules on turns first, then copies of questions, then copies of answers."""
    return Pipeline(
        "chat",
        stages=[
            JsonlReader(source),
            Filter(turns_alternate, "messages"),
            Filter(has_answers, "messages"),
            Modify(HidePii(), "messages", name="hide_pii"),
            Score([first_question, answers], ["question", "answers"], text_field="messages"),
            ExactDuplicates("question", normalize=["case", "whitespace"], id_field="id"),
            FuzzyDuplicates("answers", threshold=0.9, id_field="id"),
            JsonlWriter(output, fields=["id", "source", "messages"]),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
