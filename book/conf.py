"""Sphinx's settings for the book; tools/book.py collects its pages and builds it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("tools", "lib", "packages")]

project = "Hudi Streaming Lab"
author = "the contributors of the Hudi Streaming Lab"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "terms"]
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
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_domain_indices = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "default"
pygments_dark_style = "github-dark"
