"""Public names of `dcurate.models` and the modules that define them; `__init__.py` reads this file."""

from .classifiers.aegis import AegisClassifier as AegisClassifier
from .classifiers.aegis import InstructionDataGuardClassifier as InstructionDataGuardClassifier
from .classifiers.finemath import FineMathClassifier as FineMathClassifier
from .classifiers.fineweb import FineWebEduClassifier as FineWebEduClassifier
from .classifiers.fineweb import FineWebMixtralEduClassifier as FineWebMixtralEduClassifier
from .classifiers.fineweb import FineWebNemotronEduClassifier as FineWebNemotronEduClassifier
from .classifiers.labels import LabelFilter as LabelFilter
from .classifiers.prompts import PromptTaskComplexityClassifier as PromptTaskComplexityClassifier
from .classifiers.quality import ContentTypeClassifier as ContentTypeClassifier
from .classifiers.quality import DistributedDataClassifier as DistributedDataClassifier
from .classifiers.quality import DomainClassifier as DomainClassifier
from .classifiers.quality import MultilingualDomainClassifier as MultilingualDomainClassifier
from .classifiers.quality import QualityClassifier as QualityClassifier
from .classifiers.sequence import ClassifierStage as ClassifierStage
from .embedders.creator import EmbeddingCreatorStage as EmbeddingCreatorStage
from .embedders.stages import EmbeddingModelStage as EmbeddingModelStage
from .embedders.stages import SentenceTransformerEmbeddingModelStage as SentenceTransformerEmbeddingModelStage
from .fasttext import FastTextClassifier as FastTextClassifier
from .inference import ModelStage as ModelStage
from .tokenizer import TokenizerStage as TokenizerStage
from .vision.captions import CLIPScoreFilter as CLIPScoreFilter
from .vision.classifier import PictureClassifier as PictureClassifier
from .vision.heads import ImageAestheticFilterStage as ImageAestheticFilterStage
from .vision.heads import ImageNSFWFilterStage as ImageNSFWFilterStage
from .vision.stage import ImageEmbeddingStage as ImageEmbeddingStage

__all__: list[str]
