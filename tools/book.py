"""Build dist/book/index.html: the lessons as they ran, pages, glossary, reference.

Lessons come from dist/executed, where `make test` leaves them. One that is missing there, or whose
cells have changed since, is run first; with `--as-committed` its results in git are shown instead.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import golden
import nbformat
from bs4 import BeautifulSoup
from bs4.filter import SoupStrainer
from executed import VERSIONS, same, save
from nbformat import NotebookNode

from hudilab.errors import LabError

ROOT = Path(__file__).resolve().parent.parent
EXECUTED, OUT, WORK = ROOT / "dist" / "executed", ROOT / "dist" / "book", ROOT / "dist" / ".book"
FACES = ("hudilab", "hudi_sink", "hudi_inspect", "hudilab_spark", "hudilab_lessons")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("benchmarks/README.md", "benchmarks/HISTORY.md"),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md"))),
)
FOLDED = {
    "check": "Show the check",
    "solution": "Show the solution",
    "proof": "Show the proof",
    "result": "Show the cell that sums up",
    "cleanup": "Show the cell that cleans up",
}
RAN = ("Python", "Spark", "Hudi", "Java")
OBJECT = re.compile(r"<[\w.]+ at 0x[0-9a-f]+>")
PNG_OF_SVG = re.compile(r"\]\((images/(?:words/)?[\w-]+)\.png\)")
BADGE = re.compile(
    r"^\[!\[[^]]*\]\((?:\.\./\.\./|\.github/).*\n", re.MULTILINE
)  # of GitHub's pages
MAIN = SoupStrainer(attrs={"role": "main"})
LOCAL_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)")


def main(arguments: list[str]) -> int:
    """Exit code 1 if a lesson fails, or Sphinx has a warning, such as a broken link."""
    parser = argparse.ArgumentParser(prog="book.py", description=__doc__)
    parser.add_argument(
        "--as-committed",
        action="store_true",
        help="run no lesson: show results from git if need be",
    )
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        lessons = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
        if not options.as_committed:
            run_stale(lessons, EXECUTED)
        source = WORK / "source"
        collect(source, [results(path, EXECUTED) for path in lessons])
        build(source, OUT)
    except LabError as error:
        print(f"book: {error}", file=sys.stderr)
        return 1
    print(f"book: {OUT}/index.html, {time.monotonic() - started:.0f} s")
    return 0


def run_stale(lessons: list[Path], folder: Path) -> None:
    """Run the lessons that the folder lacks, or has with other cells than those of today."""
    stale = [path for path in lessons if results(path, folder) == path]
    for at, path in enumerate(stale, 1):
        print(
            f"book: {at}/{len(stale)} {path.name} has no results of its present cells; running ...",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as home:
            try:
                save(golden.executed(path, home), folder / path.name, Path(home))
            except LabError as error:
                raise LabError(f"{path.name} failed: {error.problem}", error.remedy) from error


def results(path: Path, folder: Path) -> Path:
    """A lesson as it ran, if the folder has it with the cells of today, else as git has it."""
    ran = folder / path.name
    fresh = ran.exists() and same(nbformat.read(ran, 4), nbformat.read(path, 4))
    return ran if fresh else path


def collect(source: Path, lessons: list[Path]) -> None:
    """Bring the folder that Sphinx reads up to date; what is unchanged is not written again."""
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "book").glob("*.md")}
    texts |= {page: BADGE.sub("", (ROOT / page).read_text("utf-8")) for page in PAGES}
    texts |= dict(reference())
    for path in lessons:
        nb = nbformat.read(path, as_version=4)
        texts[f"notebooks/{path.name}"] = nbformat.writes(shown(nb))
    files = {name: text.encode() for name, text in texts.items()}
    for name in [name for name in texts if not name.startswith("reference/")]:
        for file in linked(ROOT / name, texts[name]):
            files.setdefault(str(file.relative_to(ROOT)), file.read_bytes())
    for old in [path for path in source.rglob("*") if path.is_file()]:
        if str(old.relative_to(source)) not in files:
            old.unlink()
    for name, data in files.items():
        file = source / name
        if not file.is_file() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def linked(page: Path, text: str) -> Iterator[Path]:
    """The files of the repository to which a page links."""
    for target in LOCAL_LINK.findall(text):
        top = ROOT if target.startswith("/") else page.parent
        file = Path(os.path.normpath(top / target.lstrip("/")))
        if file.is_file() and file.is_relative_to(ROOT):
            yield file


def shown(nb: NotebookNode) -> NotebookNode:
    """A lesson as the book shows it: folded solutions, no litter, and a line on what ran it."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not litter(output)]
            for output in cell.outputs:
                if text := output.get("metadata", {}).get("image/png", {}).get("alt"):
                    cell.metadata["mystnb"] = {"image": {"alt": text}}
        else:
            # A browser draws the SVG sharply, and in dark, too.
            cell.source = PNG_OF_SVG.sub(r"](\1.svg)", cell.source)
        for tag in FOLDED.keys() & set(cell.metadata.get("tags", [])):
            cell.metadata.tags.append("hide-cell")
            prompt = FOLDED[tag]
            if tag == "solution":
                prompt += ": " + cell.source.splitlines()[0].removeprefix("# ")
            cell.metadata["mystnb"] = {
                "code_prompt_show": prompt,
                "code_prompt_hide": "Hide it",
            }
    ran = nb.metadata.get(VERSIONS)
    versions_text = "Not run for this edition: it shows only the results that git keeps."
    if ran:
        versions_text = f"Run with {', '.join(f'{name} {ran[name]}' for name in RAN)}."
    facts = nbformat.v4.new_markdown_cell(f"{{.ran}}\n{versions_text}", id="ran")
    nb.cells.insert(1, facts)
    return nb


