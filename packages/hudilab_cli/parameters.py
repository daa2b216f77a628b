"""Read a notebook's parameters from its cell, and check given values before a kernel starts."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hudilab.errors import ParameterError

_TYPES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def defaults(notebook: Path) -> dict[str, Any]:
    """Return the names and literal defaults in a notebook's `parameters` cell."""
    import nbformat  # here, because a deployed job reads no notebook

    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except OSError as error:
        raise ParameterError(
            f"cannot read {notebook} ({error.strerror})",
            "make it readable, or choose another notebook",
        ) from None
    # For other JSON files, nbformat raises many kinds of errors.
    except (AttributeError, LookupError, TypeError, ValueError, nbformat.ValidationError) as error:
        why = str(error).partition("\n")[0][:80]
        raise ParameterError(
            f"{notebook.name} is not a valid notebook ({why})", "fix the file"
        ) from error
    sources = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    if len(sources) != 1:
        raise ParameterError(
            f"{notebook.name} has {len(sources)} cells tagged parameters", "tag exactly one"
        )
    try:
        lines = ast.parse(sources[0]).body
    except SyntaxError as error:
        raise ParameterError(
            f"{notebook.name}: line {error.lineno} of the parameters cell is not valid Python "
            f"({error.msg})",
            "fix the syntax",
        ) from error
    parameters: dict[str, Any] = {}
    for line in lines:
        name, value = _literal(line)
        if type(value) not in _TYPES:
            raise ParameterError(
                f"{notebook.name}: line {line.lineno} of the parameters cell is not NAME = "
                "number, string, True or False",
                "move other code to another cell",
            )
        parameters[name] = value
    return parameters


def _literal(line: ast.stmt) -> tuple[str, Any]:
    """Return name and value of `NAME = literal`; the value is None for other code."""
    with suppress(ValueError, TypeError):
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return name, ast.literal_eval(value)
    return "", None


def split_pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Split `NAME=VALUE` texts; raise ParameterError for a text without a value."""
    pairs = []
    for text in texts:
        name, given, value = text.partition("=")
        if not given:
            raise ParameterError(f"parameter {name!r} has no value", "write it as: -p NAME VALUE")
        pairs.append((name, value))
    return pairs


def parse(given: Iterable[tuple[str, str]], known: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert `-p NAME VALUE` texts to the defaults' types; raise all problems in one error."""
    values: dict[str, Any] = {}
    problems = []
    for name, text in given:
        if name not in known:
            problems.append(f"unknown parameter {name!r}")
        elif name in values:
            problems.append(f"{name} is given twice")
        else:
            try:
                values[name] = _convert(text, type(known[name]))
            except ValueError:
                problems.append(f"{name}={text!r} is not {_TYPES[type(known[name])]}")
    if problems:
        raise ParameterError(
            f"{where}: {'; '.join(problems)}", f"available parameters: {', '.join(sorted(known))}"
        )
    return values


def _convert(text: str, kind: type) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError
        return text.lower() == "true"
    if kind is float and not math.isfinite(float(text)):
        raise ValueError
    return kind(text)
