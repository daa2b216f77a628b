"""Which texts of a key never leave Hudi's bucket index."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_sink.rows import ENDLESS, ENDLESS_LAST


def ends(key: str, columns: tuple[str, ...]) -> bool:
    """Whether Hudi 1.2 ends: `KeyGenUtils.extractRecordKeysByFields`, step by step."""
    if "," not in key or ":" not in key:
        return True
    start = 0
    while start < len(key):
        colon = key.index(":", start)
        known, following = key[start:colon] in columns, key.find(":", colon + 1)
        if following < 0:
            return True
        comma, seen = key.rfind(",", 0, following + 1), set()
        while comma < colon:
            if known and following < 0:
                return True
            following = key.find(":", following + 1)
            comma = key.rfind(",", 0, following + 1) if following >= 0 else -1
            if (following, comma) in seen:
                return False
            seen.add((following, comma))
        start = comma + 1
    return True


@pytest.mark.parametrize(
    ("text", "hangs"),
    [
        ("Meeting 10:30", False),
        ("Meeting, 10:30", False),
        ("Meeting, 10:30:00", True),
        ("10:30:00, Meeting", True),
        ("http://x:80/a,b", True),
        ("a,b:c", False),
        ("k:v,w", False),
    ],
)
def test_texts_on_which_the_bucket_index_never_ends(text: str, hangs: bool) -> None:
    """As seen with Hudi 1.2.0."""
    assert ends(text, ("k",)) != hangs
    assert bool("," in text and re.match(ENDLESS, text)) == hangs


TEXTS = st.text(st.sampled_from("xy,: \n"), max_size=14)


@given(TEXTS)
def test_the_rule_is_hudis_own_loop(text: str) -> None:
    assert bool("," in text and re.match(ENDLESS, text)) != ends(text, ("k",))


@given(TEXTS, TEXTS)
def test_so_is_that_of_the_last_of_several_columns(first: str, last: str) -> None:
    assert bool(re.match(ENDLESS_LAST, last)) != ends(f"a:{first},b:{last}", ("a", "b"))
