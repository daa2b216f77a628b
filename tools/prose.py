"""Check the words of pages and lessons with Vale, by the rules of .vale.ini, and count habits.

A habit is a turn of phrase that reads like a translation when it is frequent: software that says
and knows, riddles with "who", chains of "one". HABITS has its limit per 1,000 words.

Vale reads no notebooks. Each one becomes a page in a temporary folder that has its Markdown on the
very lines that the notebook has it on, so `02_write_hudi_stream.ipynb.md:319` is line 319 of the
notebook.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "docs/*.md", "book/*.md")
MISSING = (
    "no Vale on PATH; install version 3: go install github.com/vale-cli/vale/v3/cmd/vale@v3.22.0"
)
HABITS = {
    "who, nobody, somebody": (r"\b(who|nobody|somebody|anybody)\b", 0.5),
    "one, ones": (r"\bones?\b", 4),
    "semicolons": (r";", 3),
    "says, tells, knows, takes, asks": (
        r"\b(says?|said|tells?|told|knows?|takes?|asks?)\b",
        3,
    ),
    "is there, for good, leave out, of its own": (
        r"\b(is|are|was|were) there\b(?=[,.;)])|\bfor good\b|\bleaves? out\b"
        r"|\bof (its|your|their) own\b",
        0.6,
    ),
    "silently, without an error": (r"\bsilently\b|\bwithout an error\b|\bno error\b", 1),
}
_KIND = re.compile(r' {3}"cell_type": "(\w+)"')


def pages() -> list[Path]:
    """README, manuals, the book's own pages, and so on."""
    return sorted(page for pattern in PAGES for page in ROOT.glob(pattern))


def markdown(notebook: str) -> str:
    """The Markdown of a notebook's text, each line where it is there; all other lines empty."""
    lines, kind, inside = list[str](), "", False
    for line in notebook.splitlines():
        if match := _KIND.match(line):
            kind = match[1]
        if inside := inside and line != "   ]":
            lines.append(json.loads(line.rstrip(",")).rstrip("\n"))
        else:
            lines.append("")
            inside = kind == "markdown" and line == '   "source": ['
    return "\n".join(lines) + "\n"


def frequent(markdown: str) -> list[str]:
    """The habits that are over their limit in a text, each with its rate per 1,000 words."""
    text = re.sub(r"(?s)```.*?```", "", markdown)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "X", text))
    words = len(text.split()) or 1
    counts = {
        habit: len(re.findall(pattern, text, re.IGNORECASE))
        for habit, (pattern, _) in HABITS.items()
    }
    return [
        f"{habit}: {1_000 * count / words:.1f} per 1,000 words, {HABITS[habit][1]} at most"
        for habit, count in counts.items()
        if count > max(1, HABITS[habit][1] * words / 1_000)  # once is never too often
    ]


def extract(folder: Path) -> list[Path]:
    """Write the notebooks' Markdown to the folder."""
    made = []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = folder / f"{notebook.name}.md"
        page.write_text(markdown(notebook.read_text("utf-8")), "utf-8")
        made.append(page)
    return made


def check(pages: list[Path]) -> list[str]:
    """What Vale finds on these pages, whatever its level; a line each: page, line, column, rule."""
    command = ["vale", "--no-global", "--config", str(ROOT / ".vale.ini"), "--output", "line"]
    done = subprocess.run([*command, *map(str, pages)], capture_output=True, text=True, check=False)
    # Exit code 1: there are errors. Vale itself fails with 2.
    return done.stdout.splitlines() if done.returncode in (0, 1) else [done.stderr.strip()]


def main() -> int:
    """Exit code 1 if Vale finds something, or is missing."""
    if not shutil.which("vale"):
        print(f"prose: {MISSING}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        problems = check([*pages(), *extract(Path(folder))])
    for problem in problems:
        print(problem.removeprefix(f"{ROOT}/").removeprefix(f"{folder}/"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
