"""Public names of `dcurate.audio` and the modules that define them; `__init__.py` reads this file."""

from .dnsmos import Dnsmos as Dnsmos
from .duplicates.exact import AudioExactDuplicates as AudioExactDuplicates
from .duplicates.near import AudioNearDuplicates as AudioNearDuplicates
from .endpoint import EndpointRecognizer as EndpointRecognizer
from .events import EventRules as EventRules
from .events import SoundEvents as SoundEvents
from .faster_whisper_recognizer import FasterWhisperRecognizer as FasterWhisperRecognizer
from .hallucinations import Hallucinations as Hallucinations
from .info import AudioInfo as AudioInfo
from .layouts.cut import CutAudio as CutAudio
from .layouts.cuts import LhotseCutReader as LhotseCutReader
from .layouts.cuts_writer import LhotseCutWriter as LhotseCutWriter
from .layouts.folder import AudioFolderReader as AudioFolderReader
from .layouts.folder import AudioFolderWriter as AudioFolderWriter
from .layouts.nemo import NemoManifestReader as NemoManifestReader
from .layouts.nemo_writer import NemoManifestWriter as NemoManifestWriter
from .layouts.nemo_writer import NemoTarWriter as NemoTarWriter
from .layouts.shar import LhotseSharReader as LhotseSharReader
from .layouts.shar import LhotseSharWriter as LhotseSharWriter
from .layouts.side_texts import ParseSegments as ParseSegments
from .layouts.side_texts import SideTexts as SideTexts
from .modifiers import AbbreviationJoiner as AbbreviationJoiner
from .modifiers import RegexSubstituter as RegexSubstituter
from .recognizers import HuggingFaceRecognizer as HuggingFaceRecognizer
from .recognizers import PocketSphinxRecognizer as PocketSphinxRecognizer
from .recognizers import Recognizer as Recognizer
from .recognizers import SoundWindow as SoundWindow
from .recognizers import Transcript as Transcript
from .segments import DropOverlappingSegments as DropOverlappingSegments
from .segments import SegmentRows as SegmentRows
from .segments import WordsToSegments as WordsToSegments
from .selection import SelectTranscript as SelectTranscript
from .signals import AudioSignals as AudioSignals
from .snippets import DropRepetitiveSnippets as DropRepetitiveSnippets
from .snippets import PlanSnippets as PlanSnippets
from .speech import FindSpeech as FindSpeech
from .splits import JoinSplits as JoinSplits
from .splits import SplitAtPauses as SplitAtPauses
from .stage import SoundStage as SoundStage
from .transcribe import Transcribe as Transcribe
from .transcripts import ErrorRates as ErrorRates
from .utterances import WordsToUtterances as WordsToUtterances
from .windows import SelectWindows as SelectWindows
from .windows import SpeechWindows as SpeechWindows

__all__: list[str]
