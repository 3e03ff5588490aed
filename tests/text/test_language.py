from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    Filter,
    InlineExecutor,
    JsonlReader,
    Pipeline,
    PipelineError,
    ScoreFilter,
)
from dcurate.text import LanguageFilter, LanguageId, WordCountFilter
from dcurate.text.identifier import UNKNOWN, Identifier

IDENTIFIER = Identifier()

#: From the Universal Declaration of Human Rights.
DECLARATION = {
    "ar": ("Arab", "ولما كان من الضروري أن يتولى القانون حماية حقوق الإنسان"),
    "bn": ("Beng", "যেহেতু জাতিসমূহের মধ্যে বন্ধুত্বপূর্ণ সম্পর্ক উন্নয়নের প্রয়াস গ্রহণ করা অত্যাবশ্যক"),
    "bg": ("Cyrl", "Като взе предвид, че е необходимо да се насърчава развитието на приятелски отношения"),
    "cs": ("Latn", "že je nutné podporovat rozvoj přátelských vztahů mezi národy"),
    "cy": ("Latn", "Gan fod yn rhaid hyrwyddo cysylltiadau cyfeillgar rhwng Cenhedloedd"),
    "de": ("Latn", "da es notwendig ist, die Entwicklung freundschaftlicher Beziehungen zu fördern"),
    "el": ("Grek", "Επειδή έχει ουσιαστική σημασία να ενθαρρύνεται η ανάπτυξη φιλικών σχέσεων"),
    "en": ("Latn", "Whereas it is essential to promote the development of friendly relations between nations"),
    "es": ("Latn", "Considerando esencial que los derechos humanos sean protegidos por un régimen de Derecho"),
    "eu": ("Latn", "Kontuan izanik ezinbestekoa dela, baita ere, herrialdeen artean harreman lagunkoiak"),
    "fr": ("Latn", "Considérant qu’il est essentiel d’encourager le développement de relations amicales"),
    "he": ("Hebr", "הואיל והכרח חיוני הוא לקדם את התפתחותם של יחסי ידידות בין האומות"),
    "hi": ("Deva", "चूंकि मानव अधिकारों के प्रति उपेक्षा और घृणा के फलस्वरूप ही ऐसे बर्बर कार्य हुए"),
    "hu": ("Latn", "Tekintettel arra, hogy igen lényeges a nemzetek közötti baráti kapcsolatok"),
    "hy": ("Armn", "Միավորված ազգերը պարտավորություն է ստանձնել պահպանել, խրախուսել ու պաշտպանել"),
    "id": ("Latn", "Menimbang bahwa pembangunan hubungan persahabatan antara negara-negara perlu digalakkan"),
    "is": ("Latn", "Það er mikilsvert að efla vinsamleg samskipti þjóða í milli"),
    "ja": ("Jpan", "諸国間の友好関係の発展を促進することが肝要であるので、国際連合の諸国民は"),
    "ka": ("Geor", "ვინაიდან აუცილებელია ხელის შეწყობა ხალხათა შორის მეგობრულ ურთიერთობათა"),
    "ko": ("Hang", "국제연합의 모든 사람들은 그 헌장에서 기본적 인권, 인간의 존엄과 가치"),
    "pl": ("Latn", "ZWAŻYWSZY, że konieczne jest zawarowanie praw człowieka przepisami prawa"),
    "pt": ("Latn", "Considerando que é essencial encorajar o desenvolvimento de relações amistosas entre nações"),
    "ru": ("Cyrl", "принимая во внимание, что необходимо, чтобы права человека охранялись властью закона"),
    "ta": ("Taml", "கொடுங்கோன்மைக்கும், அடக்குமுறைக்கும் எதிரான இறுதி வழியாக எதிரெழுச்சி செய்வதற்கு"),
    "th": ("Thai", "โดยที่ประชากรแห่งสหประชาชาติได้ยืนยันไว้ในกฎบัตรถึงความเชื่อมั่น"),
    "tr": ("Latn", "Uluslararasında dostça ilişkiler geliştirilmesini teşvik etmenin esaslı bir zaruret"),
    "uk": ("Cyrl", "беручи до уваги, що необхідно сприяти розвиткові дружніх відносин між народами"),
    "vi": ("Latn", "Sự xâm phạm và coi thường nhân quyền đã dẫn đến những hành động tàn bạo"),
    "zh": ("Hani", "因此现在大会发布这一世界人权宣言作为所有人民和所有国家努力实现的共同标准"),
    "zu": ("Latn", "Ngokunjalo kudingekile ukuba kwenyuswe ukuthuthukiswa kobungane nobudlelwane phakathi"),
}


