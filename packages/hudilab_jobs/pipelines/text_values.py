"""Convert text in files and messages to values exactly, or to NULL.

Spark's own readers change some values: they round decimals, drop commas (`1,50` becomes 150), and
read 12:30 as a time of today, a whole number as seconds, and BST as Bangladesh's time. All
functions accept and return SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}  # microseconds
LAST_SECOND = 253_402_300_799  # of the year 9999
LAST_DAY = LAST_SECOND // 86_400
TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATS = (T.FloatType, T.DoubleType)
SPECIAL_NUMBERS = (
    "'nan', '+nan', '-nan', 'inf', '+inf', '-inf', 'infinity', '+infinity', '-infinity'"
)
SPECIAL = {"nanvalue": "NaN", "positiveinf": "inf", "negativeinf": "-inf"}
_CONTROLS = r"\\p{Cc}"
_DAY = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = "[T ][0-9]{1,2}(:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?"
_OFFSET = "[+-][0-9]{2}([0-9]{2}([0-9]{2})?|:[0-9]{2}(:[0-9]{2})?)?"
# The default formats of times. Spark also accepts 2026, 202601, 12:30, and the names of zones,
# whose local times may be ambiguous or not exist. It drops the time of a DATE, and the zone of a
# TIMESTAMP_NTZ.
_ISO = {
    "date": f"{_DAY}([T ]00:00(:00([.]0+)?)?)?(Z|[+]00:00)?",
    "timestamp": f"{_DAY}({_CLOCK}( ?(Z|UTC|{_OFFSET}))?)?",
    "timestamp_ntz": f"{_DAY}({_CLOCK})?",
}
_FAR_YEAR = "(^|[^0-9])[+-][0-9]{5}"  # a year of more than four digits, which may overflow
_END = r"\z"  # unlike $, doesn't match before a line break
_FINER = "[.][0-9]{6}[0-9]*?[1-9]"
SHOWN = 100  # characters of a value in a message
PROBLEM_TYPE = "STRUCT<problem STRING, remedy STRING>"
Case = tuple[str, str, str]  # a condition, the problem that it means, and the remedy, all in SQL
FIX_PROGRAM = "correct the program that wrote it"
RECODE = "declare the file's encoding in source.options"


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """Return a column's name in SQL quotes."""
    return "`" + name.replace("`", "``") + "`"


def decoded(raw: str, charset: str) -> tuple[str, str]:
    """Return bytes as text, and the condition that some are invalid in the encoding."""
    text, raw = f"decode(CAST({raw} AS BINARY), {literal(charset)})", f"CAST({raw} AS BINARY)"
    if charset.upper() in ("UTF-8", "UTF8"):
        return f"CAST({raw} AS STRING)", f"{text} <> CAST({raw} AS STRING)"
    if charset.upper().startswith(("UTF-16", "UTF-32")):  # a byte-order mark may differ
        return text, f"contains({text}, '\\ufffd')"
    return text, f"encode({text}, {literal(charset)}) <> {raw}"


def problem_of(cases: Iterable[Case]) -> str:
    """Return `PROBLEM_TYPE` of the first true condition, or NULL."""
    return f"CASE {' '.join(f'WHEN {when} THEN {both(*texts)}' for when, *texts in cases)} END"


def both(problem: str, remedy: str) -> str:
    """Return a problem and its remedy as `PROBLEM_TYPE`."""
    return f"named_struct('problem', {problem}, 'remedy', {remedy})"


def one_line(problem: str) -> str:
    """Return a `PROBLEM_TYPE` as the text that users see; NULL if it is NULL."""
    text = f"concat_ws('; ', {problem}.problem, {problem}.remedy)"
    return f"if({problem} IS NULL, NULL, {text})"


def shown(problem: str, text: str) -> str:
    """Return a problem with the start of a text, on one line."""
    return f"concat({literal(problem)}, translate(left({text}, {SHOWN}), '\\n\\r', '  '))"


