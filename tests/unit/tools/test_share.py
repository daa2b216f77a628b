"""The share of a lesson's cells without the lab: what counts, and what does not."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from share import Share, share


def lesson(folder: Path, *cells: tuple[str, ...]) -> Path:
    path = folder / "00_lesson.ipynb"
    made = [new_code_cell(source, metadata={"tags": list(tags)}) for source, *tags in cells]
    nbformat.write(new_notebook(cells=[new_markdown_cell("lab"), *made]), path)
    return path


def test_what_counts_as_the_lab(tmp_path: Path) -> None:
    path = lesson(
        tmp_path,
        ("seed = 1", "parameters"),
        ("import pandas as pd\nfrom hudilab import start\nfrom hudilab_spark import drain",),
        ("lab = start('00_lesson', seed=seed)\nspark = lab.spark",),
        ("spec, place = lab.new_table('a')",),
        ("rows = spark.range(5)",),
        ("rows.write.options(**spec.write_options()).save(place.table)",),
        ("print(pd.DataFrame({'rows': [rows.count()]}))",),
        ("from hudilab_lessons import plots, reads",),
        ("from hudilab_cli.servers.s3 import find_s3",),
        ("from hudilab_lessons import Exercise\nExercise(5, '').check(4)", "check"),
        ("spark.stop()", "cleanup"),
    )
    assert share(path) == Share(cells=8, without=3, strictly=2, names=6, rooms=1)