def batch(*documents: str | None) -> DocumentBatch:
    return DocumentBatch(key=BatchKey("s"), data=pa.table({"text": pa.array(documents, pa.string())}))


def identified(*documents: str | None, stage: LanguageId | None = None) -> list[dict[str, object]]:
    stage = stage or LanguageId()
    stage.setup()
    return stage.process(batch(*documents)).to_arrow().drop_columns("text").to_pylist()


def test_thirty_languages_in_their_scripts_are_distinguished() -> None:
    rows = identified(*(text for _, text in DECLARATION.values()))
    found = {code: (row["language"], row["script"]) for code, row in zip(DECLARATION, rows, strict=True)}
    assert found == {code: (code, script) for code, (script, _) in DECLARATION.items()}
    assert min(row["language_score"] for row in rows) > 0.3  # type: ignore[operator, type-var]


@pytest.mark.parametrize(
    ("text", "language"),
    [("ꆈꌠꉙ ꊿꂷꃅꄿꐨꐥ", "ii"), ("ߒߞߏ ߞߊ߲߫", "nqo"), ("ⲁⲛⲟⲕ ⲡⲉ ⲡⲟⲉⲓⲕ", "cop"), ("ᱥᱟᱱᱛᱟᱲᱤ", "sat")],
)
def test_a_script_that_only_one_language_is_written_in_tells_it(text: str, language: str) -> None:
    assert IDENTIFIER.identify(text) == (language, 1.0)
    assert language in IDENTIFIER.languages


@pytest.mark.parametrize("text", ["", " \n", "12:30 – 99 %", "🙂🙂", "\x00\x1f", "...", "\ud800"])
def test_a_text_without_letters_is_in_no_known_language(text: str) -> None:
    assert IDENTIFIER.identify(text) == UNKNOWN == ("und", 0.0)


@pytest.mark.parametrize("text", ["xqzt wvkk jjpl qqrx zzvb", "hm", "Qorqyn vexyl thrumba skivvet"])
def test_letters_that_no_model_is_sure_of_are_in_no_known_language(text: str) -> None:
    assert IDENTIFIER.identify(text).language == "und"


@given(st.one_of(st.text(), st.text(st.characters(categories=["Cc", "Cs", "Cn", "Co", "Cf", "Lo"]))))
@settings(max_examples=200, deadline=None)
def test_any_text_has_a_language_or_none_and_a_score_between_0_and_1(text: str) -> None:
    language, score = IDENTIFIER.identify(text)
    assert language == "und" or language in IDENTIFIER.languages
    assert 0 <= score <= 1
    assert (score == 0) == (language == "und")


def test_capitals_and_control_characters_hide_no_language() -> None:
    assert IDENTIFIER.identify(DECLARATION["en"][1].upper()).language == "en"
    assert IDENTIFIER.identify("\x00\x07\ufdd0\ud800 " + DECLARATION["zu"][1]).language == "zu"


@pytest.mark.parametrize("code", ["de", "eu", "th", "vi", "zu"])
def test_addresses_and_tags_around_a_text_hide_no_language(code: str) -> None:
    address = "https://www.example.com/2021/03/news/index.html?id=4711&ref=top someone@mail.example.com"
    page = f'<div class="content main"><a href="{address}">{DECLARATION[code][1]}</a></div> {address}'
    assert IDENTIFIER.identify(page).language == code


@pytest.mark.parametrize(
    ("text", "language"),
    [
        # Genesis 1:1, and greetings: no part of the declaration
        ("Callari punchacunapimi Taita Diosca jahua pachata, cai pachatapish rurarca", "qu"),
        ("In su printzìpiu Deus at creadu su chelu e sa terra, e sa terra fiat bòida", "sc"),
        ("Gɔmedzedzea me la, Mawu wɔ dziƒo kple anyigba, eye anyigba la nɔ gbɔlo", "ee"),
        ("Álgus sivdnidii Ipmil almmi ja eatnama, ja eanan lei ávdin ja guorus", "se"),
    ],
)
def test_a_language_that_no_model_knows_well_is_identified_by_its_profile(text: str, language: str) -> None:
    found = IDENTIFIER.identify(text)
    assert found.language == language
    assert 0.5 < found.score <= 1


def test_what_comes_after_the_first_characters_is_not_looked_at() -> None:
    text = DECLARATION["en"][1] + " " + DECLARATION["ru"][1] * 9
    assert Identifier(max_chars=80).identify(text).language == "en"
    assert Identifier().identify(text).language == "ru"


def test_every_language_has_a_code_of_two_or_three_letters_and_there_are_over_400() -> None:
    assert len(IDENTIFIER.languages) > 400
    assert all(code.isascii() and code.islower() and len(code) in (2, 3) for code in IDENTIFIER.languages)
    assert not {"iw", "jw", "bh", "sh", "als", "un", "und", "zzp"} & IDENTIFIER.languages


