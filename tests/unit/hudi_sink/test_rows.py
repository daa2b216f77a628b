"""Which texts of a key never leave Hudi's bucket index."""

from __future__ import annotations

import pytest
from cases import read_cases
from hypothesis import given
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway

from hudi_sink.rows import ENDLESS, ENDLESS_LAST

CASES = read_cases(__file__)


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
    CASES["texts"],
)
def test_texts_on_which_the_bucket_index_never_ends(
    gateway: JavaGateway, text: str, hangs: bool
) -> None:
    """As seen with Hudi 1.2.0."""
    assert ends(text, ("k",)) != hangs
    assert ("," in text and matches(gateway, ENDLESS, text)) == hangs


def matches(gateway: JavaGateway, pattern: str, text: str) -> bool:
    """As Spark's `rlike`: in Java, as Python before 3.11.5 gets possessive quantifiers wrong."""
    compiled = gateway.jvm.java.util.regex.Pattern.compile(pattern)
    return bool(compiled.matcher(text).find())


TEXTS = st.text(st.sampled_from("xy,: \n"), max_size=14)


@given(text=TEXTS)
def test_the_rule_is_hudis_own_loop(gateway: JavaGateway, text: str) -> None:
    assert ("," in text and matches(gateway, ENDLESS, text)) != ends(text, ("k",))


@given(first=TEXTS, last=TEXTS)
def test_so_is_that_of_the_last_of_several_columns(
    gateway: JavaGateway, first: str, last: str
) -> None:
    assert matches(gateway, ENDLESS_LAST, last) != ends(f"a:{first},b:{last}", ("a", "b"))
