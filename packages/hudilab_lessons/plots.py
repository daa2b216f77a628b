"""Plots of DataFrames: each function draws on the given axes and returns them.

`start` lets a notebook store what `described` returns with each picture, as alternative text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import pandas as pd
from IPython.core.getipython import get_ipython
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FuncFormatter, MaxNLocator

# The colours of Okabe and Ito, which colour-blind readers can distinguish, unlike
# the orange, green and red of matplotlib.
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000")
_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _VERMILION, _BLACK = SERIES
_REST = "#cccccc"
_COLOURS = {
    "commit": _BLUE,
    "deltacommit": _SKY,
    "clean": _BLACK,
    "rollback": _VERMILION,
    "restore": _PURPLE,
    "compaction": _PURPLE,
    "replacecommit": _ORANGE,
    "clustering": _ORANGE,
    "savepoint": _GREEN,
}
_FILES = {"base": _BLUE, "log": _ORANGE}


def timeline(ax: Axes, instants: pd.DataFrame) -> Axes:
    """Draw each instant from requested (hollow) to completed (full), one row per kind of action.

    An instant that is not completed is a hollow mark with a dotted line to the right end.

    Args:
        instants: Columns action, state, requested, completed, as
            `hudilab_lessons.timeline.instants` returns them.
    """
    actions = list(dict.fromkeys(instants["action"]))
    last = instants[["requested", "completed"]].max().max()
    # Further right than anything completed, so that the newest open instant has a line too.
    end = last + max((last - instants["requested"].min()) / 10, pd.Timedelta(seconds=1))
    for row in cast(Any, instants.itertuples()):
        level, colour = actions.index(row.action), _COLOURS.get(str(row.action), _REST)
        open_end = pd.isna(row.completed)
        ax.plot(
            [row.requested, end if open_end else row.completed],
            [level, level],
            color=colour,
            linewidth=1 if open_end else 5,
            linestyle=":" if open_end else "-",
            solid_capstyle="butt",
            alpha=0.6,
        )
        ax.plot(row.requested, level, "o", markerfacecolor="white", color=colour)
        if not open_end:
            ax.plot(row.completed, level, "o", color=colour)
    ax.set_yticks(range(len(actions)), actions)
    ax.set_ylim(len(actions) - 0.4, -0.6)
    _seconds_below(ax)
    ax.set(xlabel="UTC", title="Hudi timeline: requested (hollow) to completed (full)")
    ax.grid(axis="x", alpha=0.3)
    return ax


def timelines(frames: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw timelines below each other with one time axis, each under its title: see `timeline`."""
    height = 0.6 + 1.15 * len(frames)
    figure, rows = plt.subplots(
        len(frames), 1, sharex=True, squeeze=False, figsize=(9, height), layout="constrained"
    )
    for axes, (title, instants) in zip(rows.flat, frames.items(), strict=True):
        timeline(axes, instants).set(title=title, xlabel="")
    rows.flat[-1].set_xlabel("UTC")
    return figure


def stacked_files(ax: Axes, steps: Mapping[str, pd.DataFrame]) -> Axes:
    """Stack one partition's files after each step, the oldest at the bottom, coloured by kind.

    A base file begins a slice. `steps`: for each step, files as `timeline.data_files` returns them.
    """
    for step, files in steps.items():
        bottom = 0.0
        for row in cast(Any, files.sort_values(["instant", "kind"]).itertuples()):
            kilobytes = row.size / 1024
            ax.bar(step, kilobytes, 0.7, bottom, color=_FILES[str(row.kind)], edgecolor="white")
            bottom += kilobytes
    for kind, colour in _FILES.items():
        ax.bar(0, 0, color=colour, label=f"{kind} file")
    ax.set(ylabel="KB", title="Files after each step, the oldest at the bottom")
    ax.legend(loc="upper left")
    return ax


