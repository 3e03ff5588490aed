"""Every rule set and the module that defines it; `__init__.py` reads this file."""

from .c4_rules import c4 as c4
from .c4_rules import c4_filters as c4_filters
from .c4_rules import c4_paragraphs as c4_paragraphs
from .fineweb_rules import fineweb as fineweb
from .fineweb_rules import fineweb2 as fineweb2
from .fineweb_rules import fineweb_quality as fineweb_quality
from .gopher_rules import gopher as gopher
from .gopher_rules import gopher_quality as gopher_quality
from .gopher_rules import gopher_repetition as gopher_repetition
from .image_rules import images_datacomp as images_datacomp
from .image_rules import images_laion as images_laion
from .image_rules import images_nemo as images_nemo
from .image_rules import images_quality as images_quality
from .nemo_rules import nemo_english as nemo_english
from .nemo_rules import nemo_non_english as nemo_non_english
from .refinedweb_rules import refinedweb as refinedweb
from .speech_rules import speech_emilia as speech_emilia
from .speech_rules import speech_full_band as speech_full_band
from .speech_rules import speech_nemo as speech_nemo
from .speech_rules import speech_nemo_wer as speech_nemo_wer
from .speech_rules import speech_quality as speech_quality
from .video_rules import video_nemo as video_nemo
from .video_rules import video_openvid as video_openvid
from .video_rules import video_panda as video_panda
from .video_rules import video_quality as video_quality

__all__: list[str]
