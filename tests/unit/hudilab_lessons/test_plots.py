"""Each picture shows what the rows say: marks, lengths, places, colours and words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

mpl.use("Agg")

from matplotlib import pyplot as plt

from hudilab_lessons.plots import (
    SERIES,
    batch_durations,
    described,
    file_sizes,
    merge_winners,
    price_lines,
    task_times,
    temperatures,
    timeline,
)


def at(seconds: float) -> pd.Timestamp:
    return pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(seconds=seconds)


INSTANTS = pd.DataFrame(
    [
        ("deltacommit", "COMPLETED", at(0), at(2)),
        ("compaction", "INFLIGHT", at(3), None),
        ("clean", "COMPLETED", at(4), at(5)),
        ("deltacommit", "COMPLETED", at(6), at(9)),
    ],
    columns=["action", "state", "requested", "completed"],
)
PROGRESS = pd.DataFrame(  # batch 4's phases take longer than the whole: nothing is left
    {
        "batch": [3, 4],
        "rows": [10, 10],
        "addBatch": [2000, 1000],
        "walCommit": [500, 250],
        "queryPlanning": [250, 250],
        "triggerExecution": [3000, 1400],
        "latestOffset": [9999, 9999],
    },
    index=[7, 8],
)
FILES = pd.DataFrame(
    [("b", "base", 2048), ("a", "log", 512), ("b", "base", 1024), ("a", "base", 4096)],
    columns=["partition", "kind", "size"],
)
READINGS = pd.DataFrame(
    [(10, 5), (9, 1), (10, 7), (9, 2), (9, 90), (9, 3), (9, 4), (11, 6), (10, 6)],
    columns=["sensor_id", "temperature"],
)
READINGS["temperature"] = READINGS["temperature"].map(Decimal)
TASKS = pd.DataFrame(
    [(5, at(9), at(10)), (2, at(4), at(8)), (2, at(3), at(5)), (5, at(8), at(11))],
    columns=["stage", "started", "ended"],
)
PRICES = pd.DataFrame(
    [(at(2), "IBM", 110.0), (at(0), "IBM", 100.0), (at(1), "V", 50.0), (at(3), "V", 40.0)],
    columns=["event_time", "ticker", "price"],
)
WINNERS = pd.DataFrame({"arrived": [4, 4, 0], "won": [0, 4, 0]}, index=["older", "equal", "newer"])
PICTURES = [
    (timeline, INSTANTS),
    (batch_durations, PROGRESS),
    (file_sizes, FILES),
    (merge_winners, WINNERS),
    (temperatures, READINGS),
    (task_times, TASKS),
    (price_lines, PRICES),
]


@pytest.fixture
def ax() -> Iterator[Axes]:
    """Axes that pyplot does not know: whoever draws there opens a figure."""
    yield Figure().subplots()
    opened = plt.get_fignums()
    plt.close("all")
    assert opened == []


def x_labels(ax: Axes) -> list[tuple[float, str]]:
    labels = (label.get_text() for label in ax.get_xticklabels())
    return list(zip(ax.get_xticks(), labels, strict=True))


def y_labels(ax: Axes) -> list[tuple[float, str]]:
    labels = (label.get_text() for label in ax.get_yticklabels())
    return list(zip(ax.get_yticks(), labels, strict=True))


def points(line: Line2D, *, orig: bool = True) -> tuple[list[Any], list[Any]]:
    """Its x and its y, as given, or (not orig) as numbers on the axes."""
    x, y = line.get_data(orig=orig)
    return list(np.asarray(x)), list(np.asarray(y))


def words(ax: Axes) -> tuple[str, str, str]:
    return ax.get_xlabel(), ax.get_ylabel(), ax.get_title()


def legend(ax: Axes) -> dict[str, str]:
    box: Any = ax.get_legend()
    colours = [to_hex(patch.get_facecolor()) for patch in box.get_patches()]
    return dict(zip([text.get_text() for text in box.get_texts()], colours, strict=True))


def lying(ax: Axes) -> list[tuple[float, float, float, str]]:
    """Middle, left, width and colour of the bars that can be seen."""
    found = []
    for bar in ax.patches:
        assert isinstance(bar, Rectangle)
        middle, width = bar.get_y() + bar.get_height() / 2, bar.get_width()
        if width:
            found.append((middle, bar.get_x(), width, to_hex(bar.get_facecolor())))
    return found


def spans(ax: Axes, instants: pd.DataFrame) -> list[tuple[float, float, float, str]]:
    """Level, start and end in seconds, and style of the lines that have no mark."""
    zero = date2num(instants["requested"].min())
    found = []
    for line in ax.lines:
        if line.get_marker() == "None":
            (left, right), (level, other) = points(line, orig=False)
            assert level == other
            seconds = [round((moment - zero) * 86400, 3) for moment in (left, right)]
            found.append((level, *seconds, line.get_linestyle()))
    return found


def test_timeline_has_a_line_for_each_instant(ax: Axes) -> None:
    timeline(ax, INSTANTS)
    expected = [(0, 0, 2, "-"), (1, 3, 10, ":"), (2, 4, 5, "-"), (0, 6, 9, "-")]
    assert spans(ax, INSTANTS) == expected
    assert y_labels(ax) == [(0, "deltacommit"), (1, "compaction"), (2, "clean")]
    bottom, top = ax.get_ylim()
    assert bottom > 2 > 0 > top  # the first action is at the top


def test_timeline_marks_are_hollow_at_the_request_and_full_at_the_end(ax: Axes) -> None:
    timeline(ax, INSTANTS)
    marks = [line for line in ax.lines if line.get_marker() == "o"]
    zero = date2num(at(0))
    places = [tuple(values[0] for values in points(line, orig=False)) for line in marks]
    places = [(round((moment - zero) * 86400, 3), level) for moment, level in places]
    hollow = [line.get_markerfacecolor() == "white" for line in marks]
    assert list(zip(places, hollow, strict=True)) == [
        ((0, 0), True),
        ((2, 0), False),
        ((3, 1), True),
        ((4, 2), True),
        ((5, 2), False),
        ((6, 0), True),
        ((9, 0), False),
    ]


def test_timeline_has_a_colour_for_each_action(ax: Axes) -> None:
    actions = ["commit", "deltacommit", "clean", "rollback", "compaction", "replacecommit"]
    actions += ["savepoint", "an action to come"]
    moments = {"requested": at(0), "completed": at(1)}
    timeline(ax, pd.DataFrame([{"action": action, **moments} for action in actions * 2]))
    colours: dict[float, set[object]] = {}
    for line in ax.lines:
        colours.setdefault(points(line)[1][0], set()).add(line.get_color())
    assert {len(of_one_action) for of_one_action in colours.values()} == {1}
    assert len(set.union(*colours.values())) == len(colours) == len(actions)


def test_timeline_shows_the_time_of_day_in_utc(ax: Axes) -> None:
    timeline(ax, INSTANTS)
    formatter = ax.xaxis.get_major_formatter()
    assert formatter(date2num(at(3661))) == "01:01:01"
    title = "Hudi timeline: requested (hollow) to completed (full)"
    assert words(ax) == ("UTC", "", title)


@pytest.mark.parametrize("rows", [INSTANTS[:2], INSTANTS[1:2]])
def test_timeline_shows_that_the_newest_instant_is_open(ax: Axes, rows: pd.DataFrame) -> None:
    timeline(ax, rows)
    level, start, end, style = spans(ax, rows)[-1]
    assert (level, style) == (len(rows) - 1, ":")
    assert end > start


def test_batch_durations_stack_the_phases_up_to_the_whole(ax: Axes) -> None:
    batch_durations(ax, PROGRESS)
    stacks = {
        bars.get_label(): [
            (bar.get_x() + bar.get_width() / 2, bar.get_y(), bar.get_height()) for bar in bars
        ]
        for bars in ax.containers
    }
    assert stacks == {
        "addBatch": [(3, 0, 2), (4, 0, 1)],
        "walCommit": [(3, 2, 0.5), (4, 1, 0.25)],
        "queryPlanning": [(3, 2.5, 0.25), (4, 1.25, 0.25)],
        "other": [(3, 2.75, 0.25), (4, 1.5, 0)],
    }
    assert x_labels(ax) == [(3, "3"), (4, "4")]
    assert words(ax) == ("micro-batch", "seconds", "Where a micro-batch's time goes")


def test_batch_durations_tell_the_phases_apart(ax: Axes) -> None:
    batch_durations(ax, PROGRESS.assign(commitOffsets=1))
    shown = legend(ax)
    assert list(shown) == ["addBatch", "walCommit", "commitOffsets", "queryPlanning", "other"]
    assert len(set(shown.values())) == 5
    for bars in ax.containers:
        assert {to_hex(bar.get_facecolor()) for bar in bars} == {shown[str(bars.get_label())]}


def test_file_sizes_put_the_files_of_a_partition_end_to_end(ax: Axes) -> None:
    file_sizes(ax, FILES)
    shown = legend(ax)
    base, log = shown["base file"], shown["log file"]
    assert len(shown) == 2
    assert base != log
    assert lying(ax) == [(0, 0, 0.5, log), (0, 0.5, 4, base), (1, 0, 2, base), (1, 2, 1, base)]
    assert y_labels(ax) == [(0, "a"), (1, "b")]
    assert ax.yaxis_inverted()
    assert words(ax) == ("KB", "", "Data files by partition")


def test_file_sizes_name_only_the_kinds_that_are_there(ax: Axes) -> None:
    file_sizes(ax, FILES[FILES["kind"] == "base"])
    assert list(legend(ax)) == ["base file"]


def test_merge_winners_fill_the_row_that_stays(ax: Axes) -> None:
    merge_winners(ax, WINNERS)
    marks = [
        (float(points(line)[0][0]), to_hex(line.get_markerfacecolor()))
        for line in ax.lines
        if points(line)[0]
    ]
    stored, arriving, hollow = SERIES[0], SERIES[1], "#ffffff"
    assert marks == [
        (0, stored),
        (-1, hollow),
        (0, hollow),
        (0, arriving),
        (0, stored),
        (1, hollow),
    ]
    assert [text.get_text() for text in ax.texts] == ["0 of 4 won", "4 of 4 won", "0 of 0 won"]
    assert [label for _, label in y_labels(ax)] == ["older", "equal", "newer"]


def test_temperatures_have_a_box_for_each_sensor(ax: Axes) -> None:
    temperatures(ax, READINGS)
    assert x_labels(ax) == [(1, "9"), (2, "10"), (3, "11")]
    # A box, a median, two whiskers and two caps a sensor: no mark for the 90 far out.
    assert len(ax.lines) == 6 * 3
    boxes = [y for _, y in map(points, ax.lines) if len(y) == 5]
    assert boxes == [[2, 2, 4, 4, 2], [5.5, 5.5, 6.5, 6.5, 5.5], [6] * 5]
    colour = mpl.rcParams["boxplot.medianprops.color"]
    medians = [points(line) for line in ax.lines if line.get_color() == colour]
    assert [(sum(x) / 2, *y) for x, y in medians] == [(1, 3, 3), (2, 6, 6), (3, 6, 6)]
    assert ax.get_ylim()[1] < 90
    assert words(ax) == ("sensor_id", "temperature", "Temperatures by sensor")


def test_task_times_have_a_bar_for_each_task_by_stage_and_start(ax: Axes) -> None:
    task_times(ax, TASKS)
    shown = legend(ax)
    assert list(shown) == ["stage 2", "stage 5"]
    two, five = shown.values()
    assert two != five
    assert lying(ax) == [(0, 0, 2, two), (1, 1, 4, two), (2, 5, 3, five), (3, 6, 1, five)]
    assert y_labels(ax) == [(number, f"task {number + 1}") for number in range(4)]
    assert ax.yaxis_inverted()
    assert words(ax) == ("seconds", "", "When each task ran")


def test_task_times_by_another_column(ax: Axes) -> None:
    task_times(ax, TASKS.assign(executor=["1", "0", "1", "0"]), by="executor")
    shown = legend(ax)
    assert list(shown) == ["executor 0", "executor 1"]
    zero, one = shown.values()
    assert sorted(lying(ax)) == [(0, 0, 2, one), (1, 1, 4, zero), (2, 5, 3, zero), (3, 6, 1, one)]


def test_prices_are_lines_that_start_at_100(ax: Axes) -> None:
    price_lines(ax, PRICES)
    shown = {str(line.get_label()): points(line)[1] for line in ax.lines}
    assert shown == {"IBM": [100.0, pytest.approx(110.0)], "V": [100.0, 80.0]}
    assert words(ax) == ("event_time, UTC", "price, the first = 100", "Prices by ticker")


@pytest.mark.parametrize(("draw", "rows"), PICTURES)
def test_a_picture_is_drawn_where_it_should_and_is_always_the_same(
    draw: Callable[[Axes, pd.DataFrame], Axes], rows: pd.DataFrame
) -> None:
    pictures, before = [], rows.copy(deep=True)
    for _ in range(2):
        canvas = FigureCanvasAgg(Figure())
        given, beside = canvas.figure.subplots(1, 2)
        assert draw(given, rows) is given
        assert not beside.has_data()
        canvas.draw()
        pictures.append(bytes(canvas.buffer_rgba()))
    assert pictures[0] == pictures[1]
    pd.testing.assert_frame_equal(rows, before)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seconds", [1, 60, 1_000, 10_000, 40_000, 200_000])
def test_prices_of_seconds_and_of_days_have_a_few_instants_below(ax: Axes, seconds: float) -> None:
    rows = [(at(0), "IBM", 120.0), (at(seconds), "IBM", 132.0)]
    price_lines(ax, pd.DataFrame(rows, columns=["event_time", "ticker", "price"]))
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    assert 2 <= len(ax.get_xticks()) <= 9


def test_a_chart_is_described_by_its_words() -> None:
    figure, (left, middle, right) = plt.subplots(1, 3)
    batch_durations(left, PROGRESS)
    rows = [[f"s={number}", "base", 2048] for number in range(10)]
    file_sizes(middle, pd.DataFrame(rows, columns=["partition", "kind", "size"]))
    pd.DataFrame({"KB": [1, 2]}, index=["all", "half"]).plot.barh(ax=right, title="Read")
    figure.canvas.draw()
    assert described(figure) == (
        "Chart: Where a micro-batch's time goes; across: micro-batch; up: seconds; "
        "series: addBatch, walCommit, queryPlanning, other. "
        "Data files by partition; across: KB; up: s=0 to s=9; series: base file. "
        "Read; up: all, half; series: KB"
    )
    plt.close(figure)