def litter(output: NotebookNode) -> bool:
    """Whether an output is a progress bar, a line of stderr, or the address of an object."""
    value = output.get("data", {})
    named = value.keys() == {"text/plain"} and OBJECT.fullmatch(value["text/plain"])
    return output.get("name") == "stderr" or bool(named)


def reference() -> Iterator[tuple[str, str]]:
    """Pages of the library: the public names first, then each module that lessons can import."""
    modules, rows = [], []
    for package in FACES:
        face = import_module(package)
        files = sorted(Path(face.__path__[0]).glob("[a-z]*.py"))
        modules += [f"{package}.{file.stem}" for file in files]
        for name in face.__all__:
            public = getattr(face, name)
            what = (public.__doc__ or "").partition("\n")[0]
            named = f"{{py:obj}}`{name} <{public.__module__}.{name}>`"
            rows.append(f"| `from {package} import` {named} | {what} |")
    names = "\n".join(["| name | what it is |", "|---|---|", *rows])
    # No toctree: it would put every module into the sidebar of every page, which takes a fifth of
    # the build.
    contents = "\n".join(f"- [{module}]({module}.md)" for module in modules)
    yield (
        "reference/index.md",
        f"# Reference\n\nThe names that lessons and jobs need most.\n\n"
        f"{names}\n\n## Modules\n\n{contents}\n",
    )
    for module in modules:
        auto = f"```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```"
        yield f"reference/{module}.md", f"---\norphan: true\n---\n\n# {module}\n\n{auto}\n"


def build(source: Path, out: Path) -> None:
    """Run Sphinx, with warnings as errors."""
    html = source.parent / "html"
    shutil.rmtree(html, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-j", "auto", "-W"]
    command += ["--keep-going", "-c", str(ROOT / "book"), "-d", str(source.parent / "doctrees")]
    done = subprocess.run([*command, str(source), str(html)], check=False)
    if done.returncode:
        raise LabError("the book has warnings", "fix each line above, and run it again: make book")
    (html / "_static" / "texts.js").write_text(
        f"window.TEXTS = {json.dumps(searched(html))}", "utf-8"
    )
    shutil.rmtree(out, ignore_errors=True)
    html.rename(out)


def searched(html: Path) -> dict[str, list[tuple[str, str]]]:
    """The texts of each page that a search shows as excerpts: (anchor, text) of its sections."""
    texts = {}
    for file in sorted(html.rglob("*.html")):
        page = BeautifulSoup(file.read_text("utf-8"), "html.parser", parse_only=MAIN)
        main = page.select_one("[role=main]")
        if main is None:
            continue
        for litter_ in main.select(".headerlink, script, style, iframe"):
            litter_.decompose()
        terms = [(term, term.find_next_sibling("dd")) for term in main.select("dl.glossary dt[id]")]
        found = [(term["id"], f"{term.text} {text and text.text}") for term, text in terms]
        # The innermost first, so that the text of a section is in no other.
        sections = [section.extract() for section in reversed(main.select("section[id]"))]
        found += [(section["id"], section.text) for section in reversed(sections)]
        texts[file.relative_to(html).as_posix()] = [
            (str(anchor), " ".join(text.split())) for anchor, text in found
        ]
    return texts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
