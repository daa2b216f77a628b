"""Sphinx's settings for the book; tools/book.py collects its pages and builds it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("lib", "packages")]

project = "Hudi Streaming Lab"
author = "the contributors of the Hudi Streaming Lab"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["tests", "conf"]
nitpicky = True
nitpick_ignore_regex = [("py:(class|data|exc)", ".*")]  # annotations name types of other packages

# Notebooks are run beforehand, and shown with what they printed.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
default_role = "literal"  # docstrings write `name`, as Markdown does
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # documented attributes are listed once, with their class

html_theme = "furo"
html_title = project
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_search_scorer = str(HERE / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_domain_indices = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "default"
pygments_dark_style = "github-dark"


def skipped(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Fields of a named tuple whose text Python made up; their class describes them."""
    return (getattr(member, "__doc__", None) or "").startswith("Alias for field number") or None


def with_levels(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Sphinx calls the captions of the sidebar headings, and does not say of which level."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", skipped)
    app.connect("html-page-context", with_levels, priority=900)  # after the theme
