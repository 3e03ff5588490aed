"""Commands of LaTeX for the characters of formulas."""

from __future__ import annotations

_GREEK = (
    "α alpha β beta γ gamma δ delta ϵ epsilon ε varepsilon ζ zeta η eta θ theta ϑ vartheta ι iota "
    "κ kappa λ lambda μ mu ν nu ξ xi π pi ϖ varpi ρ rho ϱ varrho σ sigma ς varsigma τ tau υ upsilon "
    "ϕ phi φ varphi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Υ Upsilon "
    "Φ Phi Ψ Psi Ω Omega µ mu"
)
_SIGNS = (
    "∑ sum ∏ prod ∐ coprod ∫ int ∬ iint ∭ iiint ∮ oint ⋃ bigcup ⋂ bigcap ⨁ bigoplus ⨂ bigotimes "
    "⋁ bigvee ⋀ bigwedge ⨆ bigsqcup ± pm ∓ mp × times ÷ div ⋅ cdot · cdot ∗ ast ⋆ star ∘ circ "
    "∙ bullet • bullet ⊕ oplus ⊖ ominus ⊗ otimes ⊘ oslash ⊙ odot ∧ wedge ∨ vee ∩ cap ∪ cup ⊎ uplus "
    "⊓ sqcap ⊔ sqcup † dagger ‡ ddagger ≤ leq ≥ geq ≪ ll ≫ gg ≺ prec ≻ succ ⪯ preceq ⪰ succeq ≠ neq "
    "≡ equiv ∼ sim ≃ simeq ≈ approx ≅ cong ∝ propto ≐ doteq ≍ asymp ∈ in ∉ notin ∋ ni ⊂ subset "
    "⊃ supset ⊆ subseteq ⊇ supseteq ⊊ subsetneq ⊑ sqsubseteq ⊒ sqsupseteq ∣ mid ∥ parallel ⟂ perp "
    "⊥ bot ⊤ top ⊢ vdash ⊣ dashv ⊨ models ← leftarrow → to ↔ leftrightarrow ↑ uparrow ↓ downarrow "
    "⇐ Leftarrow ⇒ Rightarrow ⇔ Leftrightarrow ⟸ Longleftarrow ⟹ implies ⟺ iff ⟵ longleftarrow "
    "⟶ longrightarrow ↦ mapsto ⟼ longmapsto ↪ hookrightarrow ↗ nearrow ↘ searrow ⇌ rightleftharpoons "
    "∞ infty ∂ partial ∇ nabla ∀ forall ∃ exists ∄ nexists ∅ emptyset ¬ neg ′ prime ∠ angle "
    "△ triangle □ square ℏ hbar ℓ ell ℜ Re ℑ Im ℵ aleph ℘ wp … ldots ⋯ cdots ⋮ vdots ⋱ ddots "
    "⟨ langle ⟩ rangle ⌈ lceil ⌉ rceil ⌊ lfloor ⌋ rfloor ‖ | ∖ setminus √ surd ∴ therefore ∵ because "
    "≔ coloneqq ⊲ triangleleft ⊳ triangleright ⋈ bowtie ⌢ frown ⌣ smile ⏟ underbrace ⏞ overbrace "
    "≜ triangleq ≲ lesssim ≳ gtrsim ⩽ leqslant ⩾ geqslant ▽ triangledown ∁ complement"
)
_BLACKBOARD = "ℂCℍHℕNℙPℚQℝRℤZ𝔸A𝔹B𝔻D𝔼E𝔽F𝔾G𝕀I𝕁J𝕂K𝕃L𝕄M𝕆O𝕊S𝕋T𝕌U𝕍V𝕎W𝕏X𝕐Y𝟙1"
_SCRIPT = "𝒜AℬB𝒞C𝒟DℰEℱF𝒢GℋHℐI𝒥J𝒦KℒLℳM𝒩N𝒪O𝒫P𝒬QℛR𝒮S𝒯T𝒰U𝒱V𝒲W𝒳X𝒴Y𝒵Z"
_FRAKTUR = "𝔄A𝔅BℭC𝔇D𝔈E𝔉F𝔊GℌH𝔍J𝔎K𝔏L𝔐M𝔑N𝔒O𝔓P𝔔Q𝔖S𝔗T𝔘U𝔙V𝔚W𝔛X𝔜YℨZ𝔞a𝔟b𝔠c𝔡d𝔢e𝔣f𝔤g𝔥h𝔦i𝔧j𝔨k𝔩l𝔪m𝔫n𝔬o𝔭p𝔮q𝔯r𝔰s𝔱t𝔲u𝔳v𝔴w𝔵x𝔶y𝔷z"


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return {sign: f"\\{name}" for sign, name in zip(words[::2], words[1::2], strict=True)}


