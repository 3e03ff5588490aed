"""Public names of `dcurate.images` and the modules that define them; `__init__.py` reads this file."""

from .duplicates.decontaminate import BenchmarkImages as BenchmarkImages
from .duplicates.decontaminate import ImageDecontaminate as ImageDecontaminate
from .duplicates.exact import ImageExactDuplicates as ImageExactDuplicates
from .duplicates.near import ImageNearDuplicates as ImageNearDuplicates
from .info import ImageInfo as ImageInfo
from .interleaved.filters import FilterInterleavedByAspectRatio as FilterInterleavedByAspectRatio
from .interleaved.filters import FilterInterleavedByBlur as FilterInterleavedByBlur
from .interleaved.filters import FilterInterleavedByImageToTextRatio as FilterInterleavedByImageToTextRatio
from .interleaved.filters import FilterInterleavedByQrCode as FilterInterleavedByQrCode
from .interleaved.lists import FromInterleaved as FromInterleaved
from .interleaved.lists import ToInterleaved as ToInterleaved
from .interleaved.parquet import InterleavedParquetReader as InterleavedParquetReader
from .interleaved.texts import OnTexts as OnTexts
from .interleaved.webdataset import InterleavedWebDatasetReader as InterleavedWebDatasetReader
from .interleaved.write import InterleavedParquetWriter as InterleavedParquetWriter
from .interleaved.write import InterleavedWebDatasetWriter as InterleavedWebDatasetWriter
from .reading import ImageReading as ImageReading
from .signals import ImageSignals as ImageSignals

__all__: list[str]