def named(text: str, start: str | None = None) -> str:
    """Return the start of a text for a message, or a description of an invisible text.

    Args:
        start: The text to show, by default the start of `text`.
    """
    blank = f"WHEN trim({text}) = '' THEN 'nothing but blanks'"
    start = f"left({start or text}, {SHOWN})"
    return f"CASE WHEN {text} = '' THEN 'an empty text' {blank} ELSE {start} END"


def encoding_problem(charset: str, recode: str = RECODE) -> tuple[str, str]:
    """Return the problem of invalid bytes, and the remedy."""
    remedy = f"{recode}, such as encoding=ISO-8859-1"
    return literal(f"it has a byte that is not {charset}"), literal(remedy)


@dataclass(frozen=True)
class Numbers:
    """A locale's separators of thousands and decimals."""

    thousands: str
    decimals: str

    def plain(self, text: str) -> str:
        """Return the number with a point and no other separator; other texts stay invalid."""
        group, point = (f"[{mark}]" for mark in (self.thousands, self.decimals))
        form = f"^[+-]?([0-9]+|[0-9]{{1,3}}({group}[0-9]{{3}})+)({point}[0-9]*)?$"
        bare = f"replace({text}, {literal(self.thousands)}, '')"
        bare = f"replace({bare}, {literal(self.decimals)}, '.')"
        return f"if({text} RLIKE {literal(form)}, {bare}, 'no number')"


