"""A CSV file's first line is the header that the group describes, or the file is refused."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pytest

from hudilab_jobs.pipelines.csv_text import Dialect, Form
from hudilab_jobs.pipelines.files import first_bytes, folder_columns
from hudilab_jobs.pipelines.text_values import Texts

COLUMNS = ("id", "Größe", "seen")
OTHER = [
    ({}, "id,Größe,seen\n1,x,y\n", None),
    ({}, "\ufeffID,größe,Seen\r\n", None),
    ({}, '"id","Größe","seen"', None),
    ({}, "\n \nid,Größe,seen", None),
    ({}, "", None),
    ({"comment": "#"}, "# by hand\nid,Größe,seen", None),
    ({"sep": r"\t"}, "id\tGröße\tseen", None),
    ({"delimiter": "||"}, "id||Größe||seen", None),
    ({"quote": "'"}, "'id','Größe','seen'", None),
    ({"ignoreleadingwhitespace": "true"}, "id, Größe, seen", None),
    ({"header": "false"}, "1,x,y", None),
    ({"header": "false"}, "id,Größe,seen", "its first line is a header"),
    ({}, "SEEN,id,Größe", None),
    ({"header": "false"}, "seen,id,Größe", "its first line is a header"),
    ({}, "id,seen", "its header lacks Größe"),
    ({}, "id,Größe,seen,x", "its header also has x"),
    ({}, "id,Größe,seen,seen", "its header has a column twice"),
    ({}, "1,x,2026-01-01", "its first line is not the header id, Größe, seen"),
    ({}, "id;Größe;seen", "its first line is not the header"),
]


@pytest.mark.parametrize(("options", "text", "problem"), OTHER)
def test_a_header_has_the_columns(options: dict[str, str], text: str, problem: str | None) -> None:
    problems = Dialect(Texts(options)).header_problem(text.encode(), COLUMNS)
    assert problems is None if problem is None else problems and problems[0].startswith(problem)


LINES = {"multiline": "true"}
FORMS = [
    ({}, "id,Größe,seen\r\n1,x,y\r\n", Form()),
    ({}, "", Form()),
    ({}, "\ufeff seen,ID,größe\n", Form()),
    ({"ignoreleadingwhitespace": "true"}, "\ufeff seen,ID,größe\n", Form((1, 2, 0))),
    ({"header": "false"}, "1,x,y\n", Form()),
    (LINES, "id,Größe,seen\r\n1,x,y\n", Form((), "\r\n")),
    (LINES, "seen,id,Größe\r1,x,y", Form((1, 2, 0), "\r")),
    (LINES, "id,Größe,seen", Form()),
    (LINES | {"header": "false"}, '1,"x\r\n""y""",z\n', Form((), "\n")),
    (LINES | {"header": "false", "escape": "\\"}, '1,"x\\"\r\ny",z\n', Form((), "\n")),
    (LINES | {"linesep": "\r"}, "id,Größe,seen\n", Form()),
]


@pytest.mark.parametrize(("options", "text", "form"), FORMS)
def test_the_first_line_names_the_form(options: dict[str, str], text: str, form: Form) -> None:
    dialect = Dialect(Texts(options))
    if dialect.header_problem(text.encode(), COLUMNS) is None:
        assert dialect.form(text.encode(), COLUMNS) == form


def test_a_byte_order_mark_names_the_encoding() -> None:
    start = "id,Größe,seen\n".encode("utf-16")
    problems = Dialect(Texts({})).header_problem(start, COLUMNS)
    assert problems == ("it is UTF-16", "write encoding=UTF-16 into source.options")
    assert Dialect(Texts({"encoding": "UTF-16"})).header_problem(start, COLUMNS) is None


@pytest.mark.parametrize(
    ("name", "pack"), [("a", bytes), ("a.gz", gzip.compress), ("a.bz2", bz2.compress)]
)
def test_a_packed_file_is_unpacked(tmp_path: Path, name: str, pack: Any) -> None:
    file = tmp_path / name
    file.write_bytes(pack(b"id\n" * 100_000))
    nothing: Any = None
    assert first_bytes(nothing, f"file://{file}").startswith(b"id\nid\n")
    assert first_bytes(nothing, f"file://{file}.gone") == b""


def test_folders_name_columns() -> None:
    paths = ["a=1/b=x=y/f", "a=1/c/f=2", "f", "=1/f"]
    assert [set(names) for _, names in folder_columns(paths)] == [{"a", "b"}, {"a"}, set(), set()]
