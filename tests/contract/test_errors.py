"""docs/errors.md: what it lists is provoked by a test that is there, and says what to do."""

from __future__ import annotations

import re

import errorindex
from errorindex import AREAS, LIB, PAGE, ROOT, Row

from hudilab.errors import LabError

FILES = sorted(LIB.rglob("*.py"))
ROWS = errorindex.rows_of(PAGE.read_text("utf-8"))


def test_the_page_lists_errors_of_most_areas() -> None:
    assert f"lists\n{len(ROWS)} of them" in PAGE.read_text("utf-8")
    assert len(ROWS) > 250
    areas = {row.area for row in ROWS}
    assert areas <= set(AREAS)
    assert len(areas) > 14


def test_each_error_says_what_to_do() -> None:
    assert [row.text for row in ROWS if "; " not in row.text] == []


def test_the_tests_are_there() -> None:
    sources = {row.file: (ROOT / row.file).read_text("utf-8") for row in ROWS}
    gone = {row.test for row in ROWS if f"def test_{row.test}(" not in sources[row.file]}
    assert gone == set()


def test_a_row_is_read_as_it_was_written() -> None:
    texts = ("a `b` | c; d", "no table; write to it", "'x' is wrong; fix it")
    rows = [Row("Paths", text, "tests/unit/test_paths.py", "a_name") for text in texts]
    assert errorindex.rows_of("\n## Paths\n" + "\n".join(map(str, rows))) == rows


def test_errors_that_differ_in_values_are_one() -> None:
    one, two = (
        Row("Paths", f"stream={name!r} is no name in /data/{size}; use letters", "f", "t")
        for name, size in (("a b", 1), ("c", 20))
    )
    assert one.key == two.key
    assert one.key != Row("Paths", "a folder is no name; use letters", "f", "t").key


def test_a_module_belongs_to_the_first_area_that_fits() -> None:
    assert errorindex.area("operations/servers/cluster.py") == "Cluster, submit and jobs"
    assert errorindex.area("operations/servers/kafka.py") == "Servers"
    assert errorindex.area("moon.py") == ""


def test_each_module_that_raises_errors_has_an_area() -> None:
    modules = {file.relative_to(LIB).as_posix(): file.read_text("utf-8") for file in FILES}
    kinds = "|".join(kind.__name__ for kind in LabError.__subclasses__())
    raising = {name for name, text in modules.items() if re.search(rf"raise ({kinds})\(", text)}
    assert len(raising) > 30
    assert {name for name in raising if not errorindex.area(name)} == set()
