"""Public names of `dcurate.llm` and the modules that define them; `__init__.py` reads this file."""

from .cache import AnswerCache as AnswerCache
from .cleanup import LLMCleanup as LLMCleanup
from .client import AsyncLLMClient as AsyncLLMClient
from .client import ConversationFormatter as ConversationFormatter
from .client import LLMClient as LLMClient
from .config import GenerationConfig as GenerationConfig
from .embedding import EndpointEmbedding as EndpointEmbedding
from .errors import RequestError as RequestError
from .faith import FilterByFaith as FilterByFaith
from .generate import Generate as Generate
from .nemotron_cc import CleanDiverseQA as CleanDiverseQA
from .nemotron_cc import CleanKnowledgeList as CleanKnowledgeList
from .nemotron_cc import Distill as Distill
from .nemotron_cc import DiverseQA as DiverseQA
from .nemotron_cc import ExtractKnowledge as ExtractKnowledge
from .nemotron_cc import KnowledgeList as KnowledgeList
from .nemotron_cc import WikipediaParaphrase as WikipediaParaphrase
from .nemotron_pipeline import NemotronCC as NemotronCC
from .openai_client import AsyncOpenAIClient as AsyncOpenAIClient
from .openai_client import OpenAIClient as OpenAIClient
from .pii import LLMPii as LLMPii
from .retrieval import FilterByAnswerability as FilterByAnswerability
from .retrieval import FilterByEasiness as FilterByEasiness
from .synthetic import SyntheticQA as SyntheticQA
from .translate import TranslateSegments as TranslateSegments
from .translation import Translate as Translate

__all__: list[str]
