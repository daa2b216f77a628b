"""Files that servers read: what Java makes of them, and who else may."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway

from hudilab.files import properties, read_properties, write_private

LINES = {
    "plain": "value",
    "home": "/home/o'brien, jürgen's/a b",
    "windows": "C:\\temp\\new",
    "jaas": 'x.Module required user="a" password="p=q:r#s!";',
    "blanks": "   three before, two after  ",
    "one blank": " ",
    "empty": "",
    "a key: with = all #! of them": "v",
    "#comment": "# no comment",
    "!other": "! no comment",
    "lines": "a\nb\r\nc\td\fe\0f",
    "astral": "🦆 and ü and € and \u2028",
    "ends in a backslash": "x\\",
    "ends in two": "x\\\\",
}


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
    [
        "a.b\t x y \nc=1\nd : 2\ne = k=v\nf\ng:h://i\n",
        " # a comment \\\n! one more\n\n \t\n a=1\r\nb=2\rc=3",
        "options = -Da=1 \\\n          -Db=2\nlist=a,\\\n  # no comment,\\\n\tb\nnext=1",
        "ends=\\\n\nwords=even \\\\\nlast=odd \\\\\\\n  on",
        "a\\ b\\:c\\=d e\\tf\\u00e9\\qg\nwide=\\uD83E\\uDD86 \u00fc\na=again",
        "no value=\n= no key\n:x\n  = y\nstops=\\",
        "form\ffeed=1\nseparator\u2028in=a\u2028b\u0085c",
    ],
)
def test_a_file_means_what_it_means_to_java(gateway: JavaGateway, text: str) -> None:
    read = gateway.jvm.java.util.Properties()
    read.load(gateway.jvm.java.io.StringReader(text))
    assert {key: read.getProperty(key) for key in read.stringPropertyNames()} == (
        read_properties(text)
    )


def test_utf_8_would_not_do(gateway: JavaGateway, tmp_path: Path) -> None:
    """Else the test above would show nothing."""
    file = tmp_path / "x.properties"
    file.write_text("home=jürgen\n", encoding="utf-8")
    read = gateway.jvm.java.util.Properties()
    stream = gateway.jvm.java.io.FileInputStream(str(file))
    read.load(stream)
    stream.close()
    assert read.getProperty("home") == "jÃ¼rgen"


def test_a_private_file_is_whole_and_for_its_user(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("before")
    file.chmod(0o644)
    write_private(file, "after")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("after", 0o600)
    assert list(tmp_path.iterdir()) == [file]
