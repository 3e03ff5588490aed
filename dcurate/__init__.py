"""dcurate: curate LLM training data on Dask.

Everything public is importable from here; names load on first use, so that ``import dcurate`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dcurate.moved import find_moved_modules

if TYPE_CHECKING:
    from dcurate.cluster.attach import AttachedCluster as AttachedCluster
    from dcurate.cluster.elastic import ElasticCluster as ElasticCluster
    from dcurate.cluster.elastic import adapt_kinds as adapt_kinds
    from dcurate.cluster.local import LocalCluster as LocalCluster
    from dcurate.cluster.worker_pools import Kind as Kind
    from dcurate.cluster.worker_shape import Shape as Shape
    from dcurate.core.batch import Batch as Batch
    from dcurate.core.batch import BatchKey as BatchKey
    from dcurate.core.batch import FileGroup as FileGroup
    from dcurate.core.events import Observer as Observer
    from dcurate.core.resources import Resources as Resources
    from dcurate.core.spec import StageSpec as StageSpec
    from dcurate.core.stage import CompositeStage as CompositeStage
    from dcurate.core.stage import NodeInfo as NodeInfo
    from dcurate.core.stage import ProcessingStage as ProcessingStage
    from dcurate.core.stage import SinkStage as SinkStage
    from dcurate.core.stage import SourceStage as SourceStage
    from dcurate.core.stage import WorkerMetadata as WorkerMetadata
    from dcurate.core.stage import processing_stage as processing_stage
    from dcurate.dataframe import apply as apply
    from dcurate.datasets.blend import Blend as Blend
    from dcurate.datasets.rebatch import Rebatch as Rebatch
    from dcurate.datasets.shuffle import SampleFraction as SampleFraction
    from dcurate.datasets.shuffle import SampleRows as SampleRows
    from dcurate.datasets.shuffle import Shuffle as Shuffle
    from dcurate.dedup.bands import Bands as Bands
    from dcurate.dedup.benchmarks import Benchmark as Benchmark
    from dcurate.dedup.benchmarks import NgramIndex as NgramIndex
    from dcurate.dedup.bloom import BloomDuplicates as BloomDuplicates
    from dcurate.dedup.bloom import bloom_state as bloom_state
    from dcurate.dedup.bloom_filter import BloomState as BloomState
    from dcurate.dedup.bloom_size import BloomSize as BloomSize
    from dcurate.dedup.decontamination import Decontaminate as Decontaminate
    from dcurate.dedup.decontamination import TaskDecontamination as TaskDecontamination
    from dcurate.dedup.exact import ExactDuplicates as ExactDuplicates
    from dcurate.dedup.fuzzy import FuzzyDuplicates as FuzzyDuplicates
    from dcurate.dedup.keep import First as First
    from dcurate.dedup.keep import Highest as Highest
    from dcurate.dedup.keep import Keep as Keep
    from dcurate.dedup.keep import Longest as Longest
    from dcurate.dedup.keep import Lowest as Lowest
    from dcurate.dedup.keep import Preferred as Preferred
    from dcurate.dedup.minhash import MinHash as MinHash
    from dcurate.dedup.removal import TextDuplicatesRemovalStage as TextDuplicatesRemovalStage
    from dcurate.dedup.report import DedupReport as DedupReport
    from dcurate.dedup.report import dedup_report as dedup_report
    from dcurate.dedup.report_table import DedupReportTable as DedupReportTable
    from dcurate.dedup.semantic.stage import SemanticDuplicates as SemanticDuplicates
    from dcurate.dedup.shingles import Shingles as Shingles
    from dcurate.dedup.spans import SpanDuplicates as SpanDuplicates
    from dcurate.dedup.substrings import SubstringDuplicates as SubstringDuplicates
    from dcurate.deduplication import deduplicate as deduplicate
    from dcurate.download.arxiv.latex import ArxivExtractor as ArxivExtractor
    from dcurate.download.arxiv.listing import ArxivUrlGenerator as ArxivUrlGenerator
    from dcurate.download.arxiv.papers import ArxivIterator as ArxivIterator
    from dcurate.download.arxiv.stage import ArxivDownloader as ArxivDownloader
    from dcurate.download.arxiv.stage import ArxivDownloadExtractStage as ArxivDownloadExtractStage
    from dcurate.download.common_crawl.crawls import MainCommonCrawlUrlGenerator as MainCommonCrawlUrlGenerator
    from dcurate.download.common_crawl.crawls import NewsCommonCrawlUrlGenerator as NewsCommonCrawlUrlGenerator
    from dcurate.download.common_crawl.pages import CommonCrawlHTMLExtractor as CommonCrawlHTMLExtractor
    from dcurate.download.common_crawl.pages import CommonCrawlWarcIterator as CommonCrawlWarcIterator
    from dcurate.download.common_crawl.records import CommonCrawlWARCReader as CommonCrawlWARCReader
    from dcurate.download.common_crawl.stage import CommonCrawlDownloadExtractStage as CommonCrawlDownloadExtractStage
    from dcurate.download.common_crawl.stage import CommonCrawlWARCDownloader as CommonCrawlWARCDownloader
    from dcurate.download.downloader import DocumentDownloader as DocumentDownloader
    from dcurate.download.downloader import DocumentDownloadStage as DocumentDownloadStage
    from dcurate.download.downloader import FileDownloader as FileDownloader
    from dcurate.download.extract import DocumentExtractor as DocumentExtractor
    from dcurate.download.extract import DocumentExtractStage as DocumentExtractStage
    from dcurate.download.extract import Skipped as Skipped
    from dcurate.download.iterate import DocumentIterateExtractStage as DocumentIterateExtractStage
    from dcurate.download.iterate import DocumentIterator as DocumentIterator
    from dcurate.download.iterate import RangeIterator as RangeIterator
    from dcurate.download.stage import DocumentDownloadExtractStage as DocumentDownloadExtractStage
    from dcurate.download.transfer import RemoteFile as RemoteFile
    from dcurate.download.transfer import Transfer as Transfer
    from dcurate.download.urls import URLGenerationStage as URLGenerationStage
    from dcurate.download.urls import URLGenerator as URLGenerator
    from dcurate.download.wikipedia.dumps import WikipediaUrlGenerator as WikipediaUrlGenerator
    from dcurate.download.wikipedia.pages import WikipediaIterator as WikipediaIterator
    from dcurate.download.wikipedia.stage import WikipediaDownloader as WikipediaDownloader
    from dcurate.download.wikipedia.stage import WikipediaDownloadExtractStage as WikipediaDownloadExtractStage
    from dcurate.download.wikipedia.text import WikipediaExtractor as WikipediaExtractor
    from dcurate.engine.dask.executor import DaskExecutor as DaskExecutor
    from dcurate.engine.inline import InlineExecutor as InlineExecutor
    from dcurate.errors import DataError as DataError
    from dcurate.errors import DcurateError as DcurateError
    from dcurate.errors import PipelineError as PipelineError
    from dcurate.errors import ResourceError as ResourceError
    from dcurate.errors import RunError as RunError
    from dcurate.errors import StageError as StageError
    from dcurate.frames.document import DocumentBatch as DocumentBatch
    from dcurate.inspection import RunPlaces as RunPlaces
    from dcurate.inspection import compare_runs as compare_runs
    from dcurate.inspection import inspect as inspect
    from dcurate.inspection import read_run as read_run
    from dcurate.io.document_reader import DocumentReader as DocumentReader
    from dcurate.io.document_writer import DocumentWriter as DocumentWriter
    from dcurate.io.jsonl import JsonlReader as JsonlReader
    from dcurate.io.jsonl import JsonlWriter as JsonlWriter
    from dcurate.io.parquet import ParquetReader as ParquetReader
    from dcurate.io.parquet import ParquetWriter as ParquetWriter
    from dcurate.io.warc_reader import WarcReader as WarcReader
    from dcurate.io.warc_reader import WetReader as WetReader
    from dcurate.lineage import trace as trace
    from dcurate.models.classifiers.aegis import AegisClassifier as AegisClassifier
    from dcurate.models.classifiers.aegis import InstructionDataGuardClassifier as InstructionDataGuardClassifier
    from dcurate.models.classifiers.finemath import FineMathClassifier as FineMathClassifier
    from dcurate.models.classifiers.fineweb import FineWebEduClassifier as FineWebEduClassifier
    from dcurate.models.classifiers.fineweb import FineWebMixtralEduClassifier as FineWebMixtralEduClassifier
    from dcurate.models.classifiers.fineweb import FineWebNemotronEduClassifier as FineWebNemotronEduClassifier
    from dcurate.models.classifiers.labels import LabelFilter as LabelFilter
    from dcurate.models.classifiers.prompts import PromptTaskComplexityClassifier as PromptTaskComplexityClassifier
    from dcurate.models.classifiers.quality import ContentTypeClassifier as ContentTypeClassifier
    from dcurate.models.classifiers.quality import DistributedDataClassifier as DistributedDataClassifier
    from dcurate.models.classifiers.quality import DomainClassifier as DomainClassifier
    from dcurate.models.classifiers.quality import MultilingualDomainClassifier as MultilingualDomainClassifier
    from dcurate.models.classifiers.quality import QualityClassifier as QualityClassifier
    from dcurate.models.classifiers.sequence import ClassifierStage as ClassifierStage
    from dcurate.models.embedders.creator import EmbeddingCreatorStage as EmbeddingCreatorStage
    from dcurate.models.embedders.stages import EmbeddingModelStage as EmbeddingModelStage
    from dcurate.models.embedders.stages import (
        SentenceTransformerEmbeddingModelStage as SentenceTransformerEmbeddingModelStage,
    )
    from dcurate.models.fasttext import FastTextClassifier as FastTextClassifier
    from dcurate.models.inference import ModelStage as ModelStage
    from dcurate.models.llm.cache import AnswerCache as AnswerCache
    from dcurate.models.llm.cleanup import LLMCleanupStage as LLMCleanupStage
    from dcurate.models.llm.client import AsyncLLMClient as AsyncLLMClient
    from dcurate.models.llm.client import ConversationFormatter as ConversationFormatter
    from dcurate.models.llm.client import LLMClient as LLMClient
    from dcurate.models.llm.config import GenerationConfig as GenerationConfig
    from dcurate.models.llm.embedding import EndpointEmbeddingStage as EndpointEmbeddingStage
    from dcurate.models.llm.errors import RequestError as RequestError
    from dcurate.models.llm.faith import FaithEvalFilter as FaithEvalFilter
    from dcurate.models.llm.generate import GenerateStage as GenerateStage
    from dcurate.models.llm.nemotron_cc import DistillStage as DistillStage
    from dcurate.models.llm.nemotron_cc import DiverseQAPostProcessingStage as DiverseQAPostProcessingStage
    from dcurate.models.llm.nemotron_cc import DiverseQAStage as DiverseQAStage
    from dcurate.models.llm.nemotron_cc import ExtractKnowledgeStage as ExtractKnowledgeStage
    from dcurate.models.llm.nemotron_cc import KnowledgeListPostProcessingStage as KnowledgeListPostProcessingStage
    from dcurate.models.llm.nemotron_cc import KnowledgeListStage as KnowledgeListStage
    from dcurate.models.llm.nemotron_cc import WikipediaParaphrasingStage as WikipediaParaphrasingStage
    from dcurate.models.llm.nemotron_pipeline import NemotronCCStage as NemotronCCStage
    from dcurate.models.llm.openai_client import AsyncOpenAIClient as AsyncOpenAIClient
    from dcurate.models.llm.openai_client import OpenAIClient as OpenAIClient
    from dcurate.models.llm.pii import LLMPiiStage as LLMPiiStage
    from dcurate.models.llm.retrieval import AnswerabilityFilter as AnswerabilityFilter
    from dcurate.models.llm.retrieval import EasinessFilter as EasinessFilter
    from dcurate.models.llm.synthetic import QAMultilingualSyntheticStage as QAMultilingualSyntheticStage
    from dcurate.models.llm.translate import SegmentTranslationStage as SegmentTranslationStage
    from dcurate.models.llm.translation import TranslationStage as TranslationStage
    from dcurate.models.tokenizer import TokenizerStage as TokenizerStage
    from dcurate.profiling import CorpusProfile as CorpusProfile
    from dcurate.profiling import profile as profile
    from dcurate.result import RunResult as RunResult
    from dcurate.run import Pipeline as Pipeline
    from dcurate.text.annotate import Annotate as Annotate
    from dcurate.text.annotate import refilter as refilter
    from dcurate.text.column_filter import ColumnFilter as ColumnFilter
    from dcurate.text.documents import DocumentJoiner as DocumentJoiner
    from dcurate.text.documents import DocumentSplitter as DocumentSplitter
    from dcurate.text.extract.algorithms import HTMLExtractorAlgorithm as HTMLExtractorAlgorithm
    from dcurate.text.extract.algorithms import JusTextExtractor as JusTextExtractor
    from dcurate.text.extract.algorithms import ResiliparseExtractor as ResiliparseExtractor
    from dcurate.text.extract.algorithms import TrafilaturaExtractor as TrafilaturaExtractor
    from dcurate.text.extract.stage import HtmlExtractor as HtmlExtractor
    from dcurate.text.filter import DocumentFilter as DocumentFilter
    from dcurate.text.filter import SignalFilter as SignalFilter
    from dcurate.text.filter import WordFilter as WordFilter
    from dcurate.text.filters.bad_words import C4BadWordsFilter as C4BadWordsFilter
    from dcurate.text.filters.characters import NonAlphaNumericFilter as NonAlphaNumericFilter
    from dcurate.text.filters.characters import NumbersFilter as NumbersFilter
    from dcurate.text.filters.characters import ParenthesesFilter as ParenthesesFilter
    from dcurate.text.filters.characters import WhiteSpaceFilter as WhiteSpaceFilter
    from dcurate.text.filters.code import AlphaFilter as AlphaFilter
    from dcurate.text.filters.code import HTMLBoilerplateFilter as HTMLBoilerplateFilter
    from dcurate.text.filters.code import NumberOfLinesOfCodeFilter as NumberOfLinesOfCodeFilter
    from dcurate.text.filters.code import XMLHeaderFilter as XMLHeaderFilter
    from dcurate.text.filters.comments import GeneralCommentToCodeFilter as GeneralCommentToCodeFilter
    from dcurate.text.filters.comments import PythonCommentToCodeFilter as PythonCommentToCodeFilter
    from dcurate.text.filters.extension import PerExtensionFilter as PerExtensionFilter
    from dcurate.text.filters.fasttext import FastTextLangId as FastTextLangId
    from dcurate.text.filters.fasttext import FastTextQualityFilter as FastTextQualityFilter
    from dcurate.text.filters.histogram import HistogramFilter as HistogramFilter
    from dcurate.text.filters.language import LanguageFilter as LanguageFilter
    from dcurate.text.filters.lines import BulletsFilter as BulletsFilter
    from dcurate.text.filters.lines import EllipsisFilter as EllipsisFilter
    from dcurate.text.filters.lines import PunctuationFilter as PunctuationFilter
    from dcurate.text.filters.phrases import BoilerPlateStringFilter as BoilerPlateStringFilter
    from dcurate.text.filters.phrases import SubstringFilter as SubstringFilter
    from dcurate.text.filters.repetition import RepeatedLinesByCharFilter as RepeatedLinesByCharFilter
    from dcurate.text.filters.repetition import RepeatedLinesFilter as RepeatedLinesFilter
    from dcurate.text.filters.repetition import RepeatedParagraphsByCharFilter as RepeatedParagraphsByCharFilter
    from dcurate.text.filters.repetition import RepeatedParagraphsFilter as RepeatedParagraphsFilter
    from dcurate.text.filters.repetition import RepeatingDuplicateNGramsFilter as RepeatingDuplicateNGramsFilter
    from dcurate.text.filters.repetition import RepeatingTopNGramsFilter as RepeatingTopNGramsFilter
    from dcurate.text.filters.tokens import TokenCountFilter as TokenCountFilter
    from dcurate.text.filters.tokens import TokenizerFertilityFilter as TokenizerFertilityFilter
    from dcurate.text.filters.urls import PornographicUrlsFilter as PornographicUrlsFilter
    from dcurate.text.filters.urls import UrlsFilter as UrlsFilter
    from dcurate.text.filters.words import CommonEnglishWordsFilter as CommonEnglishWordsFilter
    from dcurate.text.filters.words import LongWordFilter as LongWordFilter
    from dcurate.text.filters.words import MeanWordLengthFilter as MeanWordLengthFilter
    from dcurate.text.filters.words import SymbolsToWordsFilter as SymbolsToWordsFilter
    from dcurate.text.filters.words import WordCountFilter as WordCountFilter
    from dcurate.text.filters.words import WordsWithoutAlphabetsFilter as WordsWithoutAlphabetsFilter
    from dcurate.text.ids import AddId as AddId
    from dcurate.text.language import LanguageId as LanguageId
    from dcurate.text.modifier import ColumnModifier as ColumnModifier
    from dcurate.text.modifier import DocumentModifier as DocumentModifier
    from dcurate.text.modifiers import BoilerPlateStringModifier as BoilerPlateStringModifier
    from dcurate.text.modifiers import FastTextLabelModifier as FastTextLabelModifier
    from dcurate.text.modifiers import LineRemover as LineRemover
    from dcurate.text.modifiers import MarkdownRemover as MarkdownRemover
    from dcurate.text.modifiers import NewlineNormalizer as NewlineNormalizer
    from dcurate.text.modifiers import QuotationRemover as QuotationRemover
    from dcurate.text.modifiers import Slicer as Slicer
    from dcurate.text.modifiers import UrlRemover as UrlRemover
    from dcurate.text.modify import Modify as Modify
    from dcurate.text.pii.counts import CountPii as CountPii
    from dcurate.text.pii.counts import PiiFilter as PiiFilter
    from dcurate.text.pii.modifier import PII_EXAMPLES as PII_EXAMPLES
    from dcurate.text.pii.modifier import PiiModifier as PiiModifier
    from dcurate.text.pii.recognizers import SpacyRecognizer as SpacyRecognizer
    from dcurate.text.score import Filter as Filter
    from dcurate.text.score import Score as Score
    from dcurate.text.score import ScoreFilter as ScoreFilter
    from dcurate.text.signals import Needs as Needs
    from dcurate.text.signals import Signals as Signals
    from dcurate.text.unicode_repair import UnicodeReformatter as UnicodeReformatter
    from dcurate.ui.progress import JsonProgress as JsonProgress
    from dcurate.ui.progress import Progress as Progress
    from dcurate.ui.table import report_table as report_table
    from dcurate.ui.tracing import Tracing as Tracing
    from dcurate.workflows.exact import ExactDeduplicationWorkflow as ExactDeduplicationWorkflow
    from dcurate.workflows.fuzzy import FuzzyDeduplicationWorkflow as FuzzyDeduplicationWorkflow
    from dcurate.workflows.removal import TextDuplicatesRemovalWorkflow as TextDuplicatesRemovalWorkflow
    from dcurate.workflows.result import WorkflowRunResult as WorkflowRunResult
    from dcurate.workflows.semantic import SemanticDeduplicationWorkflow as SemanticDeduplicationWorkflow
    from dcurate.workflows.semantic import TextSemanticDeduplicationWorkflow as TextSemanticDeduplicationWorkflow

__version__ = "0.1.0"

#: Where each public name lives.
_HOME = {
    "adapt_kinds": "dcurate.cluster.elastic",
    "AddId": "dcurate.text.ids",
    "AegisClassifier": "dcurate.models.classifiers.aegis",
    "AlphaFilter": "dcurate.text.filters.code",
    "Annotate": "dcurate.text.annotate",
    "AnswerabilityFilter": "dcurate.models.llm.retrieval",
    "AnswerCache": "dcurate.models.llm.cache",
    "apply": "dcurate.dataframe",
    "ArxivDownloader": "dcurate.download.arxiv.stage",
    "ArxivDownloadExtractStage": "dcurate.download.arxiv.stage",
    "ArxivExtractor": "dcurate.download.arxiv.latex",
    "ArxivIterator": "dcurate.download.arxiv.papers",
    "ArxivUrlGenerator": "dcurate.download.arxiv.listing",
    "AsyncLLMClient": "dcurate.models.llm.client",
    "AsyncOpenAIClient": "dcurate.models.llm.openai_client",
    "AttachedCluster": "dcurate.cluster.attach",
    "Bands": "dcurate.dedup.bands",
    "Batch": "dcurate.core.batch",
    "BatchKey": "dcurate.core.batch",
    "Benchmark": "dcurate.dedup.benchmarks",
    "Blend": "dcurate.datasets.blend",
    "bloom_state": "dcurate.dedup.bloom",
    "BloomDuplicates": "dcurate.dedup.bloom",
    "BloomSize": "dcurate.dedup.bloom_size",
    "BloomState": "dcurate.dedup.bloom_filter",
    "BoilerPlateStringFilter": "dcurate.text.filters.phrases",
    "BoilerPlateStringModifier": "dcurate.text.modifiers",
    "BulletsFilter": "dcurate.text.filters.lines",
    "C4BadWordsFilter": "dcurate.text.filters.bad_words",
    "ClassifierStage": "dcurate.models.classifiers.sequence",
    "ColumnFilter": "dcurate.text.column_filter",
    "ColumnModifier": "dcurate.text.modifier",
    "CommonCrawlDownloadExtractStage": "dcurate.download.common_crawl.stage",
    "CommonCrawlHTMLExtractor": "dcurate.download.common_crawl.pages",
    "CommonCrawlWARCDownloader": "dcurate.download.common_crawl.stage",
    "CommonCrawlWarcIterator": "dcurate.download.common_crawl.pages",
    "CommonCrawlWARCReader": "dcurate.download.common_crawl.records",
    "CommonEnglishWordsFilter": "dcurate.text.filters.words",
    "compare_runs": "dcurate.inspection",
    "CompositeStage": "dcurate.core.stage",
    "ContentTypeClassifier": "dcurate.models.classifiers.quality",
    "ConversationFormatter": "dcurate.models.llm.client",
    "CorpusProfile": "dcurate.profiling",
    "CountPii": "dcurate.text.pii.counts",
    "DaskExecutor": "dcurate.engine.dask.executor",
    "DataError": "dcurate.errors",
    "DcurateError": "dcurate.errors",
    "Decontaminate": "dcurate.dedup.decontamination",
    "dedup_report": "dcurate.dedup.report",
    "deduplicate": "dcurate.deduplication",
    "DedupReport": "dcurate.dedup.report",
    "DedupReportTable": "dcurate.dedup.report_table",
    "DistillStage": "dcurate.models.llm.nemotron_cc",
    "DistributedDataClassifier": "dcurate.models.classifiers.quality",
    "DiverseQAPostProcessingStage": "dcurate.models.llm.nemotron_cc",
    "DiverseQAStage": "dcurate.models.llm.nemotron_cc",
    "DocumentBatch": "dcurate.frames.document",
    "DocumentDownloader": "dcurate.download.downloader",
    "DocumentDownloadExtractStage": "dcurate.download.stage",
    "DocumentDownloadStage": "dcurate.download.downloader",
    "DocumentExtractor": "dcurate.download.extract",
    "DocumentExtractStage": "dcurate.download.extract",
    "DocumentFilter": "dcurate.text.filter",
    "DocumentIterateExtractStage": "dcurate.download.iterate",
    "DocumentIterator": "dcurate.download.iterate",
    "DocumentJoiner": "dcurate.text.documents",
    "DocumentModifier": "dcurate.text.modifier",
    "DocumentReader": "dcurate.io.document_reader",
    "DocumentSplitter": "dcurate.text.documents",
    "DocumentWriter": "dcurate.io.document_writer",
    "DomainClassifier": "dcurate.models.classifiers.quality",
    "EasinessFilter": "dcurate.models.llm.retrieval",
    "ElasticCluster": "dcurate.cluster.elastic",
    "EllipsisFilter": "dcurate.text.filters.lines",
    "EmbeddingCreatorStage": "dcurate.models.embedders.creator",
    "EmbeddingModelStage": "dcurate.models.embedders.stages",
    "EndpointEmbeddingStage": "dcurate.models.llm.embedding",
    "ExactDeduplicationWorkflow": "dcurate.workflows.exact",
    "ExactDuplicates": "dcurate.dedup.exact",
    "ExtractKnowledgeStage": "dcurate.models.llm.nemotron_cc",
    "FaithEvalFilter": "dcurate.models.llm.faith",
    "FastTextClassifier": "dcurate.models.fasttext",
    "FastTextLabelModifier": "dcurate.text.modifiers",
    "FastTextLangId": "dcurate.text.filters.fasttext",
    "FastTextQualityFilter": "dcurate.text.filters.fasttext",
    "FileDownloader": "dcurate.download.downloader",
    "FileGroup": "dcurate.core.batch",
    "Filter": "dcurate.text.score",
    "FineMathClassifier": "dcurate.models.classifiers.finemath",
    "FineWebEduClassifier": "dcurate.models.classifiers.fineweb",
    "FineWebMixtralEduClassifier": "dcurate.models.classifiers.fineweb",
    "FineWebNemotronEduClassifier": "dcurate.models.classifiers.fineweb",
    "First": "dcurate.dedup.keep",
    "FuzzyDeduplicationWorkflow": "dcurate.workflows.fuzzy",
    "FuzzyDuplicates": "dcurate.dedup.fuzzy",
    "GeneralCommentToCodeFilter": "dcurate.text.filters.comments",
    "GenerateStage": "dcurate.models.llm.generate",
    "GenerationConfig": "dcurate.models.llm.config",
    "Highest": "dcurate.dedup.keep",
    "HistogramFilter": "dcurate.text.filters.histogram",
    "HTMLBoilerplateFilter": "dcurate.text.filters.code",
    "HtmlExtractor": "dcurate.text.extract.stage",
    "HTMLExtractorAlgorithm": "dcurate.text.extract.algorithms",
    "InlineExecutor": "dcurate.engine.inline",
    "inspect": "dcurate.inspection",
    "InstructionDataGuardClassifier": "dcurate.models.classifiers.aegis",
    "JsonlReader": "dcurate.io.jsonl",
    "JsonlWriter": "dcurate.io.jsonl",
    "JsonProgress": "dcurate.ui.progress",
    "JusTextExtractor": "dcurate.text.extract.algorithms",
    "Keep": "dcurate.dedup.keep",
    "Kind": "dcurate.cluster.worker_pools",
    "KnowledgeListPostProcessingStage": "dcurate.models.llm.nemotron_cc",
    "KnowledgeListStage": "dcurate.models.llm.nemotron_cc",
    "LabelFilter": "dcurate.models.classifiers.labels",
    "LanguageFilter": "dcurate.text.filters.language",
    "LanguageId": "dcurate.text.language",
    "LineRemover": "dcurate.text.modifiers",
    "LLMCleanupStage": "dcurate.models.llm.cleanup",
    "LLMClient": "dcurate.models.llm.client",
    "LLMPiiStage": "dcurate.models.llm.pii",
    "LocalCluster": "dcurate.cluster.local",
    "Longest": "dcurate.dedup.keep",
    "LongWordFilter": "dcurate.text.filters.words",
    "Lowest": "dcurate.dedup.keep",
    "MainCommonCrawlUrlGenerator": "dcurate.download.common_crawl.crawls",
    "MarkdownRemover": "dcurate.text.modifiers",
    "MeanWordLengthFilter": "dcurate.text.filters.words",
    "MinHash": "dcurate.dedup.minhash",
    "ModelStage": "dcurate.models.inference",
    "Modify": "dcurate.text.modify",
    "MultilingualDomainClassifier": "dcurate.models.classifiers.quality",
    "Needs": "dcurate.text.signals",
    "NemotronCCStage": "dcurate.models.llm.nemotron_pipeline",
    "NewlineNormalizer": "dcurate.text.modifiers",
    "NewsCommonCrawlUrlGenerator": "dcurate.download.common_crawl.crawls",
    "NgramIndex": "dcurate.dedup.benchmarks",
    "NodeInfo": "dcurate.core.stage",
    "NonAlphaNumericFilter": "dcurate.text.filters.characters",
    "NumberOfLinesOfCodeFilter": "dcurate.text.filters.code",
    "NumbersFilter": "dcurate.text.filters.characters",
    "Observer": "dcurate.core.events",
    "OpenAIClient": "dcurate.models.llm.openai_client",
    "ParenthesesFilter": "dcurate.text.filters.characters",
    "ParquetReader": "dcurate.io.parquet",
    "ParquetWriter": "dcurate.io.parquet",
    "PerExtensionFilter": "dcurate.text.filters.extension",
    "PII_EXAMPLES": "dcurate.text.pii.modifier",
    "PiiFilter": "dcurate.text.pii.counts",
    "PiiModifier": "dcurate.text.pii.modifier",
    "Pipeline": "dcurate.run",
    "PipelineError": "dcurate.errors",
    "PornographicUrlsFilter": "dcurate.text.filters.urls",
    "Preferred": "dcurate.dedup.keep",
    "processing_stage": "dcurate.core.stage",
    "ProcessingStage": "dcurate.core.stage",
    "profile": "dcurate.profiling",
    "Progress": "dcurate.ui.progress",
    "PromptTaskComplexityClassifier": "dcurate.models.classifiers.prompts",
    "PunctuationFilter": "dcurate.text.filters.lines",
    "PythonCommentToCodeFilter": "dcurate.text.filters.comments",
    "QAMultilingualSyntheticStage": "dcurate.models.llm.synthetic",
    "QualityClassifier": "dcurate.models.classifiers.quality",
    "QuotationRemover": "dcurate.text.modifiers",
    "RangeIterator": "dcurate.download.iterate",
    "read_run": "dcurate.inspection",
    "Rebatch": "dcurate.datasets.rebatch",
    "refilter": "dcurate.text.annotate",
    "RemoteFile": "dcurate.download.transfer",
    "RepeatedLinesByCharFilter": "dcurate.text.filters.repetition",
    "RepeatedLinesFilter": "dcurate.text.filters.repetition",
    "RepeatedParagraphsByCharFilter": "dcurate.text.filters.repetition",
    "RepeatedParagraphsFilter": "dcurate.text.filters.repetition",
    "RepeatingDuplicateNGramsFilter": "dcurate.text.filters.repetition",
    "RepeatingTopNGramsFilter": "dcurate.text.filters.repetition",
    "report_table": "dcurate.ui.table",
    "RequestError": "dcurate.models.llm.errors",
    "ResiliparseExtractor": "dcurate.text.extract.algorithms",
    "ResourceError": "dcurate.errors",
    "Resources": "dcurate.core.resources",
    "RunError": "dcurate.errors",
    "RunPlaces": "dcurate.inspection",
    "RunResult": "dcurate.result",
    "SampleFraction": "dcurate.datasets.shuffle",
    "SampleRows": "dcurate.datasets.shuffle",
    "Score": "dcurate.text.score",
    "ScoreFilter": "dcurate.text.score",
    "SegmentTranslationStage": "dcurate.models.llm.translate",
    "SemanticDeduplicationWorkflow": "dcurate.workflows.semantic",
    "SemanticDuplicates": "dcurate.dedup.semantic.stage",
    "SentenceTransformerEmbeddingModelStage": "dcurate.models.embedders.stages",
    "Shape": "dcurate.cluster.worker_shape",
    "Shingles": "dcurate.dedup.shingles",
    "Shuffle": "dcurate.datasets.shuffle",
    "SignalFilter": "dcurate.text.filter",
    "Signals": "dcurate.text.signals",
    "SinkStage": "dcurate.core.stage",
    "Skipped": "dcurate.download.extract",
    "Slicer": "dcurate.text.modifiers",
    "SourceStage": "dcurate.core.stage",
    "SpacyRecognizer": "dcurate.text.pii.recognizers",
    "SpanDuplicates": "dcurate.dedup.spans",
    "StageError": "dcurate.errors",
    "StageSpec": "dcurate.core.spec",
    "SubstringDuplicates": "dcurate.dedup.substrings",
    "SubstringFilter": "dcurate.text.filters.phrases",
    "SymbolsToWordsFilter": "dcurate.text.filters.words",
    "TaskDecontamination": "dcurate.dedup.decontamination",
    "TextDuplicatesRemovalStage": "dcurate.dedup.removal",
    "TextDuplicatesRemovalWorkflow": "dcurate.workflows.removal",
    "TextSemanticDeduplicationWorkflow": "dcurate.workflows.semantic",
    "TokenCountFilter": "dcurate.text.filters.tokens",
    "TokenizerFertilityFilter": "dcurate.text.filters.tokens",
    "TokenizerStage": "dcurate.models.tokenizer",
    "trace": "dcurate.lineage",
    "Tracing": "dcurate.ui.tracing",
    "TrafilaturaExtractor": "dcurate.text.extract.algorithms",
    "Transfer": "dcurate.download.transfer",
    "TranslationStage": "dcurate.models.llm.translation",
    "UnicodeReformatter": "dcurate.text.unicode_repair",
    "URLGenerationStage": "dcurate.download.urls",
    "URLGenerator": "dcurate.download.urls",
    "UrlRemover": "dcurate.text.modifiers",
    "UrlsFilter": "dcurate.text.filters.urls",
    "WarcReader": "dcurate.io.warc_reader",
    "WetReader": "dcurate.io.warc_reader",
    "WhiteSpaceFilter": "dcurate.text.filters.characters",
    "WikipediaDownloader": "dcurate.download.wikipedia.stage",
    "WikipediaDownloadExtractStage": "dcurate.download.wikipedia.stage",
    "WikipediaExtractor": "dcurate.download.wikipedia.text",
    "WikipediaIterator": "dcurate.download.wikipedia.pages",
    "WikipediaParaphrasingStage": "dcurate.models.llm.nemotron_cc",
    "WikipediaUrlGenerator": "dcurate.download.wikipedia.dumps",
    "WordCountFilter": "dcurate.text.filters.words",
    "WordFilter": "dcurate.text.filter",
    "WordsWithoutAlphabetsFilter": "dcurate.text.filters.words",
    "WorkerMetadata": "dcurate.core.stage",
    "WorkflowRunResult": "dcurate.workflows.result",
    "XMLHeaderFilter": "dcurate.text.filters.code",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the names of the table above, all strings


find_moved_modules()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dcurate' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
