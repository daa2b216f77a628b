"""CSV files as other programs write them: lines as rows, each with its problem if it has one.

Spark's own reader treats a backslash as an escape, truncates or pads lines with the wrong number of
fields, ignores the header, and reads each byte outside of the encoding as the same character. So it
only splits files into lines here.

A line whose quotes are wrong may be a part of a row. The next lines may be parts of it, too, and
look like rows, so no mode and no quarantine goes past such a line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hudi_sink.rows import refuse
from hudilab_jobs.pipelines.text_values import (
    SHOWN,
    Case,
    Texts,
    decoded,
    encoding_problem,
    literal,
    named,
    problem_of,
    quoted,
    remedy_for,
    shown,
)

ROW, PROBLEM, TEXT = "csv_row", "csv_problem", "csv_text"
_LINE, _FIELDS, _WRONG, _MORE = "_csv_line", "_csv_fields", "_csv_wrong", "_csv_more"
_RAW = f"encode({_LINE}, 'ISO-8859-1')"  # the line's bytes
# What no field holds: an empty field is NULL, and "" is an empty text.
NOTHING = "\0\n\0 no text \0"
_END = "\uffff"  # what Spark's parser takes for the end of the text
# No quote or escape of Spark's parser: Unicode reserves it, so a text that has it is refused.
_NO_QUOTE = "\ufdd0"
_OPEN = "a quoted field does not end where the field or its line does, so more may belong to it: "
_CLOSE = (
    "correct or remove the line; fields that contain line breaks need multiLine=true in "
    "source.options, quotes with a backslash 'escape=\\', and quotes that mean nothing quote="
)
_CLOSE_WHOLE = (
    "correct the quotes; those with a backslash need 'escape=\\' in source.options, and those that "
    "mean nothing quote="
)
_MARKS = {r"\t": "\t", r"\\": "\\", r"\'": "'", r"\"": '"', r"\u0000": "\0"}
BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class Form(NamedTuple):
    """What the first line of a file determines for the others.

    Attributes:
        order: The place of each column of the schema in a line; empty if it is the schema's own.
        line_end: What ends a row, if rows may contain line breaks; else Spark finds each.
    """

    order: tuple[int, ...] = ()
    line_end: str = ""


def _most_fields(schema: T.StructType) -> int:
    return max(1_000_000, 2 * len(schema))


@dataclass(frozen=True)
class Dialect:
    """How a group's files are written, by the options of Spark's CSV reader."""

    texts: Texts

    def option(self, name: str, default: str) -> str:
        """Return an option, by its name in lower case."""
        return self.texts.options.get(name, default)

    @property
    def sep(self) -> str:
        """What separates fields."""
        sep = self.option("sep", self.option("delimiter", ","))
        return _MARKS.get(sep, sep)

    @property
    def quote(self) -> str:
        """The quote; empty for none."""
        return self.option("quote", '"')

    @property
    def has_header(self) -> bool:
        """Whether the first line of each file names the columns."""
        return self.option("header", "true").lower() == "true"

    def trims(self, end: str) -> bool:
        """Return whether `leading` or `trailing` blanks of fields are ignored."""
        return self.option(f"ignore{end}whitespace", "false").lower() == "true"

    @property
    def whole(self) -> bool:
        """Whether Spark reads a file in one piece, because a row may have several lines."""
        wide = self.texts.charset.upper().startswith(("UTF-16", "UTF-32"))
        return wide or self.option("multiline", "false").lower() == "true"

    @property
    def line(self) -> str:
        """The SQL of a line's text, in hex if it is not of the encoding; unless `whole`."""
        _, is_wrong = decoded(_RAW, self.texts.charset)
        return f"if({is_wrong}, hex({_RAW}), {TEXT})"

    def rows(
        self,
        reader: Any,
        path: str | list[str],
        schema: T.StructType,
        *,
        line_end: str = "",
        orders: Mapping[tuple[int, ...], Collection[str]] | None = None,
        file: str = "''",
    ) -> DataFrame:
        """Return the files' lines: `csv_row STRUCT` of the schema, `csv_problem`, `csv_text`.

        csv_row has NULL for what does not fit. csv_problem: STRUCT<problem STRING, remedy STRING>,
        or NULL. csv_text: the line.

        Args:
            reader: Of a DataFrame or a stream, with the group's options.
            line_end: See `Form`; empty: a line break.
            orders: `Form.order` -> files, for those whose columns have another order.
            file: The SQL of a row's file.

        A line whose quotes are wrong is an error of Spark's, see `hudi_sink.rows.refused_row`.
        """
        reader = reader.format("csv").option("header", str(self.has_header).lower())
        reader = reader.option("mode", "PERMISSIVE").option("columnPruning", "false")
        reader = reader.option("enforceSchema", "true")  # `header_problem` has compared the header
        if self.whole:
            rows = self._of_whole_files(reader, path, schema, line_end, file)
            check = f"contains({TEXT}, '\\ufffd')"
        else:
            # A line is one field, and a character is a byte, so that all bytes can be checked. No
            # line has the character that ends it. Spark's parser would take the first half of a
            # separator at the end of a line for the start of the next, and "" for NUL as a quote.
            # Spark's format `text` keeps the bytes, too, but not which line is a file's header.
            end = self.option("linesep", "\n")
            raw = {"sep": f"{end[0]}\0", "quote": end[0], "escape": end[0]}
            raw |= {"encoding": "ISO-8859-1"}
            raw |= {"nullValue": NOTHING, "emptyValue": "", "multiLine": "false"}
            raw |= {"maxCharsPerColumn": "-1"}
            raw |= {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
            rows = reader.options(**raw).schema(f"{_LINE} STRING").load(path)
            is_ascii = f"octet_length({_LINE}) = length({_LINE})"
            text, check = decoded(_RAW, self.texts.charset)
            check = f"NOT ({is_ascii}) AND {check}"
            rows = rows.withColumn(TEXT, F.expr(f"if({is_ascii}, {_LINE}, {text})"))
            rows = rows.where(self._quotes_are_right(file))
            parser = self._parser() | {"columnNameOfCorruptRecord": _WRONG}
            ddl = ", ".join(f"{quoted(name)} STRING" for name in (*schema.names, _WRONG))
            # With the rest of a line that has U+FFFF, the parser would begin the next line, and for
            # a line of more fields than `maxColumns`, it raises an error.
            parser["maxColumns"] = str(_most_fields(schema) + 1)
            unfit = f"contains({TEXT}, '{_END}') OR {self._has_many_fields(schema)}"
            line = F.expr(f"if({unfit}, NULL, {TEXT})")
            rows = rows.withColumn(_FIELDS, F.from_csv(line, ddl, parser))
        for order, files in (orders or {}).items():
            moves = (
                f"{literal(schema[n].name)}, {_FIELDS}.{quoted(schema[place].name)}"
                for n, place in enumerate(order)
            )
            moved = f"named_struct({', '.join(moves)}, '{_WRONG}', {_FIELDS}.{_WRONG})"
            those = f"{file} IN ({', '.join(map(literal, files))})"
            rows = rows.withColumn(_FIELDS, F.expr(f"if({those}, {moved}, {_FIELDS})"))
        values = [
            f"{literal(field.name)}, {self._value(f'{_FIELDS}.{quoted(field.name)}', field)}"
            for field in schema
        ]
        rows = rows.withColumn(ROW, F.expr(f"named_struct({', '.join(values)})"))
        cases = [(check, *encoding_problem(self.texts.charset)), *self._cases(schema)]
        checked: DataFrame = rows.withColumn(PROBLEM, F.expr(problem_of(cases)))
        return checked

    def _of_whole_files(
        self, reader: Any, path: str | list[str], schema: T.StructType, line_end: str, file: str
    ) -> DataFrame:
        """Return the rows of files that Spark reads in one piece: their fields and their text."""
        rows = reader.options(**self._parser()).option("encoding", self.texts.charset)
        rows = rows.option("multiLine", "true").option("columnNameOfCorruptRecord", _WRONG)
        # Without a line end, Spark would turn those in fields into line breaks.
        end = self.option("linesep", line_end or "\n")
        rows = rows.option("lineSep", end)
        # With one more column, Spark calls each row wrong, so it returns the text with quotes.
        names = [quoted(name) for name in (*schema.names, _MORE)]
        ddl = ", ".join(f"{name} STRING" for name in (*names, quoted(_WRONG)))
        rows = rows.schema(ddl).load(path)
        each = (f"coalesce({name}, '')" for name in names)
        # Of the ends of lines, Spark takes only \n and \r\n off this text.
        rest = f"left({_WRONG}, length({_WRONG}) - {len(end)})"
        rows = rows.withColumn(
            _WRONG, F.expr(f"if(endswith({_WRONG}, {literal(end)}), {rest}, {_WRONG})")
        )
        text = f"coalesce({_WRONG}, concat_ws({literal(self.sep)}, {', '.join(each)}))"
        rows = rows.withColumn(TEXT, F.expr(text)).where(self._quotes_are_right(file))
        is_row = f"{_WRONG} RLIKE {literal(self._grammar(len(schema)))}"
        wrong = f"if({is_row}, NULL, {TEXT}) AS {_WRONG}"
        last = names[len(schema) - 1]
        text = f"if(endswith({last}, '\\r'), concat({TEXT}, '\\r'), {TEXT})"
        struct = f"struct({', '.join(names[: len(schema)])}, {wrong})"
        lines: DataFrame = rows.select(F.expr(struct).alias(_FIELDS), F.expr(text).alias(TEXT))
        return lines

    def _value(self, text: str, field: T.StructField) -> str:
        if isinstance(field.dataType, T.StringType):
            return text
        return self.texts.value(f"nullif({text}, '')", field.dataType)

    def _parser(self) -> dict[str, str]:
        quote = self.quote or _NO_QUOTE
        form = {
            "quote": quote,
            "escape": self.option("escape", quote) or _NO_QUOTE,
            "sep": self.sep,
        }
        if quote == form["escape"]:  # else a zero byte in quotes is another escape
            form["charToEscapeQuoteEscaping"] = _NO_QUOTE
        own = {"nullvalue": NOTHING, "emptyvalue": ""}
        given = {
            name: value
            for name, value in self.texts.options.items()
            if name not in ("delimiter", "charset", "encoding", "columnnameofcorruptrecord")
        }
        return own | given | form | {"mode": "PERMISSIVE"}

    def _cases(self, schema: T.StructType) -> Iterator[Case]:
        """Yield conditions that a line must not meet, each with the problem and its remedy."""
        if not self.whole:
            yield (
                f"contains({TEXT}, '{_END}')",
                shown("it has the character U+FFFF, Spark's mark of an end: ", TEXT),
                literal("remove it"),
            )
        yield (
            f"contains({TEXT}, '{_NO_QUOTE}')",
            shown("it has the character U+FDD0, which Unicode reserves: ", TEXT),
            literal("remove it"),
        )
        if self.whole:
            yield (
                f"endswith({TEXT}, '\\r')",
                shown(
                    "its last field ends with a carriage return, so not all lines end alike: ", TEXT
                ),
                literal("rewrite the file with the same end of each line"),
            )
        too_many = "false" if self.whole else self._has_many_fields(schema)
        yield (
            f"{_FIELDS}.{_WRONG} IS NOT NULL OR {too_many}",
            shown(
                f"the line does not have the {len(schema)} fields of source.schema, separated by "
                f"{self.sep!r}: ",
                TEXT,
            ),
            literal("complete the line, or correct source.schema or sep=... in source.options"),
        )
        for field in schema:
            if isinstance(field.dataType, T.StringType):
                continue
            text, name = f"{_FIELDS}.{quoted(field.name)}", quoted(field.name)
            kind = field.dataType.simpleString().upper()
            yield (
                f"{text} <> '' AND {ROW}.{name} IS NULL",
                f"concat({literal(f'column {field.name} has ')}, {named(text)}, "
                f"{shown(f', which is not {kind}, in the line ', TEXT)})",
                literal(remedy_for(field.dataType)),
            )

    def _has_many_fields(self, schema: T.StructType) -> str:
        """Return the SQL of whether a line has more separators than Spark's parser may count."""
        most, sep = _most_fields(schema), literal(self.sep)
        others = f"length({TEXT}) - length(replace({TEXT}, {sep}, ''))"
        return f"(length({TEXT}) > {most} AND {others} >= {most * len(self.sep)})"

    def _quotes_are_right(self, file: str) -> Column:
        """Return a condition that is true, or an error, because a row may go on in other lines."""
        if not self.quote:
            return F.lit(True)
        right = f"NOT contains({TEXT}, {literal(self.quote)}) OR "
        right += f"{TEXT} RLIKE {literal(self._grammar())}"
        problem = F.expr(f"concat({file}, ': ', {shown(_OPEN, TEXT)})")
        error = refuse(problem, F.lit(_CLOSE_WHOLE if self.whole else _CLOSE))
        return F.when(F.expr(right), True).otherwise(error)

    def _grammar(self, fields: int = 0) -> str:
        """Return a regular expression, of Java and Python, for a line whose quotes are right.

        It never goes back, so it takes neither time nor stack.

        Args:
            fields: How many the line has; 0 for any number.
        """
        quote, sep = self.quote, re.escape(self.sep)
        count = f"{{{fields - 1}}}+" if fields else "*+"
        if not quote:
            field = f"(?:(?!{sep}).)*+"
            return f"(?s)^{field}(?:{sep}{field}){count}(?!.)"
        escape, mark = self.option("escape", quote), re.escape(quote)
        inside = f"(?:[^{mark}]|{mark}{mark})*+"
        if escape not in (quote, ""):
            inside = f"(?:[^{mark}{re.escape(escape)}]|{re.escape(escape)}.)*+"
        blanks = rf"(?:(?!{sep})\s)*+"
        before, after = (blanks if self.trims(end) else "" for end in ("leading", "trailing"))
        plain = f"(?!{mark})(?:(?!{sep}).)*+"
        field = f"{before}(?:{mark}{inside}{mark}{after}|{plain})"
        return f"(?s)^{field}(?:{sep}{field}){count}(?!.)"

    def header_problem(self, start: bytes, columns: Sequence[str]) -> tuple[str, str] | None:
        """Return the problem that a file's first bytes show, and the remedy, or None.

        Args:
            start: More than the first line; empty for an empty file.
        """
        mark = BYTE_ORDER_MARKS.get(start[:2])
        if mark and not self.texts.charset.upper().startswith(("UTF-16", "UTF-32")):
            return f"it is {mark}", f"write encoding={mark} into source.options"
        if not (line := self._first_line(start)):
            return None
        by_line = self.has_header and not self.whole
        if by_line and not re.match(self._grammar(), line):
            return f"{_OPEN}{line[:SHOWN]}", _CLOSE
        names = self._split(line)
        expected = [name.lower() for name in columns]
        actual = [name.lower() for name in names]
        if self.has_header == (sorted(actual) == sorted(expected)):
            return None
        if not self.has_header:
            return "its first line is a header", "write header=true into source.options"
        remedy = "rewrite the file, or correct source.schema; header=false for files without one"
        if not set(actual) & set(expected):
            return (
                f"its first line is not the header {', '.join(columns)}: {line[:SHOWN]}",
                remedy,
            )
        if missing := [name for name in columns if name.lower() not in actual]:
            problem = f"its header lacks {', '.join(missing)}"
        elif more := [name for name in names if name.lower() not in expected]:
            problem = f"its header also has {', '.join(more)}"
        else:
            problem = "its header has a column twice"
        return f"{problem}: {', '.join(names)[: 2 * SHOWN]}, not {', '.join(columns)}", remedy

    def form(self, start: bytes, columns: Sequence[str]) -> Form:
        """Return the form of a file without a `header_problem`."""
        order: tuple[int, ...] = ()
        if self.has_header and (line := self._first_line(start)):
            actual = [name.lower() for name in self._split(line)]
            order = tuple(actual.index(name.lower()) for name in columns)
        line_end = ""
        if self.whole and "linesep" not in self.texts.options:
            text = start.decode(self.texts.charset, "replace")
            if quote := re.escape(self.quote):
                escape = re.escape(self.option("escape", "")) or quote
                text = re.sub(f"(?s){quote}(?:{escape}{quote}|[^{quote}])*{quote}", "", text)
            ends = re.search(r"\r\n|\r|\n", text)
            line_end = ends[0] if ends else ""
        return Form(() if order == tuple(range(len(columns))) else order, line_end)

    def _first_line(self, start: bytes) -> str:
        """Return the first line that is neither blank nor a comment; empty without one."""
        text = start.decode(self.texts.charset, "replace").removeprefix("\ufeff")
        comment = self.option("comment", "")
        end = re.escape(self.option("linesep", "")) or r"\r\n|\r|\n"
        lines = (line for line in re.split(end, text) if line.strip())
        return next((line for line in lines if not (comment and line.startswith(comment))), "")

    def _split(self, line: str) -> list[str]:
        quote = self.quote
        if len(self.sep) != 1 or len(quote) > 1:
            return line.split(self.sep)
        names = next(
            csv.reader(
                [line], delimiter=self.sep, quotechar=quote or None, quoting=0 if quote else 3
            )
        )
        if self.trims("leading"):
            names = [name.lstrip() for name in names]
        if self.trims("trailing"):
            names = [name.rstrip() for name in names]
        return names
