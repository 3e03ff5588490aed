"""Prompts for web pages with mathematics and code: dcurate's own, under NeMo Curator's names.

Each has ``{text}`` for the text.
"""

_CLEAN = """The text below was taken from a web page. Write it down again with its main content and titles only.

- Leave out menus, headers, footers, advertisements, lists of other articles, and comments that add nothing.
- Keep {kept} complete.
- Write formulas in LaTeX between single dollar signs.
- Keep questions as they are, and do not answer them.
- Correct spelling and grammar where they hinder reading; do not change the meaning. Change code only so that it runs.
- If nothing is left, write exactly: NO USEFUL CONTENT

Write the result alone, without a word before or after it.

Text:
{{text}}
"""

HTML_TO_TEXT_PROMPT = _CLEAN.format(kept="mathematics (theorems, proofs, definitions, formulas) and code")
HTML_TO_TEXT_PROMPT_CODE = _CLEAN.format(
    kept="code and technical content (commands, configuration, output, uses of libraries) and mathematics"
)

MATH_TOPIC_CLASSIFICATION_PROMPT = """Which one of these is the main topic of the document below?
Mathematics, Computer Science, Physics, Statistics, Chemistry, Economics, Other

Answer with the topic alone.

Document:
{text}
"""

CODE_QUALITY_PROMPT_SIMPLIFIED = """How much code does the text below hold?

0: nothing about programming.
1: some, such as snippets, configuration or names of functions, but incomplete or hardly explained.
2: clear and fairly complete code that is explained, as in a tutorial or documentation.

Answer with one line, "Final score: N", where N is 0, 1 or 2.

Text:
{text}
"""

CODE_QUALITY_PROMPT = """How well does the text below teach programming? Give the highest score that holds:

0: nothing about programming.
1: code, configuration, tools or concepts are mentioned.
2: it names concrete topics, such as languages, libraries, data structures or file formats.
3: it shows how something is done: whole functions, steps, commands.
4: it has clear and fairly complete code with explanations.
5: it is a very good lesson: clean code, context, structure, and explanations that are easy to follow.

Give your reasons in at most 100 words, then one line, "Final score: N".

Text:
{text}
"""

_TALK = (
    "Turn the text below into a conversation of several turns {between}. "
    "Use what the text says and nothing else.\n\n{{text}}\n"
)

mind_two_profs = _TALK.format(between="between two professors who discuss it")
mind_teacher_student = _TALK.format(
    between="between a student who asks about it and a teacher who answers step by step"
)
mind_two_students = _TALK.format(between="between two students who work on an assignment about it")
mind_interview = _TALK.format(between="in which an interviewer asks about it and an expert answers in detail")
mind_problem_solving = _TALK.format(between="in which people analyse the problems that it poses and solve them")
mind_layman_knowall = _TALK.format(
    between="in which you explain it to a layman, who asks many questions that you answer step by step"
)
mind_debate = _TALK.format(between="in which people argue for and against what it says, and give their reasons")
