"""A browser for the pages of the book."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import MISSING, find_chromium, launched
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not find_chromium():
        pytest.skip(MISSING)
    with launched() as browser:
        yield browser
