"""A CSV file's first line is the header that the group describes, or the file is refused."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases

from hudilab_jobs.pipelines.csv_text import Dialect, Form
from hudilab_jobs.pipelines.files import first_bytes, folder_columns
from hudilab_jobs.pipelines.text_values import Texts

CASES = read_cases(__file__)
COLUMNS = ("id", "Größe", "seen")


@pytest.mark.parametrize(("options", "text", "problem"), CASES["headers"])
def test_a_header_has_the_columns(options: dict[str, str], text: str, problem: str | None) -> None:
    problems = Dialect(Texts(options)).header_problem(text.encode(), COLUMNS)
    assert problems is None if problem is None else problems and problems[0].startswith(problem)


@pytest.mark.parametrize(("options", "text", "order", "line_end"), CASES["forms"])
def test_the_first_line_names_the_form(
    options: dict[str, str], text: str, order: list[int], line_end: str
) -> None:
    dialect = Dialect(Texts(options))
    assert dialect.header_problem(text.encode(), COLUMNS) is None
    assert dialect.form(text.encode(), COLUMNS) == Form(tuple(order), line_end)


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
