"""The errors of the inspector, lines that end with the remedy."""

from __future__ import annotations

from hudi_inspect.units import plain

# pip's packages of the optional modules.
_PACKAGES = {"arro3": "arro3-core arro3-io", "hudi": "hudi==0.5.0"}


class InspectError(Exception):
    """A table cannot be inspected: not a table, damaged, unreadable, or an unsupported version.

    `problem` is the failure with its location, `remedy` the solution. The text of the error is a
    line with both.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        # Names and values in a message may come from an untrusted table.
        self.problem, self.remedy = plain(problem), plain(remedy)
        super().__init__(self.problem, self.remedy)

    def __str__(self) -> str:
        """Return the line."""
        return f"{self.problem}; {self.remedy}"

    def _render_traceback_(self) -> list[str]:
        # IPython prints these lines instead of a stack trace, because they contain the remedy.
        return [f"{type(self).__name__}: {self}"]


class Unreadable(Exception):
    """A file is not a valid file of Hudi; the message is a predicate, such as "is empty"."""


class TooLarge(Unreadable):
    """A file is larger than the limit, but may be undamaged."""


def missing_package(action: str, error: ModuleNotFoundError) -> InspectError:
    """Return the error of an action that needs a missing package."""
    module = (error.name or "").partition(".")[0]
    return InspectError(
        f"{action} needs {module}, which is not installed",
        f"install it with: pip install {_PACKAGES.get(module, module)}",
    )
