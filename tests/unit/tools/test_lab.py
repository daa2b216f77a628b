"""`make lab`: copies for the reader, the checkout stays as it is."""

from __future__ import annotations

import ast
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from lab import NOTES, main, update
from may_open import refusal, unusable
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from hudilab.errors import PathError

ROOT = Path(__file__).resolve().parents[3]


def book(text: str, *code: NotebookNode) -> str:
    """A notebook of one text, and of cells of code."""
    nb = new_notebook(cells=[new_markdown_cell(text, id="text"), *code])
    return str(nbformat.writes(nb)) + "\n"


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    folder = tmp_path / "lessons"
    folder.mkdir()
    for name in ("00_a.ipynb", "01_b.ipynb", "_template.ipynb"):
        (folder / name).write_text(book(f"{name}, first edition"))
    return folder


@pytest.fixture
def copies(lessons: Path, tmp_path: Path) -> Path:
    """Copies of the first edition."""
    folder = tmp_path / "home" / "notebooks"
    lines = list(update(lessons, folder))
    assert lines == [f"2 lessons copied to {folder}"]
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != NOTES}


def test_copies_are_the_lessons(lessons: Path, copies: Path) -> None:
    expected = {name: text for name, text in texts(lessons).items() if name[0] != "_"}
    assert texts(copies) == expected
    assert list(update(lessons, copies)) == []


def test_pictures_are_beside_the_copies(lessons: Path, copies: Path) -> None:
    (lessons / "images" / "words").mkdir(parents=True)
    for name in ("flow", "words/log"):
        (lessons / "images" / f"{name}.png").write_text(f"{name}, first edition")
    assert list(update(lessons, copies)) == []
    (lessons / "images" / "flow.png").write_text("flow, second edition")
    assert list(update(lessons, copies)) == []
    assert (copies / "images" / "flow.png").read_text() == "flow, second edition"
    assert (copies / "images" / "words" / "log.png").read_text() == "words/log, first edition"


def test_links_lead_to_copies_of_the_manuals(lessons: Path, copies: Path) -> None:
    for name in ("docs", "benchmarks"):
        (lessons.parent / name).mkdir()
        (lessons.parent / name / "README.md").write_text(f"{name}, first edition")
    (lessons.parent / "docs" / "work.md").write_text(
        "[00](../notebooks/00_a.ipynb), [tests](../tests/a.py) and [all](../README.md),\n"
        "[figures](../benchmarks/README.md), ![](../notebooks/images/a.png)\n"
    )
    text = "[Take it to work](../docs/work.md#here), [defaults](../conf/hudi.conf)"
    (lessons / "00_a.ipynb").write_text(book(text))
    list(update(lessons, copies))
    copy = nbformat.read(copies / "00_a.ipynb", as_version=4)
    assert copy.cells[0].source == "[Take it to work](docs/work.md#here), defaults"
    assert (copies / "docs" / "work.md").read_text().splitlines() == [
        "[00](../00_a.ipynb), tests and all,",
        "[figures](../benchmarks/README.md), ![](../images/a.png)",
    ]
    assert (copies / "benchmarks" / "README.md").read_text() == "benchmarks, first edition"


def test_a_copy_has_not_run_and_gives_no_answer_away(lessons: Path, copies: Path) -> None:
    def cell(tag: str) -> NotebookNode:
        outputs = [new_output("stream", text="right: 2")]
        tags = {"tags": [tag, "keep_output"]}
        given = {"id": tag, "metadata": tags, "outputs": outputs, "execution_count": 1}
        made: NotebookNode = new_code_cell("a = 2", **given)
        return made

    marked = [cell(tag) for tag in ("fact", "exercise", "check", "proof", "solution")]
    marked[-1].source = "# The exercise\na = 2"
    (lessons / "00_a.ipynb").write_text(book("An exercise", *marked))
    list(update(lessons, copies))
    cells = nbformat.read(copies / "00_a.ipynb", as_version=4).cells[1:]
    *code, solution = cells
    assert [bool(cell_copy.outputs) for cell_copy in code] == [False] * 4
    assert [cell_copy.execution_count for cell_copy in code] == [None] * 4
    assert [cell_copy.source for cell_copy in code] == [
        *["a = 2"] * 2,
        "# Run this cell to check your answer\na = 2",
        '# Proof of this section\na = 2\nprint("✓ proved")',
    ]
    assert solution.cell_type == "markdown"
    assert solution.source == (
        "<details><summary>The exercise</summary>\n\n```python\na = 2\n```\n\n</details>"
    )


def test_a_reader_s_copy_is_never_overwritten(lessons: Path, copies: Path) -> None:
    (copies / "00_a.ipynb").write_text("mine")
    assert list(update(lessons, copies)) == []
    for edition in ("second edition", "third edition"):
        (lessons / "00_a.ipynb").write_text(book(edition))
        lines = list(update(lessons, copies))
        command = f"rm '{copies}/00_a.ipynb'"
        assert lines == [
            f"{copies}/00_a.ipynb: your changed copy is kept; to get the new lesson: {command}"
        ]
        assert texts(copies)["00_a.ipynb"] == "mine"
    subprocess.run(command, shell=True, check=True)
    assert list(update(lessons, copies)) == [f"1 lesson copied to {copies}"]
    assert texts(copies)["00_a.ipynb"] == book("third edition")


