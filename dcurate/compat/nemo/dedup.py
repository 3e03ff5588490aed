"""Deduplication under NeMo Curator's names and arguments, through dcurate's own engine and kernels."""

from dcurate.compat.nemo.dedup_stages.exact import ExactDeduplicationWorkflow, ExactDuplicateIdentification
from dcurate.compat.nemo.dedup_stages.fuzzy import (
    BucketsToEdgesStage,
    ConnectedComponentsStage,
    IdentifyFuzzyDuplicatesStage,
    LSHStage,
    MinHashStage,
)
from dcurate.compat.nemo.dedup_stages.fuzzy_workflow import FuzzyDeduplicationWorkflow
from dcurate.compat.nemo.dedup_stages.kmeans import KMeansReadFitWriteStage, KMeansStage
from dcurate.compat.nemo.dedup_stages.pairwise import (
    ClusterWiseFilePartitioningStage,
    IdentifyDuplicatesStage,
    PairwiseCosineSimilarityStage,
    PairwiseStage,
    RankingStrategy,
)
from dcurate.compat.nemo.dedup_stages.removal import TextDuplicatesRemovalStage, TextDuplicatesRemovalWorkflow
from dcurate.compat.nemo.dedup_stages.semantic_workflow import SemanticDeduplicationWorkflow
from dcurate.compat.nemo.dedup_stages.text_semantic import TextSemanticDeduplicationWorkflow

__all__ = [
    "BucketsToEdgesStage",
    "ClusterWiseFilePartitioningStage",
    "ConnectedComponentsStage",
    "ExactDeduplicationWorkflow",
    "ExactDuplicateIdentification",
    "FuzzyDeduplicationWorkflow",
    "IdentifyDuplicatesStage",
    "IdentifyFuzzyDuplicatesStage",
    "KMeansReadFitWriteStage",
    "KMeansStage",
    "LSHStage",
    "MinHashStage",
    "PairwiseCosineSimilarityStage",
    "PairwiseStage",
    "RankingStrategy",
    "SemanticDeduplicationWorkflow",
    "TextDuplicatesRemovalStage",
    "TextDuplicatesRemovalWorkflow",
    "TextSemanticDeduplicationWorkflow",
]
