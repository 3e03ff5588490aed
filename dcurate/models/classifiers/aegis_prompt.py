"""AEGIS's prompt, and the parsing of its answer."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

#: The labels that an answer may become.
AEGIS_LABELS = ("unknown", "safe", *(f"O{number}" for number in range(1, 14)))

_BEFORE = """[INST] Task: Check if there is unsafe content in 'User' messages in conversations \
according our safety policy with the below categories.

    <BEGIN UNSAFE CONTENT CATEGORIES>
    {policy}
    <END UNSAFE CONTENT CATEGORIES>

    <BEGIN CONVERSATION>

    User: """

#: The text after the document in a prompt.
AFTER = """

<END CONVERSATION>

    Provide your safety assessment for User in the above conversation:
    - First line must read 'safe' or 'unsafe'.
    - If unsafe, a second line must include a comma-separated list of violated categories. [/INST]"""


@cache
def before() -> str:
    """The text before the document in a prompt: the task, and the policy the model was tuned on, verbatim."""
    policy = files("dcurate.models.classifiers").joinpath("aegis_policy.txt").read_text("utf-8")
    return _BEFORE.format(policy=policy)


def format_aegis(message: str) -> str:
    """The prompt that asks AEGIS about a text.

    Examples:
        >>> prompt = format_aegis("Hello.")
        >>> prompt[:6], "O13: Needs Caution." in prompt, "User: Hello." in prompt, prompt[-7:]
        ('[INST]', True, True, '[/INST]')
    """
    return before() + message + AFTER


def parse_response(response: str) -> str:
    r"""The label of an answer: ``safe``, the category of unsafe content, or ``unknown``.

    Of several categories, which the prompt asks for as a list with commas, it is the first. (NeMo Curator makes
    ``unknown`` of more than one.)

    Examples:
        >>> [parse_response(answer) for answer in (" safe", "unsafe\nO3", "unsafe\nO3,O12", "unsafe", "Sorry.")]
        ['safe', 'O3', 'O3', 'unknown', 'unknown']
    """
    verdict, _, second = response.strip().partition("\n")
    if verdict.strip() == "safe":
        return "safe"
    category = second.partition("\n")[0].partition(",")[0].strip()
    return category if verdict.strip() == "unsafe" and category in AEGIS_LABELS[2:] else "unknown"
