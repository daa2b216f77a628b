"""Errors of the lab: each says what to do, and the page lists what the tests provoked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import errorindex
import errorpage
from errorindex import AREAS, LIB
from errorpage import Row

from hudilab import errors
from hudilab.errors import LabError

FILES = sorted(LIB.rglob("*.py"))
# Those of this module: the subclasses elsewhere depend on what other tests have imported.
KINDS = {
    kind.__name__
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, LabError)
}


def raised() -> list[tuple[str, str]]:
    """Each error that the library makes: where, and the part of its text that is written there."""
    found = []
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in KINDS:
                parts = [part for argument in node.args for part in ast.walk(argument)]
                words = [part.value for part in parts if isinstance(part, ast.Constant)]
                where = f"{file.relative_to(LIB)}:{node.lineno}"
                found.append((where, "".join(word for word in words if isinstance(word, str))))
    return found


def test_each_error_says_what_to_do() -> None:
    """Those whose remedy comes with a value are few; tests/conftest.py checks them as they come."""
    made = raised()
    assert len(made) > 200
    assert len([where for where, text in made if "; " not in text]) < 20
    assert [where for where, text in made if "\n" in text] == []


def test_an_error_that_a_test_provokes_is_one_line_with_a_remedy() -> None:
    index = errorindex.Errors.__new__(errorindex.Errors)
    fine, long, bare = ("paths.py", "a; b"), ("paths.py", "a;\nb; c"), ("paths.py", "a failed")
    index._raised = dict.fromkeys((fine, long, bare))
    assert index.unclear() == ["a;\nb; c", "a failed"]


NOW = "an_error_that_a_test_provokes_is_one_line_with_a_remedy"


def test_a_record_keeps_what_other_tests_provoked(tmp_path: Path) -> None:
    mine, record = Path(__file__).relative_to(errorindex.ROOT).as_posix(), tmp_path / "unit.json"
    other = Row("Paths", "no folder; make it", mine, NOW)
    again = Row("Paths", "no file; make it", mine, "each_error_says_what_to_do")
    gone = Row("Paths", "no moon; make it", mine, "a_test_that_nobody_wrote")
    errorpage.save(record, [*AREAS], [gone, again, other])
    index = errorindex.Errors.__new__(errorindex.Errors)
    index.ran, index.seen = {(mine, again.test)}, [again._replace(text="no disk; make it")]
    index.save(record)
    assert errorpage.load(record) == ([*AREAS], [*index.seen, other])
    assert list(tmp_path.iterdir()) == [record]


def test_the_page_has_each_error_once(tmp_path: Path) -> None:
    mine = Path(__file__).relative_to(errorindex.ROOT).as_posix()
    texts = ("a `b` | c; d", "no table 'x'; write to it", "no table 'y'; write to it")
    rows = [Row("Paths", text, mine, NOW) for text in texts]
    gone = Row("Paths", "no sun; wait", mine, "a_test_that_nobody_wrote")
    errorpage.save(tmp_path / "spark.json", [*AREAS], rows[:2])
    errorpage.save(tmp_path / "unit.json", [*AREAS], [*rows, rows[0]._replace(area="S3"), gone])
    page = errorpage.page(tmp_path)
    assert "lists\n3 of them" in page
    assert re.findall(r"(?m)^## (.*)$", page) == ["Paths", "S3"]
    link = f"[{NOW.replace('_', ' ')}]({mine})"
    assert f"| `` a `b` \\| c; d `` | {link} |\n| `no table 'x'; write to it` | {link} |" in page


def test_without_records_the_page_says_how_to_fill_it(tmp_path: Path) -> None:
    assert "run `make test`, then `make book`" in errorpage.page(tmp_path / "gone")


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
    kinds = "|".join(KINDS - {LabError.__name__})
    raising = {name for name, text in modules.items() if re.search(rf"raise ({kinds})\(", text)}
    assert len(raising) > 30
    assert {name for name in raising if not errorindex.area(name)} == set()
