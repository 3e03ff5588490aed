"""Public names of `dcurate.models` and the modules that define them; `__init__.py` reads this file."""

from .classifiers.aegis import AegisClassifier as AegisClassifier
from .classifiers.aegis import InstructionDataGuardClassifier as InstructionDataGuardClassifier
from .classifiers.finemath import FineMathClassifier as FineMathClassifier
from .classifiers.fineweb import FineWebEduClassifier as FineWebEduClassifier
from .classifiers.fineweb import FineWebMixtralEduClassifier as FineWebMixtralEduClassifier
from .classifiers.fineweb import FineWebNemotronEduClassifier as FineWebNemotronEduClassifier
from .classifiers.labels import FilterByLabel as FilterByLabel
from .classifiers.prompts import PromptTaskComplexityClassifier as PromptTaskComplexityClassifier
from .classifiers.quality import ContentTypeClassifier as ContentTypeClassifier
from .classifiers.quality import DistributedDataClassifier as DistributedDataClassifier
from .classifiers.quality import DomainClassifier as DomainClassifier
from .classifiers.quality import MultilingualDomainClassifier as MultilingualDomainClassifier
from .classifiers.quality import QualityClassifier as QualityClassifier
from .classifiers.sequence import SequenceClassifier as SequenceClassifier
from .embedders.creator import TextEmbedding as TextEmbedding
from .embedders.stages import EmbeddingModel as EmbeddingModel
from .embedders.stages import SentenceTransformerModel as SentenceTransformerModel
from .embedders.static import StaticEmbedder as StaticEmbedder
from .fasttext import FastTextClassifier as FastTextClassifier
from .inference import ModelStage as ModelStage
from .tokenizer import Tokenize as Tokenize
from .vision.captions import FilterByClipScore as FilterByClipScore
from .vision.classifier import ImageClassifier as ImageClassifier
from .vision.describe import DescribeImages as DescribeImages
from .vision.film import VideoEmbedding as VideoEmbedding
from .vision.heads import FilterByAesthetics as FilterByAesthetics
from .vision.heads import FilterByNsfw as FilterByNsfw
from .vision.interleaved import FilterInterleavedByClipScore as FilterInterleavedByClipScore
from .vision.stage import ImageEmbedding as ImageEmbedding

__all__: list[str]
