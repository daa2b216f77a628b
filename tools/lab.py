"""Open JupyterLab on copies of the notebooks, so that a reader's run leaves the checkout clean.

Copies are in `<HUDILAB_HOME>/notebooks`, and with them the manuals that they link to.
A lesson that a reader has changed is never overwritten. Arguments are JupyterLab's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from may_open import refusal

from hudilab.errors import LabError, PathError, many
from hudilab.files import private_folder
from hudilab.python_path import take_over_path
from hudilab.settings import load_settings
from hudilab_spark.environment import take_over_home

NOTES = ".lessons.json"  # of each copy, the hash of the lesson that it was made from
FIRST = "00_hello_hudi.ipynb"  # once a notebook was open, JupyterLab opens what was open last
OPENED = ".ipynb_checkpoints"  # JupyterLab puts a copy there of each notebook that it opens
FOLDED = {
    "check": "Run this cell to check your answer",
    "proof": "Proof of this section",
    "result": "The line that `hudilab run` prints",
}
PROVED = '\nprint("✓ proved")'  # the last line of a proof
MANUALS = ("docs", "benchmarks")
COPIED = "|".join(f"{name}/" for name in MANUALS)
COPIES = "--copies"  # and a folder: only copy the lessons, for a JupyterLab that others start
CONFIG = Path(__file__).with_name("jupyter")


def main(arguments: list[str]) -> int:
    """Does not return when all is well: JupyterLab takes this process over."""
    try:
        take_over_path()
        copies_only = arguments[:1] == [COPIES]
        if not copies_only and (problem := refusal(arguments)):
            raise LabError(*problem)
        settings = load_settings()
        take_over_home(settings.home)
        # A terminal of JupyterLab then finds `hudilab`, as remedies name it.
        _prepend("PATH", Path(sys.prefix, "bin"))
        folder = Path(arguments[1]) if copies_only else settings.home / "notebooks"
        first = [] if (folder / OPENED).exists() else [f"--LabApp.default_url=/lab/tree/{FIRST}"]
        for line in update(settings.project / "notebooks", folder):
            print(f"lab: {line}", flush=True)
        if copies_only:
            return 0
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # the home of another account
        print(
            f"lab: cannot read {error.filename} ({error.strerror}); run it as the account that "
            "owns it, or set HUDILAB_HOME to a folder of your own",
            file=sys.stderr,
        )
        return 1
    if not has_screen() and "--no-browser" not in arguments:
        # Otherwise a text browser of this machine could take over the terminal.
        print("lab: no screen here; open the address that follows in a browser", flush=True)
        arguments = ["--no-browser", *arguments]
    command = [sys.executable, "-m", "jupyter", "lab", *_own(folder), *first, *arguments]
    for name in ("MPLBACKEND", "PYTHONOPTIMIZE", "PYTHONSTARTUP"):
        os.environ.pop(name, None)  # kernels inherit them: no pictures, no asserts, another Spark
    # No news of Jupyter, and no question about them; a user's own settings come first.
    _prepend("JUPYTER_CONFIG_PATH", CONFIG)
    # The first kernel of a name counts: python3 is this environment's.
    _prepend("JUPYTER_PATH", Path(sys.prefix, "share", "jupyter"))
    os.execv(command[0], command)


def has_screen() -> bool:
    """Whether a browser can open a window here."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in screens)


def _prepend(variable: str, folder: Path) -> None:
    paths = (str(folder), os.environ.get(variable))
    os.environ[variable] = os.pathsep.join(filter(None, paths))


def _own(folder: Path) -> list[str]:
    """Options that no configuration of a user may replace: the lessons' folder and their kernel."""
    return [
        f"--notebook-dir={folder}",
        f"--FileContentsManager.root_dir={folder}",
        f"--FileContentsManager.preferred_dir={folder}",
        "--ServerApp.kernel_spec_manager_class=jupyter_client.kernelspec.KernelSpecManager",
        "--KernelSpecManager.allowed_kernelspecs=python3",
        "--AsyncMappingKernelManager.default_kernel_name=python3",
    ]