@pytest.mark.parametrize("spoilt", [None, "{", "7"])
def test_without_notes_a_copy_that_differs_is_the_reader_s(
    lessons: Path, copies: Path, spoilt: str | None
) -> None:
    if spoilt is None:
        (copies / NOTES).unlink()
    else:
        (copies / NOTES).write_text(spoilt)
    (copies / "00_a.ipynb").write_text("mine")
    (lessons / "01_b.ipynb").write_text(book("second edition"))
    lines = list(update(lessons, copies))
    assert [line.partition(":")[0] for line in lines] == [
        f"{copies}/{name}" for name in ("00_a.ipynb", "01_b.ipynb")
    ]
    assert texts(copies) == {"00_a.ipynb": "mine", "01_b.ipynb": book("01_b.ipynb, first edition")}


def test_a_home_that_cannot_be_written_is_one_line(lessons: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PathError) as caught:
        list(update(lessons, tmp_path / "file" / "notebooks"))
    assert str(caught.value) == (
        f"cannot write {tmp_path}/file (File exists); "
        "make it writable, or set HUDILAB_HOME to a writable directory"
    )


@pytest.mark.parametrize(
    ("account", "options", "allowed"),
    [
        (0, "", False),
        (0, "--no-browser --port=0", False),
        (0, "--no-browser --allow-root", True),
        (0, "--ServerApp.allow_root=True", True),
        (1000, "", True),
    ],
)
def test_root_is_refused(
    monkeypatch: pytest.MonkeyPatch, account: int, options: str, allowed: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: account)
    again = " ".join(["--allow-root", *options.split()])
    for level, typed in ((None, f"hudilab lab {again}"), ("1", f'make lab ARGS="{again}"')):
        monkeypatch.delenv("MAKELEVEL", raising=False)
        if level:
            monkeypatch.setenv("MAKELEVEL", level)
        assert refusal(options.split()) == (
            None
            if allowed
            else (
                "JupyterLab does not run as root",
                f"use another account, or allow it with: {typed}",
            )
        )


def test_an_unusable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKELEVEL", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for options in ([f"--port={port}"], ["--port", str(port)], [f"--ServerApp.port={port}"]):
            problem, remedy = unusable([*options, "--no-browser"]) or ("", "")
            assert problem == f"port {port} is in use by another program"
            other = int(re.findall(r"\d+", remedy)[-1])
            assert other > port
            again = " ".join([*options, "--no-browser"]).replace(str(port), str(other))
            assert remedy == f'choose another, such as: make lab ARGS="{again}"'
    for fine in ([f"--port={port}"], [], ["--port=0"], ["--ip=0.0.0.0"], ["--ip", "*"], ["--port"]):
        assert unusable(fine) is None
    for wrong in ("65536", "x", "-5"):
        problem, remedy = unusable([f"--port={wrong}"]) or ("", "")
        assert problem == f"port {wrong} is not between 0 and 65535"
        assert re.fullmatch(r'choose another, such as: make lab ARGS="--port=\d+"', remedy)
    assert unusable(["--ip=192.0.2.1", "--port=8890"]) == (
        "192.0.2.1 is no address of this machine",
        'choose another, such as: make lab ARGS="--ip=127.0.0.1 --port=8890"',
    )

    def reserved(_: socket.socket, address: tuple[str, int]) -> None:
        if 0 < address[1] < 1024:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", reserved)
    assert unusable(["--ip=127.0.0.1", "--port=22"]) == (
        "port 22 is reserved for root",
        'choose another, such as: make lab ARGS="--ip=127.0.0.1 --port=1024"',
    )


def test_make_lab_refuses_before_the_set_up(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tools").mkdir()
    program = shutil.copy(ROOT / "tools" / "may_open.py", tmp_path / "tools")
    (tmp_path / "tools" / "bootstrap.py").write_text("raise SystemExit('the set-up has begun')")
    ast.parse(Path(program).read_text("utf-8"), feature_version=(3, 6))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for options, line in (
            (f"--allow-root --port={port}", f"lab: port {port} is in use by another program; "),
            ("--allow-root", "the set-up has begun"),
        ):
            done = subprocess.run(
                ["make", "--no-print-directory", "lab", f"ARGS={options}"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.stderr.startswith(line)
            assert done.returncode == 2


@pytest.mark.parametrize(
    ("env", "given", "added"),
    [
        ({}, [], ["--no-browser"]),
        ({"DISPLAY": ":0"}, [], []),
        ({"WAYLAND_DISPLAY": "wayland-0"}, [], []),
        ({}, ["--no-browser"], []),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="each Mac has a screen")
def test_without_a_screen_no_browser_is_started(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    env: dict[str, str],
    given: list[str],
    added: list[str],
) -> None:
    """A text browser would take over the terminal."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    started: list[str] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.extend(command))
    main(list(given))
    assert started[-len(added + given) :] == added + given if added + given else True
    assert started.count("--no-browser") == len(added + given)


def test_a_terminal_of_jupyterlab_finds_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(os, "execv", lambda *_: None)
    main(["--allow-root"])
    assert os.environ["PATH"] == f"{sys.prefix}/bin{os.pathsep}/usr/bin"
