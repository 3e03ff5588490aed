"""Boilerplate paragraphs of web pages, after C4 (Raffel et al., 2020)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.phrases import Phrases, find_paragraphs, new_spare, phrases
from dcurate.kernels.signal import columns, signal

#: A paragraph with one of these is boilerplate. Longer ones of C4's list that contain one of these are left out.
POLICY = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "privacy overview",
    "use of cookies",
    "use cookies",
    "privacy & cookies policy",
    "privacy and cookies policy",
    "necessary cookies are absolutely essential for the website to function properly. this category only includes "
    "cookies that ensures basic functionalities and security features of the website. these cookies do not store any "
    "personal information.",
    "any cookies that may not be particularly necessary for the website to function and is used specifically to "
    "collect user personal data via analytics, ads, other embedded contents are termed as non-necessary cookies. it "
    "is mandatory to procure user consent prior to running these cookies on your website.",
    "if you continue to browse this site without changing your cookie settings, you agree to this use. acceptread more",
)
#: A text with this is boilerplate as a whole.
FILLER = ("lorem ipsum",)


class BoilerplateSignals(NamedTuple):
    """Counts of the paragraphs of each text: all, about policies, and with filler text."""

    paragraphs: npt.NDArray[np.int64]
    policy: npt.NDArray[np.int64]
    filler: npt.NDArray[np.int64]


@cache
def _boilerplate() -> Phrases:
    return phrases([POLICY, FILLER])


@signal(find_paragraphs, columns(BoilerplateSignals), scratch=Scratch(new_spare))
def boilerplate_signals() -> Phrases:
    """Find boilerplate paragraphs."""
    return _boilerplate()
