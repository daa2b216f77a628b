"""Each picture shows what the rows contain: one property a plot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("Agg")
from hudilab_lessons.plots import (
    by_batch,
    described,
    ranges,
    stacked_files,
    task_times,
    timeline,
    timelines,
)


def at(seconds: float) -> pd.Timestamp:
    return pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(seconds=seconds)


INSTANTS = pd.DataFrame(
    [
        ("deltacommit", "COMPLETED", at(0), at(2)),
        ("compaction", "INFLIGHT", at(3), None),
        ("deltacommit", "COMPLETED", at(6), at(9)),
    ],
    columns=["action", "state", "requested", "completed"],
)
TASKS = pd.DataFrame(
    [(5, at(9), at(10)), (2, at(4), at(8)), (2, at(3), at(5))],
    columns=["stage", "started", "ended"],
)
RANGES = pd.DataFrame({"lowest": [1, 2], "highest": [5, 3]})


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


def test_an_instant_that_is_not_completed_is_a_dotted_line_to_the_end(ax: Any) -> None:
    timeline(ax, INSTANTS)
    spans = [line for line in ax.lines if line.get_marker() == "None"]
    assert [line.get_linestyle() for line in spans] == ["-", ":", "-"]
    ends = [line.get_xdata(orig=False)[1] for line in spans]
    assert max(ends) == ends[1]


def test_timelines_below_each_other_share_their_time_axis() -> None:
    figure = timelines({"before": INSTANTS[:1], "after": INSTANTS})
    before, after = figure.axes
    assert [before.get_title(), after.get_title()] == ["before", "after"]
    assert before.get_xlim() == after.get_xlim()
    assert [before.get_xlabel(), after.get_xlabel()] == ["", "UTC"]
    plt.close(figure)


def test_the_files_of_a_step_are_stacked_in_the_order_of_their_instants(ax: Any) -> None:
    files = pd.DataFrame(
        [("log", "3", 512), ("base", "1", 2048), ("log", "2", 1024)],
        columns=["kind", "instant", "size"],
    )
    stacked_files(ax, {"insert": files[1:2], "update": files})
    bars = [(bar.get_x(), bar.get_y(), bar.get_height()) for bar in ax.patches if bar.get_height()]
    assert bars == [(-0.35, 0, 2), (0.65, 0, 2), (0.65, 2, 1), (0.65, 3, 0.5)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["base file", "log file"]


def test_each_table_is_a_line_over_its_batches(ax: Any) -> None:
    measured = pd.DataFrame(
        [("b", 1, 4.0), ("b", 2, 3.0), ("a", 1, 1.0)], columns=["table", "batch", "KB written"]
    )
    by_batch([ax], measured, ["KB written"])
    shown = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert shown == {"b": [4, 3], "a": [1]}
    assert ax.get_ylim()[0] == 0


def test_a_file_is_a_bar_from_its_lowest_to_its_highest_value(ax: Any) -> None:
    ranges([ax], {"before": RANGES}, "temperature")
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(1, 4), (2, 1)]


def test_tasks_are_bars_from_start_to_end_by_stage(ax: Any) -> None:
    task_times(ax, TASKS)
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0, 2), (1, 4), (6, 1)]


@pytest.mark.parametrize(
    ("draw", "rows"),
    [
        (timeline, INSTANTS),
        (task_times, TASKS),
    ],
)
def test_a_picture_can_be_drawn_and_is_described_by_its_words(
    ax: Any, draw: Callable[[Axes, pd.DataFrame], Axes], rows: pd.DataFrame
) -> None:
    before = rows.copy(deep=True)
    assert draw(ax, rows) is ax
    figure: Any = ax.get_figure()
    figure.draw_without_rendering()
    assert described(figure).startswith(f"Chart: {ax.get_title()}; ")
    pd.testing.assert_frame_equal(rows, before)


def test_a_chart_is_described_by_its_axes_rows_and_series(ax: Any) -> None:
    times = [(number // 5, at(number), at(number + 1)) for number in range(10)]
    task_times(ax, pd.DataFrame(times, columns=TASKS.columns))
    figure = ax.get_figure()
    figure.draw_without_rendering()
    assert described(figure) == (
        "Chart: When each task ran; across: seconds; up: task 1 to task 10; "
        "series: stage 0, stage 1"
    )
