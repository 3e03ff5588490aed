"""Public names of `dcurate.llm` and the modules that define them; `__init__.py` reads this file."""

from .cache import AnswerCache as AnswerCache
from .cleanup import LLMCleanupStage as LLMCleanupStage
from .client import AsyncLLMClient as AsyncLLMClient
from .client import ConversationFormatter as ConversationFormatter
from .client import LLMClient as LLMClient
from .config import GenerationConfig as GenerationConfig
from .embedding import EndpointEmbeddingStage as EndpointEmbeddingStage
from .errors import RequestError as RequestError
from .faith import FaithEvalFilter as FaithEvalFilter
from .generate import GenerateStage as GenerateStage
from .nemotron_cc import DistillStage as DistillStage
from .nemotron_cc import DiverseQAPostProcessingStage as DiverseQAPostProcessingStage
from .nemotron_cc import DiverseQAStage as DiverseQAStage
from .nemotron_cc import ExtractKnowledgeStage as ExtractKnowledgeStage
from .nemotron_cc import KnowledgeListPostProcessingStage as KnowledgeListPostProcessingStage
from .nemotron_cc import KnowledgeListStage as KnowledgeListStage
from .nemotron_cc import WikipediaParaphrasingStage as WikipediaParaphrasingStage
from .nemotron_pipeline import NemotronCCStage as NemotronCCStage
from .openai_client import AsyncOpenAIClient as AsyncOpenAIClient
from .openai_client import OpenAIClient as OpenAIClient
from .pii import LLMPiiStage as LLMPiiStage
from .retrieval import AnswerabilityFilter as AnswerabilityFilter
from .retrieval import EasinessFilter as EasinessFilter
from .synthetic import QAMultilingualSyntheticStage as QAMultilingualSyntheticStage
from .translate import SegmentTranslationStage as SegmentTranslationStage
from .translation import TranslationStage as TranslationStage

__all__: list[str]
