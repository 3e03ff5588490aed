"""Detect the script of a text: the one of most of its characters."""

from __future__ import annotations

import base64
import zlib
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import ALLOCATING, INLINE, Bytes, Ints, Scalar
from dcurate.kernels.signal import columns, signal

#: ISO 15924 codes of the scripts that characters can have, in order; common and inherited characters have none.
_CODES = (
    "AdlmAghbAhomArabArmiArmnAvstBaliBamuBassBatkBengBerfBhksBopoBrahBraiBugiBuhdCakmCansCariChamCherChrsCoptCpmnCprt"
    "CyrlDevaDiakDogrDsrtDuplEgypElbaElymEthiGaraGeorGlagGongGonmGothGranGrekGujrGukhGuruHangHaniHanoHatrHebrHiraHluw"
    "HmngHmnpHrktHungItalJavaJurcKaliKanaKawiKharKhmrKhojKitsKndaKraiKthiLanaLaooLatnLepcLimbLinaLinbLisuLyciLydiMahj"
    "MakaMandManiMarcMedfMendMercMeroMlymModiMongMrooMteiMultMymrNagmNandNarbNbatNewaNkooNshuOgamOlckOnaoOrkhOryaOsge"
    "OsmaOugrPalmPaucPcunPermPhagPhliPhlpPhnxPlrdPrtiRjngRohgRunrSamrSarbSaurSealSgnwShawShrdSiddSidtSindSinhSogdSogo"
    "SoraSoyoSundSunuSyloSyrcTagbTakrTaleTaluTamlTangTavtTayoTeluTfngTglgThaaThaiTibtTirhTnsaTodrTolsTotoTutgUgarVaii"
    "VithWaraWchoXpeoXsuxYeziYiiiZanb"
)
SCRIPTS: tuple[str, ...] = ("Zyyy", *(_CODES[at : at + 4] for at in range(0, len(_CODES), 4)))

#: The Script property of all code points (Unicode 17): lengths of runs as 7-bit varints, then the number of each run's
#: script in `SCRIPTS`; deflated, base 85.
_RUNS = (
    "c-pPh+jmq~836F_`}W>vpWB?dWHOUXGMOPACge5=laLz}5-3w5DVIiQXe$>}sijqWQ){ndrC=?k6|K@%3L^G`)Yhjie2QyneQ>!JPrUdb%RhiuAN"
    "AYkkdY|`UYy@L=gc{KpZ)F2x6e$@$_-&0RTc~QC()x69Y%?QB=UuSf{!$A2okR#eS}!X37oV#q~$5JFyP`Mx?T<+!|njrkr=K9Ye`fnj-7<)scy9"
    "u^E+jnauRJK%An>pB{}?G+9(MXwUa<gMrCC1n~Lv+K+S#7Nmro5k)m=%F8>#VaY??`{C~M!Q)b!~N`>vFTtbT*kz5&(1UD#rsmv2Hoo`h!emjc^G"
    "ObHZeCA$}tDUI8H4R2Z%DlvZeN!@mro#!!@iisdxN}IFD_9)Hwp<eal<Hh*f+}p|bCwjJHM%5=Td*X1u*6fYC9OQe6UvpSA7!0pIRwuRpL_XO(YT"
    "A_B%e1?QRJ-MWKmt^#a7|zjDxLSI_weod&#w2%S>I`+N1kb%`KoWeO^kxi<CDYbCxHl*h#bj^W<^e;NE+%Iz4L32@w}!*i-!^?1{3%)k^Zr)Nr~^"
    "84g$G!^Y@Wpf%j{fGlj`MRT6S7$y=&ct!b12PS*}?boSp?Jqv9bTqIDO#x;djm?U6%;6sYG7fR0?T#c{s@;~r`+4#Dac{CXoG8o`b`IgfhqyE{T|"
    "bAfJ7U}!zCh{y3w;O0yu=_r*fL?)Y~LzY5KA8B#Wr#!6>!`M$V~O7HkIWmVPX7!UMJ2f+EL-DI(MI+m8%bLyh?PatbL_&Xx7N2pL<o%n^;U#Xj<V"
    ">Eb$KUTpXl=2-_lYhtHjF;hJ#@x}V#;J&FJ1;H!s9j_6SRs*8IggT5WZT^y$*OLCPx>Y-;=oZq>26{G%V<YZjC&B8tmrY&B$0e;LiGUyZwwlmBTl"
    "<E|iQ<y6k+hm$5k{{W;+<6j`vs4$0#UAN9V?t-hZc%nhOJDDp9UqB}Xls@2T4j;9=@M`4K3*b9Se$N&Rd!z{SME$_oo%w@;3gNTUAxvAOxZooeoT"
    "8Q99kb{9(UEV)+*PMH|{aBgOuj9S3EiVm|KpnlCNY_{y|h-TWt4z9HVmgX3w=^EmNFz>CO&{%j`v5_t3nLyyrN#2)lUW`How&sX|`I7JELHnAF}b"
    "d!ajUEe8iNaPy+bJqTt^9|nX8<?sM4zOLlM;t>o;UhS*cu9Mg+^1Cozjo~}`;GfA~IEQOrO)bVQ+wQvs^;dau&D7_yi&7Vm6J|TQRu@@r&2@Qzt*"
    "YfyG4(k<pxUW@V5^+e$!QbJ(@uTtAEJaS_B|Clp@WfA>tr||c$!yDIh+B6fzrps;nbrlCLGNvc%`rQNAH-5D~w;VU&cU>mC4hXq;MkD`W5*2pa@L"
    "XE>R&lrSOvIyNvx3mw3rCHeKNe(j*%G1u4-xC%NVsNAgyqaIW3x8*N1w^RbSeFaOM)4BIdjTukz3Okr}Aj$8Pjjw^qs;^}TYK1hF<ieHsyTi%oZ^"
    "8Qv<=QketjFuLbj*i0I7sR1*qg*8qd9c`6NPf`?VDde91RkkF9d@%5QArmtA8u~-Z4BMQcW&XAxAE@H+zmJLwI)BgiPLQBmpapAaTQ!sEyL}#vDQ"
    "c7C3Xr<jY13jEOb|BUqdTwTlN;b1;2>gm4eh)V3`f}8y<M~0DCNNy6^_fRq}Hc#%KNyw-)6}rI9sB=$*?!E*j6Tj2j1#hmq@4`50$2EY5dvn5pu`"
    "+;Z_J@Coev5c1A)grCCq;bqn}4bv~c3sqQeEJ8N2_%^(K;JR4+M#a3>b^s1QHDrR$H8MC9C2u}Fo7yILwP8mSGwORG19!rm1Mofg06w??7huIJPr"
    "wuKI4c1GeFV*Z1KUH<AUgj?fqLp;co^0g&%(3wF#ltC@Bv_(pxF-(!hKAGejc8G2A=r=7~h6<#*6SG^n@h*J`|4W7`z5gLOZO4gfR=V@H$Jgufh?"
    "|(ar4Z4X?7nTYCRXeUtr~9c6pjKKMCX1Q9C2c{pEyX5R>X3df=KY5p=Cfj3!j%|fWZN#AwOF&}op#?Vf)jXwtV-H)LI?qCxz3=Zr!&ca!6*<`~O*"
    "aI>4T<GMXks4>j$r{v7!b#Y`W+LOPk(!5~yP*PyLvvAj^};gqah$s5x9~gm5PXZh6I#y6`x%Dh|G{|EZZduZ{{?!AY^4"
)

