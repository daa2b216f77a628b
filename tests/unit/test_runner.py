"""The page of an executed notebook stands alone."""

from __future__ import annotations

import re
from pathlib import Path

from hudilab.operations.runner import as_html

PROJECT = Path(__file__).resolve().parents[2]


def test_a_page_holds_the_diagrams_of_its_lesson() -> None:
    lesson = PROJECT / "notebooks" / "02_write_hudi_stream.ipynb"
    linked = set(re.findall(r"\]\(\.\./docs/diagrams/(\S+?)\)", lesson.read_text("utf-8")))
    assert len(linked) >= 2
    page = as_html(lesson, PROJECT)
    assert page.count('src="data:image/svg+xml;base64,') == len(linked)
    assert "docs/diagrams/" not in page
