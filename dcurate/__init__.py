"""dcurate: curate LLM training data on Dask.

Everything public is importable from here; names load on first use, so that ``import dcurate`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcurate.cluster.attach import AttachedCluster as AttachedCluster
    from dcurate.cluster.kinds import ElasticCluster as ElasticCluster
    from dcurate.cluster.kinds import adapt_kinds as adapt_kinds
    from dcurate.cluster.local import LocalCluster as LocalCluster
    from dcurate.cluster.shape import Shape as Shape
    from dcurate.cluster.supply import Kind as Kind
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
    from dcurate.dedup.exact import ExactDuplicates as ExactDuplicates
    from dcurate.execute.dask_executor import DaskExecutor as DaskExecutor
    from dcurate.execute.inline import InlineExecutor as InlineExecutor
    from dcurate.frames.document import DocumentBatch as DocumentBatch
    from dcurate.io.jsonl import JsonlReader as JsonlReader
    from dcurate.io.jsonl import JsonlWriter as JsonlWriter
    from dcurate.io.parquet import ParquetReader as ParquetReader
    from dcurate.io.parquet import ParquetWriter as ParquetWriter
    from dcurate.observe.progress import Progress as Progress
    from dcurate.observe.table import report_table as report_table
    from dcurate.run import Pipeline as Pipeline
    from dcurate.run import RunResult as RunResult
    from dcurate.text.column_filter import ColumnFilter as ColumnFilter
    from dcurate.text.filter import DocumentFilter as DocumentFilter
    from dcurate.text.filter import SignalFilter as SignalFilter
    from dcurate.text.filters.characters import NonAlphaNumericFilter as NonAlphaNumericFilter
    from dcurate.text.filters.characters import NumbersFilter as NumbersFilter
    from dcurate.text.filters.characters import ParenthesesFilter as ParenthesesFilter
    from dcurate.text.filters.characters import WhiteSpaceFilter as WhiteSpaceFilter
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
    from dcurate.text.filters.urls import PornographicUrlsFilter as PornographicUrlsFilter
    from dcurate.text.filters.urls import UrlsFilter as UrlsFilter
    from dcurate.text.filters.words import CommonEnglishWordsFilter as CommonEnglishWordsFilter
    from dcurate.text.filters.words import LongWordFilter as LongWordFilter
    from dcurate.text.filters.words import MeanWordLengthFilter as MeanWordLengthFilter
    from dcurate.text.filters.words import SymbolsToWordsFilter as SymbolsToWordsFilter
    from dcurate.text.filters.words import WordCountFilter as WordCountFilter
    from dcurate.text.filters.words import WordsWithoutAlphabetsFilter as WordsWithoutAlphabetsFilter
    from dcurate.text.ids import AddId as AddId
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
    from dcurate.text.score import Filter as Filter
    from dcurate.text.score import Score as Score
    from dcurate.text.score import ScoreFilter as ScoreFilter
    from dcurate.text.signals import Needs as Needs
    from dcurate.text.signals import Signals as Signals

__version__ = "0.1.0"

#: Where each public name lives.
_HOME = {
    "AddId": "dcurate.text.ids",
    "AttachedCluster": "dcurate.cluster.attach",
    "ElasticCluster": "dcurate.cluster.kinds",
    "adapt_kinds": "dcurate.cluster.kinds",
    "Batch": "dcurate.core.batch",
    "BatchKey": "dcurate.core.batch",
    "BoilerPlateStringFilter": "dcurate.text.filters.phrases",
    "BoilerPlateStringModifier": "dcurate.text.modifiers",
    "BulletsFilter": "dcurate.text.filters.lines",
    "ColumnFilter": "dcurate.text.column_filter",
    "CommonEnglishWordsFilter": "dcurate.text.filters.words",
    "CompositeStage": "dcurate.core.stage",
    "DaskExecutor": "dcurate.execute.dask_executor",
    "DocumentBatch": "dcurate.frames.document",
    "DocumentFilter": "dcurate.text.filter",
    "DocumentModifier": "dcurate.text.modifier",
    "EllipsisFilter": "dcurate.text.filters.lines",
    "ExactDuplicates": "dcurate.dedup.exact",
    "FastTextLabelModifier": "dcurate.text.modifiers",
    "FileGroup": "dcurate.core.batch",
    "Filter": "dcurate.text.score",
    "InlineExecutor": "dcurate.execute.inline",
    "JsonlReader": "dcurate.io.jsonl",
    "JsonlWriter": "dcurate.io.jsonl",
    "LineRemover": "dcurate.text.modifiers",
    "LocalCluster": "dcurate.cluster.local",
    "Shape": "dcurate.cluster.shape",
    "Kind": "dcurate.cluster.supply",
    "LongWordFilter": "dcurate.text.filters.words",
    "MarkdownRemover": "dcurate.text.modifiers",
    "MeanWordLengthFilter": "dcurate.text.filters.words",
    "Modify": "dcurate.text.modify",
    "Needs": "dcurate.text.signals",
    "NewlineNormalizer": "dcurate.text.modifiers",
    "NodeInfo": "dcurate.core.stage",
    "NonAlphaNumericFilter": "dcurate.text.filters.characters",
    "NumbersFilter": "dcurate.text.filters.characters",
    "Observer": "dcurate.core.events",
    "ParenthesesFilter": "dcurate.text.filters.characters",
    "ParquetReader": "dcurate.io.parquet",
    "ParquetWriter": "dcurate.io.parquet",
    "Pipeline": "dcurate.run",
    "PornographicUrlsFilter": "dcurate.text.filters.urls",
    "ProcessingStage": "dcurate.core.stage",
    "Progress": "dcurate.observe.progress",
    "PunctuationFilter": "dcurate.text.filters.lines",
    "QuotationRemover": "dcurate.text.modifiers",
    "RepeatedLinesByCharFilter": "dcurate.text.filters.repetition",
    "RepeatedLinesFilter": "dcurate.text.filters.repetition",
    "RepeatedParagraphsByCharFilter": "dcurate.text.filters.repetition",
    "RepeatedParagraphsFilter": "dcurate.text.filters.repetition",
    "RepeatingDuplicateNGramsFilter": "dcurate.text.filters.repetition",
    "RepeatingTopNGramsFilter": "dcurate.text.filters.repetition",
    "Resources": "dcurate.core.resources",
    "StageSpec": "dcurate.core.spec",
    "RunResult": "dcurate.run",
    "Score": "dcurate.text.score",
    "ScoreFilter": "dcurate.text.score",
    "SignalFilter": "dcurate.text.filter",
    "Signals": "dcurate.text.signals",
    "SinkStage": "dcurate.core.stage",
    "Slicer": "dcurate.text.modifiers",
    "SourceStage": "dcurate.core.stage",
    "SubstringFilter": "dcurate.text.filters.phrases",
    "SymbolsToWordsFilter": "dcurate.text.filters.words",
    "UrlRemover": "dcurate.text.modifiers",
    "UrlsFilter": "dcurate.text.filters.urls",
    "WhiteSpaceFilter": "dcurate.text.filters.characters",
    "WordCountFilter": "dcurate.text.filters.words",
    "WordsWithoutAlphabetsFilter": "dcurate.text.filters.words",
    "WorkerMetadata": "dcurate.core.stage",
    "apply": "dcurate.dataframe",
    "processing_stage": "dcurate.core.stage",
    "report_table": "dcurate.observe.table",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the names of the table above, all strings


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dcurate' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