#: More than there are: bytes that are no UTF-8 decode to any number of 21 bits, and must find an entry too.
_POINTS = 1 << 21
_LATIN = SCRIPTS.index("Latn")
_COUNT = len(SCRIPTS)


class ScriptSignals(NamedTuple):
    """The script of most characters of each text: its index in `SCRIPTS`, and 0 if none has one.

    ``characters`` are those of that script, ``total`` those of any. Of scripts with equally many it is the one whose
    code comes first in the alphabet.
    """

    script: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    total: npt.NDArray[np.int64]


@cache
def script_numbers() -> npt.NDArray[np.uint8]:
    """The script of every code point, as its place in `SCRIPTS`.

    Examples:
        >>> [SCRIPTS[script_numbers()[ord(character)]] for character in "aя中 "]
        ['Latn', 'Cyrl', 'Hani', 'Zyyy']
    """
    packed = zlib.decompress(base64.b85decode(_RUNS))
    lengths: list[int] = []
    value = shift = at = 0
    while at + len(lengths) < len(packed):
        value |= (packed[at] & 0x7F) << shift
        shift += 7
        if packed[at] < 0x80:
            lengths.append(value)
            value = shift = 0
        at += 1
    numbers = np.zeros(_POINTS, np.uint8)
    known = np.repeat(np.frombuffer(packed[at:], np.uint8), lengths)
    numbers[: len(known)] = known
    numbers.flags.writeable = False
    return numbers


def script_of(character: str) -> str:
    """The code of a character's script.

    Examples:
        >>> script_of("ß")
        'Latn'
    """
    return SCRIPTS[int(script_numbers()[ord(character)])]


@njit(**INLINE)
def _point(data: Bytes, at: int, width: int) -> Scalar:
    """The code point of ``width`` bytes at ``at``, two or more."""
    point = np.int64(data[at]) & (0x7F >> width)
    for step in range(1, width):
        point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
    return point


@njit(**ALLOCATING)
def new_script_counts(most: int, numbers: Bytes) -> Ints:
    """Scratch for a count of each script."""
    return np.empty(_COUNT, np.int64)


@njit(**INLINE)
def measure_scripts(data: Bytes, span: tuple[int, int], numbers: Bytes, counts: Ints, out: Ints) -> None:
    """Find the script of one text, as in `ScriptSignals`."""
    at, stop = span
    counts[:] = 0
    latin = np.int64(0)
    while at < stop:
        lead = np.int64(data[at])
        if lead < 0x80:
            letter = lead | 0x20
            latin += (letter >= 97) & (letter <= 122)
            at += 1
            continue
        width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if at + width <= stop:
            counts[numbers[_point(data, at, width)]] += 1
        at += width
    counts[0] = 0
    counts[_LATIN] += latin
    script = total = np.int64(0)
    for number in range(_COUNT):
        total += counts[number]
        if counts[number] > counts[script]:
            script = np.int64(number)
    out[0], out[1], out[2] = script, counts[script], total


@signal(measure_scripts, columns(ScriptSignals), scratch=Scratch(new_script_counts))
def script_signals() -> Bytes:
    """Find the script of texts.

    Examples:
        >>> text = "Это по-русски, mostly.".encode()
        >>> signals = script_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> SCRIPTS[signals.script[0]], int(signals.characters[0]), int(signals.total[0])
        ('Cyrl', 11, 17)
    """
    return script_numbers()
