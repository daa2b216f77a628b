"""Files that servers read: what Java makes of them, and who else may."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import read_cases
from py4j.java_gateway import JavaGateway

from hudilab.files import properties, read_properties, write_private

CASES = read_cases(__file__)

LINES = CASES["lines"]


def test_java_reads_what_was_meant(gateway: JavaGateway, tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    write_private(file, properties(LINES))
    assert file.read_bytes().isascii()
    read = gateway.jvm.java.util.Properties()
    stream = gateway.jvm.java.io.FileInputStream(str(file))
    read.load(stream)
    stream.close()
    assert {key: read.getProperty(key) for key in read.stringPropertyNames()} == LINES


def test_a_file_reads_back_as_it_was_written() -> None:
    assert read_properties(properties(LINES)) == LINES


@pytest.mark.parametrize(
    "text",
    CASES["texts"],
)
def test_a_file_means_what_it_means_to_java(gateway: JavaGateway, text: str) -> None:
    read = gateway.jvm.java.util.Properties()
    read.load(gateway.jvm.java.io.StringReader(text))
    assert {key: read.getProperty(key) for key in read.stringPropertyNames()} == (
        read_properties(text)
    )
