"""What counts as the main text of a lesson, and how long it takes to read."""

from __future__ import annotations

from measure import Measure, measure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

LONG = "\n".join(f"a{n} = {n}" for n in range(9))


def test_the_main_text_has_no_exercises_and_no_proofs() -> None:
    cells = (
        ("# 00 Title\n\nFour words of it.", "text"),
        ("rows = 5\nbatches = 2", "parameters"),
        ("from a import (\n    b,\n    c,\n)\n\nimport d",),
        ("lab = start()",),
        ("## See [a link](that/does/not/count.md)\n\n```python\nnot words\n```", "text"),
        (LONG,),
        ("predicted = None", "prediction"),
        ("b = 2",),
        ("print(b)", "keep_output"),
        ("Exercise(2, '').check(predicted)", "check", "prediction"),
        ("assert b", "proof"),
        ("## Exercise: one\n\n*Hard, design.* Words that do not count.", "text"),
        ("answer = None", "exercise"),
        ("## Summary\n\nDone.", "text"),
        ("lab.close()", "cleanup"),
    )
    made = [
        new_markdown_cell(source)
        if "text" in tags
        else new_code_cell(source, metadata={"tags": list(tags)})
        for source, *tags in cells
    ]
    assert measure(new_notebook(cells=made)) == Measure(
        words=11, lines=18, median=1.0, long=1 / 6, silent=["b = 2"], read=3, exercises=14
    )
