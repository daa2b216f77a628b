"""How a notebook shows a DataFrame: Spark's table of its rows, or the columns of a stream."""

from __future__ import annotations

from IPython.core.getipython import get_ipython
from pyspark.sql import DataFrame


def columns_of(frame: DataFrame) -> str:
    """Return names and types of a DataFrame's columns, without a query."""
    return f"DataFrame[{', '.join(map(': '.join, frame.dtypes))}]"


def show_streams_as_columns() -> None:
    """Let this notebook show a streaming DataFrame: its rows, which Spark tries to show, raise."""
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        return
    formatters = shell.display_formatter.formatters
    formatters["text/plain"].for_type(
        DataFrame,
        lambda frame, printer, _: printer.text(
            columns_of(frame) if frame.isStreaming else repr(frame).rstrip()
        ),
    )
    formatters["text/html"].for_type(
        DataFrame, lambda frame: None if frame.isStreaming else frame._repr_html_()
    )
