from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.text.declaration import Declaration, keys_of, sequence_keys, spelt

DECLARATION = Declaration()


def plain_sequences(text: str) -> list[str]:
    return [text[at : at + length] for length in range(1, 5) for at in range(len(text) - length + 1)]


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=40))
@settings(deadline=None)
def test_the_keys_of_a_text_are_those_of_all_its_sequences(text: str) -> None:
    assert keys_of(text).tolist() == sequence_keys(plain_sequences(text)).tolist()


def test_words_are_looked_up_in_small_letters_with_one_space_around_whatever_stands_between() -> None:
    assert spelt("K\u02bcanan, Q'EQCHI\u2019 \u2014 12:30!") == " k anan q eqchi "
    assert spelt("12:30") == "  "
    assert spelt("e\u0301") == spelt("\u00c9") == " \u00e9 "


def test_a_text_without_letters_is_like_no_profile() -> None:
    assert DECLARATION.closest("") is None
    assert DECLARATION.closest(" \n 12:30 ...") is None


def test_a_text_is_closest_to_the_profile_of_its_language_and_nearly_as_like_it_as_the_declaration() -> None:
    found = DECLARATION.closest("Yaykayqa llapa runakunapaqmi, manam pipas qarqusqachu kanman")
    assert found is not None
    assert found.language == "qu"
    assert 0.5 < found.likeness < 1.2
    assert 0 < found.lead < 1


def test_a_text_of_no_language_is_less_like_its_closest_profile_than_any_sentence() -> None:
    noise = DECLARATION.closest("xqzt wvkk jjpl qqrx zzvb kxqz wqpt")
    assert noise is None or noise.likeness < 0.5


def test_over_three_hundred_languages_have_profiles_by_the_codes_of_the_models() -> None:
    assert len(DECLARATION.languages) > 300
    assert {"en", "no", "tl", "qu", "ee", "se", "sc"} <= DECLARATION.languages
    assert not {"nb", "fil", "iw", "und"} & DECLARATION.languages