def by_batch(axes: Iterable[Axes], measured: pd.DataFrame, columns: Iterable[str]) -> None:
    """Draw a chart for each column, with a line per table over its batches.

    `measured`: columns table and batch, and those to draw.
    """
    for ax, column in zip(axes, columns, strict=True):
        ax.set_prop_cycle(color=SERIES)
        for table, rows in measured.groupby("table", sort=False):
            ax.plot(rows["batch"], rows[column], marker="o", markersize=4, label=str(table))
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(xlabel="batch", ylabel="KB", title=column)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize="small")


def ranges(axes: Iterable[Axes], states: Mapping[str, pd.DataFrame], column: str) -> None:
    """Draw a chart for each state of a table: each file's lowest to highest value of a column.

    `states`: by their titles; a row for each file, with the columns lowest and highest.
    """
    for ax, (title, files) in zip(axes, states.items(), strict=True):
        low, high = (files[name].astype(float) for name in ("lowest", "highest"))
        ax.barh(range(len(files)), high - low, left=low, color=_BLUE)
        ax.use_sticky_edges = False  # room left of the lowest bar
        ax.set_yticks(range(len(files)), [f"file {number}" for number in range(1, len(files) + 1)])
        ax.invert_yaxis()
        ax.set(xlabel=column, title=title)
        ax.grid(axis="x", alpha=0.3)


def task_times(ax: Axes, tasks: pd.DataFrame, *, by: str = "stage") -> Axes:
    """Draw a bar from start to end of each task, in seconds since the first start.

    Args:
        tasks: Columns stage, started, ended (instants), one row per task.
        by: The column to colour by.
    """
    rows = tasks.sort_values(["stage", "started"], ignore_index=True)
    begin = rows["started"].min()
    left, right = ((rows[name] - begin).dt.total_seconds() for name in ("started", "ended"))
    for number, value in enumerate(sorted(rows[by].unique())):
        group = rows[by] == value
        bars = left[group].index, (right - left)[group]
        ax.barh(*bars, left=left[group], color=SERIES[number % len(SERIES)], label=f"{by} {value}")
    ax.set_yticks(rows.index, [f"task {number}" for number in rows.index + 1])
    ax.invert_yaxis()
    ax.set(xlabel="seconds", title="When each task ran")
    ax.legend()
    return ax


def described(figure: Figure) -> str:
    """Return what a drawn figure shows: titles, axes, names of rows and series."""
    charts = [_described(axes) for axes in figure.axes if axes.get_visible()]
    return "Chart: " + ". ".join(filter(None, charts))


def _described(axes: Axes) -> str:
    legend = axes.get_legend()
    series = [text.get_text() for text in legend.get_texts()] if legend else []
    across, up = (_named(axis) for axis in (axes.xaxis, axes.yaxis))
    parts = (
        axes.get_title(),
        across and f"across: {across}",
        up and f"up: {up}",
        series and f"series: {', '.join(series)}",
    )
    return "; ".join(part for part in parts if part)


def _named(axis: Axis) -> str:
    """Return an axis's label, with the names along it if these are words."""
    names = [text.get_text() for text in axis.get_ticklabels()]
    named = isinstance(axis.get_major_formatter(), (FixedFormatter, FuncFormatter))
    if not named or not any(names):
        return axis.get_label_text()
    listed = ", ".join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]}"
    return f"{axis.get_label_text()} {listed}".strip()


def describe_pictures() -> None:
    """Store `described` with each picture of this notebook; outside of a notebook, do nothing."""
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        return
    import matplotlib_inline.backend_inline  # noqa: F401  registers the drawing of figures

    formatter = shell.display_formatter.formatters["image/png"]
    draw = formatter.for_type(Figure)

    def with_text(figure: Figure) -> Any:
        drawn = draw(figure)
        data, metadata = drawn if isinstance(drawn, tuple) else (drawn, {})
        return data and (data, metadata | {"alt": described(figure)})

    if draw is not None:  # else another backend draws
        formatter.for_type(Figure, with_text)


def _seconds_below(ax: Axes) -> None:
    """Label the time axis to the second, with at most nine labels; ten run into each other."""
    ticks = mdates.AutoDateLocator(minticks=2, maxticks=9)
    ax.xaxis.set_major_locator(ticks)
    ax.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M:%S"))
