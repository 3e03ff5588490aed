"""Public names of `dcurate.llm` and the modules that define them; `__init__.py` reads this file."""

from dcurate.endpoints.cache import AnswerCache as AnswerCache
from dcurate.endpoints.client import AsyncLLMClient as AsyncLLMClient
from dcurate.endpoints.client import ConversationFormatter as ConversationFormatter
from dcurate.endpoints.client import LLMClient as LLMClient
from dcurate.endpoints.config import GenerationConfig as GenerationConfig
from dcurate.endpoints.errors import RequestError as RequestError
from dcurate.endpoints.generate import Generate as Generate
from dcurate.endpoints.openai_client import AsyncOpenAIClient as AsyncOpenAIClient
from dcurate.endpoints.openai_client import OpenAIClient as OpenAIClient

from .cleanup import LLMCleanup as LLMCleanup
from .embedding import EndpointEmbedding as EndpointEmbedding
from .faith import FilterByFaith as FilterByFaith
from .nemotron_cc import CleanDiverseQA as CleanDiverseQA
from .nemotron_cc import CleanKnowledgeList as CleanKnowledgeList
from .nemotron_cc import Rephrase as Rephrase
from .nemotron_pipeline import NemotronCC as NemotronCC
from .pii import LLMPii as LLMPii
from .retrieval import FilterByAnswerability as FilterByAnswerability
from .retrieval import FilterByEasiness as FilterByEasiness
from .synthetic import SyntheticQA as SyntheticQA
from .translate import TranslateSegments as TranslateSegments
from .translation import Translate as Translate

__all__: list[str]
