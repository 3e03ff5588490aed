"""The prompts of `dcurate.llm.nemotron_cc`.

They ask for what the prompts of Nemotron-CC (Su et al. 2024, "Nemotron-CC: Transforming Common Crawl into a Refined
Long-Horizon Pretraining Dataset", appendix) ask for, in words of our own. The marks that the stages after them look
for, such as ``Question:`` and ``Paraphrased Text:``, are theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ASSISTANT = (
    "You are a helpful assistant. You answer a reader's requests politely, in detail, and keep to what is asked."
)

CAREFUL_ASSISTANT = (
    "You are a careful assistant. What you write is accurate and well reasoned, and you say nothing that the source "
    "does not support."
)

WIKIPEDIA_PREFIX = "Here is a paraphrased version:"
WIKIPEDIA_PARAPHRASE = (
    "Rewrite the passage below in other words, in the clear and well-formed English of an encyclopedia such as "
    "Wikipedia. Vary words and sentence structure, and keep what it says. Put the line "
    f'"{WIKIPEDIA_PREFIX}" before your text.\n\n'
    "Passage: {document}"
)

QA_PREFIX = "Here are the questions and answers based on the provided text:"
DIVERSE_QA = (
    "Read the passage below. Then ask questions about it, and answer them.\n\n"
    "Rules:\n"
    "1. The questions call for different skills and touch different parts of the passage.\n"
    "2. Mix their kinds: some to be answered with yes or no; some that begin with what, how, when, where, why or who; "
    "some with a choice of options, given in the question; some that compare two things; some that test whether the "
    "passage was understood; and, where it allows, problems of mathematics, physics or logic.\n"
    "3. Ask about facts, knowledge and concrete details.\n"
    "4. Be clear and brief.\n"
    "5. Write plain text, no Markdown.\n"
    '6. Give each pair a line of its own, with "Question:" before the question and "Answer:" before the answer.\n\n'
    "Passage:\n{document}\n\n"
    "Now write at most 8 questions with their correct answers, in this form:\n\n"
    f"{QA_PREFIX}\n"
    "- Question: [the first question] Answer: [its answer]\n"
    "- Question: [the second question] Answer: [its answer]\n"
    "..."
)

DISTILL_PREFIX = "Paraphrased Text:"
DISTILL = (
    "Write a shorter version of the passage below that keeps its substance.\n\n"
    "Rules:\n"
    "- It is condensed, accurate and informative: no mere summary.\n"
    "- It keeps what matters: key ideas, figures, facts; and is easier to read.\n"
    "- Technical terms and difficult concepts stay.\n"
    "- So do examples, reasoning and evidence.\n"
    "- Nothing is added that the passage does not say.\n"
    "- Plain text, without formatting.\n\n"
    "Passage:\n{document}\n\n"
    f'Now write it in good, clear English. Begin with "{DISTILL_PREFIX}".'
)

EXTRACT_KNOWLEDGE = (
    "Rewrite the knowledge that the passage below holds.\n\n"
    "Rules:\n"
    "- Write one or several paragraphs, in English that is good and easy to follow, as in a textbook or in Wikipedia.\n"
    "- Take what belongs to a field of learning: the sciences and the humanities, technology, mathematics, law, "
    "economy, arts, education, agriculture, politics, history.\n"
    "- Leave out whatever teaches nothing.\n"
    "- Keep examples, reasoning and evidence.\n"
    "- Neither add nor change a detail.\n"
    "- Plain text: no titles, no notes, no comments.\n\n"
    "Passage:\n{document}\n\n"
    "Now rewrite its facts and knowledge."
)

KNOWLEDGE_LIST = (
    "List what there is to know in the passage below.\n\n"
    "Rules:\n"
    "- A concise, ordered list of facts, concrete details, key concepts, and important numbers.\n"
    '- Each point stands on a line that begins with "- ", is clear and specific, and is supported by the passage.\n'
    "- Say much in few words.\n"
    "- No titles and no headings.\n\n"
    "Passage:\n{document}\n\n"
    "Now write the list."
)

#: Lines that models put before paragraphs of extracted knowledge.
PASSAGE_LINES = ("Passage:", "Passage 1:", "Passage 2:", "Passage 3:")


class TaskPrompts(NamedTuple):
    """What one task asks of the model, and the names it gives by default."""

    stage: str
    output_field: str
    prompt: str
    system_prompt: str = ASSISTANT


PROMPTS: Mapping[str, TaskPrompts] = {
    "wikipedia_paraphrasing": TaskPrompts("WikipediaParaphrasing", "rephrased", WIKIPEDIA_PARAPHRASE),
    "diverse_qa": TaskPrompts("DiverseQA", "diverse_qa", DIVERSE_QA),
    "distill": TaskPrompts("Distill", "distill", DISTILL, CAREFUL_ASSISTANT),
    "extract_knowledge": TaskPrompts("ExtractKnowledge", "extract_knowledge", EXTRACT_KNOWLEDGE),
    "knowledge_list": TaskPrompts("KnowledgeList", "knowledge_list", KNOWLEDGE_LIST),
}