def test_a_null_is_in_no_known_language_nor_script() -> None:
    assert identified(None) == [{"language": "und", "language_score": 0.0, "script": "Zyyy"}]


def test_no_rows_have_no_languages() -> None:
    stage = LanguageId(paragraphs_field="languages")
    stage.setup()
    assert stage.process(batch()).to_arrow().column_names == [
        "text",
        "language",
        "language_score",
        "script",
        "languages",
    ]


def test_paragraphs_each_have_a_language() -> None:
    text = "\n\n".join([DECLARATION["de"][1], "", "7", DECLARATION["ja"][1]])
    stage = LanguageId(script_field=None, paragraphs_field="each")
    (row,) = identified(text, stage=stage)
    assert row["each"] == ["de", "und", "und", "ja"]
    assert "script" not in row


def test_a_row_has_the_same_language_whatever_rows_are_beside_it() -> None:
    texts = [text for _, text in DECLARATION.values()]
    assert identified(*texts[::-1])[::-1] == identified(*texts) == [identified(text)[0] for text in texts]


def test_settings_that_cannot_be_are_refused_with_what_came() -> None:
    with pytest.raises(PipelineError, match="max_chars=0 must be at least 1"):
        LanguageId(max_chars=0)
    with pytest.raises(PipelineError, match="must have different names"):
        LanguageId(script_field="language")
    with pytest.raises(PipelineError, match="language: 'English' is not a language code"):
        LanguageFilter(["de", "English"])
    with pytest.raises(PipelineError, match="language: 'eng' is written as 'en' here"):
        LanguageFilter(["de", "eng"])
    for name, code in (("chinese", "zh"), ("English", "en"), ("jpn", "ja")):
        with pytest.raises(PipelineError, match=f"WordCountFilter: language='{name}' is written as '{code}' here"):
            WordCountFilter(language=name)
    with pytest.raises(PipelineError, match="language: no languages"):
        LanguageFilter([])
    with pytest.raises(PipelineError, match="max_chars=-1 must be at least 1"):
        LanguageFilter(max_chars=-1)
    with pytest.raises(DataError, match="language: 0.9 is not a score"):
        LanguageFilter().keep_document(0.9)


def test_a_filter_keeps_the_languages_wanted_if_that_is_sure_enough() -> None:
    texts = [DECLARATION["en"][1], DECLARATION["fr"][1], "12:30"]
    kept = ScoreFilter(LanguageFilter("en"), score_field="lang").process(batch(*texts))
    assert kept.to_arrow()["text"].to_pylist() == texts[:1]
    assert kept.rejections[0].reason == "language"
    assert kept.to_arrow()["lang"][0].as_py()["language"] == "en"
    assert ScoreFilter(LanguageFilter()).process(batch(*texts)).num_items == 2
    assert ScoreFilter(LanguageFilter(["en", "fr"]), invert=True).process(batch(*texts)).num_items == 1
    assert ScoreFilter(LanguageFilter(min_score=1)).process(batch(*texts)).num_items == 0


def test_scores_that_were_kept_can_be_filtered_again_without_the_text() -> None:
    texts = [DECLARATION["en"][1], DECLARATION["fr"][1], "12:30"]
    scored = ScoreFilter(LanguageFilter(min_score=0), score_field="lang").process(batch(*texts))
    again = Filter(LanguageFilter(["fr"], min_score=0.5), "lang").process(scored)
    assert again.to_arrow()["text"].to_pylist() == texts[1:2]


def test_documents_scored_together_have_the_scores_that_they_have_alone() -> None:
    texts = [*(text for _, text in DECLARATION.values()), "", "7"]
    rule = LanguageFilter()
    assert rule.score_documents(texts) == [rule.score_document(text) for text in texts]


def test_a_filter_travels_without_its_models() -> None:
    rule = LanguageFilter(["en"])
    rule.score_document("one")
    assert len(pickle.dumps(rule)) < 300
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert not rule.cheap_setup


def test_a_pipeline_adds_languages_and_keeps_some(tmp_path: object) -> None:
    rows = pa.table({"text": [text for _, text in DECLARATION.values()]})
    source = f"{tmp_path}/in.jsonl"
    rows.to_pandas().to_json(source, orient="records", lines=True, force_ascii=False)
    pipeline = Pipeline("languages", stages=[JsonlReader(source), LanguageId(), ScoreFilter(LanguageFilter(["th"]))])
    (found,) = pipeline.run(executor=InlineExecutor())
    assert found.to_arrow().select(["language", "script"]).to_pylist() == [{"language": "th", "script": "Thai"}]  # type: ignore[attr-defined]