def _letters(table: str, command: str) -> dict[str, str]:
    return {sign: f"\\{command}{{{letter}}}" for sign, letter in zip(table[::2], table[1::2], strict=True)}


def _bold() -> dict[str, str]:
    upper = {chr(0x1D400 + at): chr(ord("A") + at) for at in range(26)}
    lower = {chr(0x1D41A + at): chr(ord("a") + at) for at in range(26)}
    digits = {chr(0x1D7CE + at): str(at) for at in range(10)}
    return {sign: f"\\mathbf{{{letter}}}" for sign, letter in {**upper, **lower, **digits}.items()}


def _italic() -> dict[str, str]:
    upper = {chr(0x1D434 + at): chr(ord("A") + at) for at in range(26)}
    return {**upper, **{chr(0x1D44E + at): chr(ord("a") + at) for at in range(26)}, "ℎ": "h"}


#: Commands of characters, or the ASCII character that looks alike; empty for invisible ones.
SYMBOLS: dict[str, str] = {
    **_pairs(_GREEK),
    **_pairs(_SIGNS),
    **_letters(_BLACKBOARD, "mathbb"),
    **_letters(_SCRIPT, "mathcal"),
    **_letters(_FRAKTUR, "mathfrak"),
    **_bold(),
    **_italic(),
    "\u2212": "-",
    "\u2061": "",
    "\u2062": "",
    "\u2063": "",
    "\u2064": "",
    "\u200b": "",
    "\u00a0": "\\ ",
    "\u2003": "\\quad",
    "\u2002": "\\ ",
    "\u2009": "\\,",
    "\u2005": "\\:",
    "\u2004": "\\;",
    "\u2032": "'",
    "\u2033": "''",
    "\u2223": "|",
}
#: Commands of accents above a base, by the value of the accent in `SYMBOLS`.
ACCENTS: dict[str, str] = {
    "^": "hat",
    "\u02c6": "hat",
    "\u0302": "hat",
    "~": "tilde",
    "\u02dc": "tilde",
    "\u0303": "tilde",
    "\\sim": "tilde",
    "\u00af": "bar",
    "\u203e": "overline",
    "_": "overline",
    "\u0304": "bar",
    "\u0305": "overline",
    "\u2015": "overline",
    "\\to": "vec",
    "\u20d7": "vec",
    "\u02d9": "dot",
    "\u0307": "dot",
    ".": "dot",
    "\u00a8": "ddot",
    "\u0308": "ddot",
    "\u02c7": "check",
    "\u030c": "check",
    "\u02d8": "breve",
    "\u02ca": "acute",
    "\u00b4": "acute",
    "\u02cb": "grave",
    "`": "grave",
    "\\overbrace": "overbrace",
}
#: Names of functions that are commands of LaTeX.
FUNCTIONS = frozenset(
    (
        "arccos",
        "arcsin",
        "arctan",
        "arg",
        "cos",
        "cosh",
        "cot",
        "coth",
        "csc",
        "deg",
        "det",
        "dim",
        "exp",
        "gcd",
        "hom",
        "inf",
    )
) | frozenset(
    (
        "ker",
        "lg",
        "lim",
        "liminf",
        "limsup",
        "ln",
        "log",
        "max",
        "min",
        "Pr",
        "sec",
        "sin",
        "sinh",
        "sup",
        "tan",
        "tanh",
    )
)