def update(lessons: Path, folder: Path) -> Iterator[str]:
    """Copy what is new, bring up to date what its reader has not changed; a line for each deed.

    Errors: PathError when the copies cannot be written.
    """
    notes = folder / NOTES
    try:
        private_folder(folder)
        made = _read(notes)
        for picture in sorted(lessons.glob("images/**/*.png")):
            beside = folder / picture.relative_to(lessons)
            beside.parent.mkdir(parents=True, exist_ok=True)
            _replace(beside, picture.read_bytes())
        for name in MANUALS:
            for manual in sorted((lessons.parent / name).glob("*.md")):
                (folder / name).mkdir(exist_ok=True)
                _replace(folder / name / manual.name, _manual(manual.read_text("utf-8")))
        new = 0
        for lesson in sorted(lessons.glob("[0-9]*.ipynb")):
            edition = _edition(lesson.read_bytes())
            copy, now = folder / lesson.name, _digest(edition)
            current = _digest(copy.read_bytes()) if copy.exists() else ""
            if current in ("", now, made.get(lesson.name)):
                if current != now:
                    _replace(copy, edition)
                    if current:
                        yield f"{copy}: updated to the new lesson"
                    new += not current
                made[lesson.name] = now
            elif made.get(lesson.name) != now:
                yield f"{copy}: your changed copy is kept; to get the new lesson: rm '{copy}'"
        if new:
            yield f"{many(new, 'lesson')} copied to {folder}"
        _replace(notes, json.dumps(made, indent=1).encode())
    except OSError as error:
        raise PathError(
            f"cannot write {error.filename} ({error.strerror})",
            "make it writable, or set HUDILAB_HOME to a writable directory",
        ) from None


def _edition(lesson: bytes) -> bytes:
    """A reader's edition of a lesson: nothing has run yet, and Run All solves no exercise."""
    nb = json.loads(lesson)
    for cell in nb["cells"]:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        if "solution" in tags:
            cell |= {"cell_type": "markdown", "metadata": {"tags": ["solution"]}}
            for name in ("outputs", "execution_count"):
                del cell[name]
            exercise, *lines = cell["source"]
            summary = exercise.removeprefix("# ").strip()
            opening = f"<details><summary>{summary}</summary>\n\n```python\n"
            cell["source"] = [opening, *lines, "\n```\n\n</details>"]
        # JupyterLab shows the first line of a folded cell.
        for tag in FOLDED.keys() & set(tags):
            cell["source"] = [f"# {FOLDED[tag]}\n", *cell["source"]]
        if "proof" in tags:
            cell["source"] = [*cell["source"], PROVED]
        if cell["cell_type"] == "markdown":
            # Copies of the manuals are in the folder itself: JupyterLab opens nothing above it.
            cell["source"] = [
                _without_links(line, COPIED).replace("](../", "](") for line in cell["source"]
            ]
    return (json.dumps(nb, indent=1, ensure_ascii=False) + "\n").encode()


def _manual(text: str) -> bytes:
    """A manual's copy, whose links lead to copies; a link to another file becomes plain text."""
    text = text.replace("](../notebooks/", "](../")
    return _without_links(text, rf"\d\d_|images/|{COPIED}").encode()


def _without_links(text: str, kept: str) -> str:
    """The text, in which links to what is above its folder are plain, except to `kept`."""
    return re.sub(rf"\[([^\]]*)\]\(\.\./(?!{kept})[^)]*\)", r"\1", text)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(notes: Path) -> dict[str, str]:
    """Without its notes every copy that differs counts as its reader's own."""
    try:
        return dict(json.loads(notes.read_text("utf-8")))
    except (FileNotFoundError, TypeError, ValueError):
        return {}


def _replace(file: Path, data: bytes) -> None:
    """Whole or not at all, whatever interrupts it."""
    half = file.with_name(f".{file.name}.{os.getpid()}")
    half.write_bytes(data)
    half.replace(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
