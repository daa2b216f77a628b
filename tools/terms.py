"""What the book adds to Sphinx: first uses of glossary terms as links, and reader's paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

# Pages that list or quote rather than explain.
WITHOUT_TERMS = ("glossary", "CHANGELOG", "docs/errors", "reference/")
# No link goes into code, headings, other links, or what a cell printed.
CLOSED = (
    *(nodes.literal, nodes.literal_block, nodes.raw, nodes.title, nodes.reference, nodes.rubric),
    *(addnodes.pending_xref, addnodes.download_reference, addnodes.desc, nodes.math),
)
PICTURE = re.compile(r"!\[[^]]*\]\([^)]*\)")
TIME = re.compile(r"^\| Time \| read (\d+) minutes, exercises (\d+) \|", re.MULTILINE)


class Entry(NamedTuple):
    """A definition of the glossary, with its names; the first is the one to link to."""

    names: tuple[str, ...]
    definition: str


def entries(glossary: str) -> list[Entry]:
    """The entries of the page's glossary directive."""
    [block] = re.findall(r"^```\{glossary\}\n(.*?)^```", glossary, re.MULTILINE | re.DOTALL)
    glossary_entries = []
    for part in re.split(r"\n\s*\n", block.strip()):
        lines = [line for line in part.splitlines() if not line.startswith(":")]
        names = tuple(line for line in lines if line == line.lstrip())
        text = " ".join(line.strip() for line in lines if line != line.lstrip())
        text = PICTURE.sub("", text).strip()
        if names:
            glossary_entries.append(Entry(names, text))
    return glossary_entries


class Finder(NamedTuple):
    """A pattern of all names, in singular or plural, and the first name of each group's entry."""

    pattern: re.Pattern[str]
    names: list[str]

    def name(self, match: re.Match[str]) -> str:
        """The first name of the entry that a match of the pattern belongs to."""
        assert match.lastindex is not None  # each alternative of the pattern is a group
        return self.names[match.lastindex - 1]

    def used(self, text: str) -> list[str]:
        """The first names of the entries used in a text, in their order."""
        return [self.name(match) for match in self.pattern.finditer(text)]


def finder(glossary_entries: list[Entry]) -> Finder:
    """What finds the entries' names in a text.

    The longest name comes first, so that `record key index` is not a `record key`.
    """
    names = [(name, entry.names[0]) for entry in glossary_entries for name in entry.names]
    names.sort(key=lambda pair: len(pair[0]), reverse=True)
    forms = "|".join(_forms(name) for name, _ in names)
    pattern = re.compile(rf"(?<![\w-])(?:{forms})(?![\w-])")
    return Finder(pattern, [first for _, first in names])


def _forms(name: str) -> str:
    words = r"[\s-]+".join(re.escape(word) for word in re.split(r"[\s-]+", name))
    if name == name.upper():
        return f"({words})s?"  # CDC, IAM: in capitals only
    if re.search(r"[^aeiou]y$", name):
        return f"((?i:{words[:-1]}(?:y|ies)))"
    return f"((?i:{words}(?:s|es)?))"


class FirstUses(SphinxTransform):
    """Link the first use of each term on a page to the glossary."""

    default_priority = 650

    def apply(self, **_: Any) -> None:
        """Called by Sphinx for each page."""
        if self.env.docname.startswith(WITHOUT_TERMS):
            return
        glossary = Path(self.app.srcdir) / "glossary.md"
        self.env.note_dependency(str(glossary))
        self.finder = finder(entries(glossary.read_text("utf-8")))
        self.seen = set[str]()
        for text in list(self.document.findall(nodes.Text)):
            if not _closed(text):
                self._link(text)

    def _link(self, text: nodes.Text) -> None:
        parts, end = list[nodes.Node](), 0
        for match in self.finder.pattern.finditer(str(text)):
            name = self.finder.name(match)
            if name not in self.seen:
                self.seen.add(name)
                parts += [nodes.Text(str(text)[end : match.start()]), _reference(name, match[0])]
                end = match.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(str(text)[end:])])


def _closed(node: nodes.Node) -> bool:
    while node := node.parent:
        if isinstance(node, CLOSED) or "cell_output" in node.get("classes", []):
            return True
        if isinstance(node, nodes.paragraph) and node.astext().startswith("Sources: "):
            return True  # the last line of a lesson
    return False


def _reference(name: str, shown: str) -> nodes.Node:
    inner = nodes.inline("", shown, classes=["xref", "std", "std-term"])
    return addnodes.pending_xref(
        "", inner, refdomain="std", reftype="term", reftarget=name, refexplicit=True, refwarn=True
    )


def minutes(notebook: Path) -> tuple[int, int]:
    """Minutes to read a lesson and to solve its exercises, as the table at its top gives them."""
    cells = nbformat.read(notebook, as_version=4).cells
    [(read, solve)] = TIME.findall("\n".join(cell.source for cell in cells))
    return int(read), int(solve)


class ReaderPath(SphinxDirective):
    """`{path} 00 02 05`: these lessons in this order, with the minutes of each and of all."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx where a page has the directive."""
        folder = Path(self.env.srcdir) / "notebooks"
        rows = ["| lesson | minutes to read | for the exercises |", "|---|---|---|"]
        read = solve = 0
        for path in _numbered(folder, self.arguments[0].split()):
            self.env.note_dependency(str(path))
            to_read, to_solve = minutes(path)
            rows.append(f"| [](/notebooks/{path.name}) | {to_read} | {to_solve} |")
            read, solve = read + to_read, solve + to_solve
        rows.append(f"| **together** | **{read}** | **{solve}** |")
        return self.parse_text_to_nodes("\n".join(rows))


def _numbered(folder: Path, numbers: list[str]) -> Iterator[Path]:
    for number in numbers:
        [path] = folder.glob(f"{number}_*.ipynb")
        yield path


def _skipped(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Fields of a named tuple whose text Python made up; their class describes them."""
    return (getattr(member, "__doc__", None) or "").startswith("Alias for field number") or None


def _levels(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Sphinx calls the captions of the sidebar headings, and does not say of which level."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("path", ReaderPath)
    app.add_transform(FirstUses)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("html-page-context", _levels, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