@dataclass(frozen=True)
class Texts:
    """The conversion of texts to values.

    Attributes:
        options: The options of Spark's reader, with lower-case names.
        unit: The unit of a time as a whole number since 1970: `s`, `ms` or `us`.
        numbers: A locale's separators, if any.
        debezium: Whether a DATE may be a number of days since 1970, and a local time may end in Z.
    """

    options: Mapping[str, str]
    unit: str | None = None
    numbers: Numbers | None = None
    debezium: bool = False

    @property
    def charset(self) -> str:
        """The encoding of the texts."""
        return self.options.get("encoding", self.options.get("charset", "UTF-8"))

    def value(self, text: str, kind: T.DataType) -> str:
        """Return the exact value of a text, or NULL."""
        if isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
            return text
        if isinstance(kind, T.BinaryType):
            return f"CAST({text} AS BINARY)"
        # Spark would trim control characters.
        return f"if({text} RLIKE '{_CONTROLS}', NULL, {self._value(text, kind)})"

    def _value(self, text: str, kind: T.DataType) -> str:
        if isinstance(kind, TIMES):
            return self._time(f"trim({text})", kind)
        name = kind.simpleString()
        if isinstance(kind, (T.DecimalType, *FLOATS, *INTEGERS)):
            plain = self.numbers.plain(f"trim({text})") if self.numbers else f"trim({text})"
            if isinstance(kind, T.DecimalType):
                return _decimal(plain, kind)
            if isinstance(kind, FLOATS):
                return self._floating(text, plain, name)
            text = plain
        return f"try_cast({text} AS {name})"

    def _floating(self, text: str, plain: str, name: str) -> str:
        number = f"try_cast({plain} AS {name})"
        # Java accepts 1d and 0x1p3 as numbers, and 1e400 as infinity.
        decimal = f"substring({plain}, -1, 1) <= '9' AND NOT contains(lower({plain}), 'x')"
        finite = f"{decimal} AND abs({number}) < double('inf')"
        value = f"if(({finite}) OR lower({plain}) IN ({SPECIAL_NUMBERS}), {number}, NULL)"
        for option, special in SPECIAL.items():
            if option in self.options:
                mark = literal(self.options[option])
                value = f"if({text} = {mark}, {name}('{special}'), {value})"
        return value

    def _time(self, text: str, kind: T.DataType) -> str:
        name = kind.simpleString()
        option = f"{name.replace('_', '')}format"
        if option in self.options:
            value = _by_pattern(text, kind, self.options[option])
        else:
            form = _ISO[name]
            if self.debezium and name == "timestamp_ntz":
                form += "Z?"
            exact = f"left({text}, 10)" if name == "date" else text  # without Debezium's Z
            is_iso = f"{text} RLIKE {literal(f'^{form}{_END}')}"
            value = f"if({is_iso}, try_cast({exact} AS {name}), NULL)"
        if name != "date":  # Spark truncates nanoseconds
            value = f"if(length({text}) > 21 AND {text} RLIKE '{_FINER}', NULL, {value})"
        if self.debezium and name == "date":
            number = f"try_cast({text} AS INT)"
            days = f"if({number} BETWEEN -{LAST_DAY} AND {LAST_DAY}, {number}, NULL)"
            days = f"date_from_unix_date({days})"
            return f"if({text} RLIKE '^[+-]?[0-9]+$', {days}, {value})"
        if self.unit is None:
            return value
        number, factor = f"try_cast({text} AS BIGINT)", UNITS[self.unit]
        last = LAST_SECOND * (1_000_000 // factor)
        counted = f"if({number} BETWEEN -{last} AND {last}, {number}, NULL)"
        counted = f"timestamp_micros({counted} * {factor}L)"
        if name != "timestamp":
            day = f"CAST({counted} AS {name})"
            counted = f"if(CAST({day} AS timestamp) = {counted}, {day}, NULL)"
        return f"if({text} RLIKE '^[+-]?[0-9]+$', {counted}, {value})"


def remedy_for(kind: T.DataType, *, json: bool = False) -> str:
    """Return the remedy for a text that isn't a value of this type."""
    if isinstance(kind, TIMES):
        return (
            "correct it, or set the format: timestampFormat=... or dateFormat=... in "
            "source.options, or timestamp.unit (s, ms or us) for whole numbers; STRING in "
            "source.schema and CAST(... AS TIMESTAMP) in select truncate nanoseconds"
        )
    if isinstance(kind, (T.DecimalType, *FLOATS, *INTEGERS)):
        if json:
            return "correct it, or source.schema: a STRING keeps a number's digits"
        return "correct it, source.schema, or source.options (locale=de-DE reads 1.234,50)"
    return "correct it, or source.schema"


def _by_pattern(text: str, kind: T.DataType, pattern: str) -> str:
    """Return a time in one of Spark's patterns; NULL for other texts.

    Spark raises an error for a text that only the parser of Spark 2 accepts. That parser reads an
    empty optional part, `[]`, as two literal characters, so with it, it accepts no text.
    """
    unsafe = f"startswith({text}, '[') OR {text} RLIKE '{_FAR_YEAR}'"
    moment = f"if({unsafe}, NULL, try_to_timestamp({text}, {literal('[]' + pattern)}))"
    if isinstance(kind, T.DateType):
        return f"if({moment} = date_trunc('DAY', {moment}), CAST({moment} AS DATE), NULL)"
    return f"CAST({moment} AS {kind.simpleString()})"


def _decimal(text: str, kind: T.DecimalType) -> str:
    """Return a decimal, or NULL if it would be rounded."""
    value, scale = f"try_cast({text} AS {kind.simpleString()})", kind.scale
    short = f"instr({text}, '.') = 0 OR length({text}) - instr({text}, '.') <= {scale}"
    plain = f"{short} OR {text} RLIKE '^[+-]?[0-9]*[.][0-9]{{0,{scale}}}0*$'"
    # 12.50e1: of its 2 decimals, 1 is a zero, and 1 is before the point of 125.0.
    mantissa = f"substring_index(lower({text}), 'e', 1)"
    exponent = f"try_cast(substring_index(lower({text}), 'e', -1) AS TINYINT)"
    digits = f"replace({mantissa}, '.', '')"
    decimals = f"if(contains({mantissa}, '.'), length({mantissa}) - instr({mantissa}, '.'), 0)"
    zeros = f"length({digits}) - length(trim(TRAILING '0' FROM {digits}))"
    moved = f"{decimals} - ({zeros}) - {exponent} <= {scale}"
    moved += f" OR {exponent} IS NOT NULL AND NOT {digits} RLIKE '[1-9]'"
    return f"if(if(contains(lower({text}), 'e'), {moved}, {plain}), {value}, NULL)"
