"""Public names of `dcurate.images` and the modules that define them; `__init__.py` reads this file."""

from .duplicates.decontaminate import BenchmarkImages as BenchmarkImages
from .duplicates.decontaminate import ImageDecontaminate as ImageDecontaminate
from .duplicates.exact import ImageExactDuplicates as ImageExactDuplicates
from .duplicates.near import ImageNearDuplicates as ImageNearDuplicates
from .duplicates.reading import ImageReading as ImageReading
from .info import ImageInfo as ImageInfo
from .interleaved.clip import InterleavedCLIPScoreFilterStage as InterleavedCLIPScoreFilterStage
from .interleaved.filters import InterleavedAspectRatioFilterStage as InterleavedAspectRatioFilterStage
from .interleaved.filters import InterleavedBlurFilterStage as InterleavedBlurFilterStage
from .interleaved.filters import InterleavedImageToTextRatioFilterStage as InterleavedImageToTextRatioFilterStage
from .interleaved.filters import InterleavedQRCodeFilterStage as InterleavedQRCodeFilterStage
from .interleaved.lists import FromInterleaved as FromInterleaved
from .interleaved.lists import ToInterleaved as ToInterleaved
from .interleaved.parquet import InterleavedParquetReader as InterleavedParquetReader
from .interleaved.texts import OnTexts as OnTexts
from .interleaved.webdataset import InterleavedWebdatasetReader as InterleavedWebdatasetReader
from .interleaved.write import InterleavedParquetWriter as InterleavedParquetWriter
from .interleaved.write import InterleavedWebdatasetWriter as InterleavedWebdatasetWriter
from .signals import ImageSignals as ImageSignals

__all__: list[str]
