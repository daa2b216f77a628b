"""Values of each type in every spelling, with what Python makes of them: an oracle for sources.

A generator takes a `random.Random`, so that a seed gives the same values again. A source must store
exactly the expected value, or refuse the row. An expected `REFUSED` must not be stored at all.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from math import isfinite, isnan
from random import Random
from typing import Any, NamedTuple


class _Refused:
    def __repr__(self) -> str:
        return "REFUSED"


REFUSED = _Refused()  # no value of the type is exactly this text


class Spelling(NamedTuple):
    """How a file holds a value, and the value: a Python object, or REFUSED.

    The text is that of a field of CSV, or of a value in JSON.
    """

    text: str
    value: Any


class Document(NamedTuple):
    """An object or array of JSON in a STRING column, whose text may have other blanks."""

    content: Any


WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
DECIMALS = (
    *((4, 1), (9, 0), (10, 2), (18, 18), (28, 6), (29, 2)),
    *((38, 0), (38, 2), (38, 18), (38, 38)),
)
FLOATS = ("FLOAT", "DOUBLE")
LEAVES = (
    *WHOLE,
    *(f"DECIMAL({precision},{scale})" for precision, scale in DECIMALS),
    *FLOATS,
    *("BOOLEAN", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY"),
)
# For JSON: types that hold others.
NESTED = (
    "ARRAY<DECIMAL(38,2)>",
    "ARRAY<STRING>",
    "MAP<STRING,BIGINT>",
    "MAP<STRING,ARRAY<DATE>>",
    "STRUCT<a:DOUBLE,b:ARRAY<STRUCT<t:TIMESTAMP,d:DECIMAL(10,2)>>>",
    "STRUCT<s:STRING,n:TIMESTAMP_NTZ,m:MAP<STRING,STRUCT<x:INT>>>",
)
CHARACTERS = (
    "abcXYZ 019,;:'\"\\/|#\t.-+{}[]äß€\u00a0\u2028\ufeff\ufffd\uffff\U0001f600\U0010ffff\x01\x7f"
)


# Expected values, by Python's own parsers


def whole(text: str, bits: int) -> Any:
    """Return the integer of a text; REFUSED if no type of this width holds it."""
    number = exact(text)
    most = 1 << (bits - 1)
    if number is None or number != int(number) or not -most <= number < most:
        return REFUSED
    return int(number)


def exact(text: str) -> Decimal | None:
    """Return the finite number of a text, with all its digits."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    # A number such as 1e999999999 has too many digits to compare.
    return number if number.is_finite() and abs(number.adjusted()) < 1000 else None


def decimal(text: str, precision: int, scale: int) -> Any:
    """Return the decimal of a text; REFUSED if it has more digits than the type."""
    number = exact(text)
    if number is None:
        return REFUSED
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    units = int("".join(map(str, digits))) * (-1 if sign else 1)
    if exponent + scale >= 0:
        units *= 10 ** (exponent + scale)
    else:
        units, rest = divmod(units, 10 ** -(exponent + scale))
        if rest:
            return REFUSED
    if abs(units) >= 10**precision:
        return REFUSED
    return Decimal(units).scaleb(-scale) if abs(units) < 10**28 else _shifted(units, scale)


def _shifted(units: int, scale: int) -> Decimal:
    """Return units of a scale, where `scaleb` would round to 28 digits."""
    digits = tuple(map(int, str(abs(units))))
    return Decimal((units < 0, digits, -scale))


def floating(text: str, kind: str) -> Any:
    """Return the float of a text; REFUSED if it is none, or a finite number becomes infinite."""
    try:
        number = float(text)
    except ValueError:
        return REFUSED
    if not isfinite(number):
        return number if exact(text) is None else REFUSED
    if kind == "DOUBLE":
        return number
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return REFUSED


# Spellings of CSV


def _digits(rng: Random, most: int) -> str:
    size = rng.choice((1, 2, 3, rng.randint(1, most), most, most))
    return "".join(rng.choice("0123456789") for _ in range(size))


def _number(rng: Random, before: int, after: int, *, loose: bool) -> str:
    """Return a number; `loose` ones also have plus signs, leading zeros and no digits at an end."""
    lead = _digits(rng, max(before, 1)) if before or rng.random() < 0.2 else "0"
    if not loose or rng.random() < 0.6:
        lead = lead.lstrip("0") or "0"
    text = rng.choice(("", "", "-", "+") if loose else ("", "", "-")) + lead
    if (after or rng.random() < 0.1) and rng.random() < 0.7:
        text += "." + _digits(rng, max(after, 1)) + rng.choice(("", "", "0", "000", "0" * 40))
    if rng.random() < 0.05:
        text += ("." if "." not in text else "") + "0" * rng.randint(1, 60) + rng.choice("01")
    if loose and rng.random() < 0.05:
        text = text.replace("0.", ".") if "." in text else f"{text}."
    if rng.random() < 0.25:
        sign, size = rng.choice(("", "+", "-")), rng.choice((0, 1, 2, 3, 18, 37, 100, 999999999))
        text += rng.choice("eE") + sign + rng.choice(("", "0")) + str(size)
    return text


def _whole(rng: Random, bits: int, *, loose: bool) -> str:
    most = 1 << (bits - 1)
    edges = (most, most - 1, -most, -most - 1, 2 * most, 2 * most - 1, 0)
    if rng.random() < 0.8:
        number = rng.choice((*edges, rng.randint(-most, most - 1), rng.randint(-99, 99)))
        sign = "+" if loose and number >= 0 and rng.random() < 0.1 else ""
        return sign + ("00" if loose and number > 0 and rng.random() < 0.1 else "") + str(number)
    return _number(rng, len(str(most)), 2, loose=loose)


_ODD_NUMBERS = (
    *("1,5", "1.234,50", "1,000", "1_000", "0x1F", "0x1p3", "1d", "5L", "12f", "--1", "1e", "e5"),
    *("", "-", "+", ".", "one", "1 2", "½", "\u0663", "1\u2019000", "1e5.5", "#1", "1\x00", "$1"),
    *("nan", "NaN", "inf", "-Infinity", "+inf", "Infinity", "INF", "-nan", "null", "None"),
)


def _time(rng: Random) -> str:
    return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"


def _day(rng: Random) -> date:
    if rng.random() < 0.3:
        days = ("0002-01-01", "1582-10-10", "1899-12-31", "1970-01-01", "2024-02-29", "9998-12-31")
        return date.fromisoformat(rng.choice(days))
    return date.fromordinal(rng.randint(date(2, 1, 1).toordinal(), date(9998, 12, 31).toordinal()))


def day(rng: Random) -> Spelling:
    """Return a DATE."""
    value, odd = _day(rng), rng.random()
    text = value.isoformat()
    if odd < 0.5:
        return Spelling(text, value)
    if odd < 0.7:
        end = rng.choice((" 00:00:00", "T00:00:00Z", "T00:00", " 00:00:00.000000", "Z", " "))
        return Spelling(text + end, value)
    if odd < 0.8:
        return Spelling(f"{text}{rng.choice('T ')}{_time(rng)[:-1]}1", REFUSED)
    if odd < 0.9:
        other = rng.choice((text.replace("-", ""), value.strftime("%G-W%V-%u")))
        # A program that reads these forms of ISO 8601 has the same day.
        return Spelling(other, value)
    wrong = ("2026-02-30", "2026-13-01", "2026-00-10", "26-1-1 9", "2026-1-1 9", "2026-1-1Tx", "x")
    more = ("2026", "2026-07", "12:30", "01/02/2026", "1767225600", "+12026-01-01", "2026-01-01x")
    return Spelling(rng.choice((*wrong, *more)), REFUSED)


def moment(rng: Random, *, local: bool) -> Spelling:
    """Return a TIMESTAMP, or with `local` a TIMESTAMP_NTZ."""
    if rng.random() < 0.08:
        wrong = ("12:30", "2026", "202607", "2026-07", "T10:00", "1767225600", "2026-02-30 10:00")
        more = ("2026-01-01 25:00:00", "2026-01-01 10:60", "01/02/2026 10:00", "now", "today", "x")
        return Spelling(rng.choice((*wrong, *more)), REFUSED)
    clock, fraction, zone = _time(rng), "", ""
    value = datetime.fromisoformat(f"{_day(rng).isoformat()} {clock}")
    if rng.random() < 0.1:
        clock, value = clock[:-3], value.replace(second=0)
    elif rng.random() < 0.6:
        fraction = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 9)))
        fraction = rng.choice((fraction, fraction, f"{fraction[:6]:0<6}000"))
        value += timedelta(microseconds=int(f"{fraction:0<6}"[:6]))
    offset = timedelta()
    if rng.random() < (0.1 if local else 0.6):
        minutes = rng.randint(-18 * 60, 18 * 60)
        offset = timedelta(minutes=minutes)
        sign, hours, minutes = "-+"[minutes >= 0], *divmod(abs(minutes), 60)
        spelled = (f"{sign}{hours:02}:{minutes:02}", f"{sign}{hours:02}{minutes:02}")
        zone = rng.choice(("Z", " UTC", *spelled, *spelled, *spelled))
        if zone in ("Z", " UTC"):
            offset = timedelta()
    text = f"{value.date()}{rng.choice('T ')}{clock}{'.' if fraction else ''}{fraction}{zone}"
    if fraction[6:].strip("0") or (local and zone):
        return Spelling(text, REFUSED)
    if local:
        return Spelling(text, value)
    return Spelling(text, value.replace(tzinfo=timezone(offset)).astimezone(UTC))


_TRUE = ("true", "TRUE", "True", "t", "yes", "y", "1")
_FALSE = ("false", "False", "f", "no", "N", "0")


def string(rng: Random, more: str = "") -> str:
    """Return a text of any characters; `more` are further ones."""
    size = rng.choice((0, 1, 2, 5, 20))
    text = "".join(rng.choice(CHARACTERS + more) for _ in range(size))
    return rng.choice((text, text, "NULL", "\\N", "null", "1.10", '"', '""', " x ", "\\", "=1+1"))


def spelling(rng: Random, kind: str, more: str = "") -> Spelling:
    """Return a value of a leaf type as a field of CSV; `more` are further characters of texts."""
    if kind == "STRING":
        text = string(rng, more)
        return Spelling(text, text)
    if kind == "BINARY":
        text = string(rng, more)
        return Spelling(text, text.encode())
    if kind == "BOOLEAN":
        known = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
        text = rng.choice((*known, *known, "ja", "2", "truee"))
        return Spelling(text, known.get(text, REFUSED))
    if kind == "DATE":
        return day(rng)
    if kind.startswith("TIMESTAMP"):
        return moment(rng, local=kind == "TIMESTAMP_NTZ")
    odd = rng.random()
    blank = rng.choice((" ", "  ")) if odd > 0.95 else ""
    if odd < 0.06:
        return numeric(rng.choice(_ODD_NUMBERS), kind)
    return numeric(blank + _spelled(rng, kind, loose=True) + blank, kind)


def numeric(text: str, kind: str) -> Spelling:
    """Return a text as a number of a type."""
    if kind in WHOLE:
        return Spelling(text, whole(text, WHOLE[kind]))
    if kind in FLOATS:
        return Spelling(text, floating(text, kind))
    precision, scale = map(int, re.findall("[0-9]+", kind))
    return Spelling(text, decimal(text, precision, scale))


def _spelled(rng: Random, kind: str, *, loose: bool) -> str:
    if kind in WHOLE:
        return _whole(rng, WHOLE[kind], loose=loose)
    if kind in FLOATS:
        bits = rng.getrandbits(64 if kind == "DOUBLE" else 32)
        form = ("d", "Q") if kind == "DOUBLE" else ("f", "I")
        (number,) = struct.unpack(form[0], struct.pack(form[1], bits))
        if isfinite(number) and rng.random() < 0.5:
            return repr(number)
        return _number(rng, rng.randint(1, 20), rng.randint(0, 20), loose=loose)
    precision, scale = map(int, re.findall("[0-9]+", kind))
    more = rng.choice((0, 0, 0, 0, 1, 9))
    return _number(rng, precision - scale + more // 9, scale + more, loose=loose)


# Spellings of JSON


def json_spelling(rng: Random, kind: str) -> Spelling:
    """Return a value of any type as JSON, which may have any valid form."""
    if rng.random() < 0.03:
        return Spelling("null", None)
    if kind.startswith(("ARRAY", "MAP", "STRUCT")):
        return _json_nested(rng, kind)
    if kind == "STRING":
        return _json_string(rng)
    if kind == "BINARY":
        content = rng.randbytes(rng.choice((0, 1, 2, 3, 10)))
        text = base64.b64encode(content).decode()
        if rng.random() < 0.1:
            text = rng.choice(("A", "A===", "????", "QQ", "Q Q ==", "-_=="))
            return Spelling(json.dumps(text), REFUSED)
        return Spelling(json.dumps(text), content)
    if kind == "BOOLEAN":
        text = rng.choice(("true", "false", "true", "false", '"true"', "1", "0", '""', "[]"))
        return Spelling(text, {"true": True, "false": False}.get(text, REFUSED))
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        text, value = spelling(rng, kind)
        bare = re.fullmatch("[1-9][0-9]*", text) is not None and rng.random() < 0.5
        return Spelling(text if bare else json.dumps(text), REFUSED if bare else value)
    odd = rng.random()
    if odd < 0.05:
        others = ("true", "[]", "{}", '""', '"x"', "[1]", '{"a":1}', "NaN", "Infinity", "-Infinity")
        text = rng.choice(others)
        bare = kind in FLOATS and text[0] in "NI-"
        return Spelling(text, float(text) if bare else REFUSED)
    text = _spelled(rng, kind, loose=False)
    value = numeric(text, kind).value
    if odd < 0.2:  # a number in quotes
        loose, value = spelling(rng, kind)
        return Spelling(json.dumps(loose), value)
    return Spelling(text, value)


def _json_string(rng: Random) -> Spelling:
    odd = rng.random()
    if odd < 0.1:
        text = _number(rng, rng.randint(1, 40), rng.randint(0, 40), loose=False)
        return Spelling(text, text)
    if odd < 0.2:
        content = _document(rng, 0)
        return Spelling(content, Document(content))
    if odd < 0.23:
        word = rng.choice(("true", "false"))
        return Spelling(word, word)
    if odd < 0.26:
        return Spelling(json.dumps(rng.choice(("\ud800", "x\udc00", "\ude00\ud83d"))), REFUSED)
    text = string(rng, "\x00\n\r\b\f")
    return Spelling(json.dumps(text, ensure_ascii=rng.random() < 0.5), text)


def _document(rng: Random, depth: int) -> str:
    """Return an object or array of JSON, or a leaf of one, with blanks anywhere."""
    blank = rng.choice(("", "", " "))
    if depth and (depth > 2 or rng.random() < 0.6):
        text = json.dumps(string(rng, "\x00\n"), ensure_ascii=rng.random() < 0.5)
        number = _number(rng, rng.randint(1, 40), rng.randint(0, 40), loose=False)
        return rng.choice((text, number, number, "true", "null"))
    items = [_document(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.3:
        return f"[{blank}{f',{blank}'.join(items)}{blank}]"
    pairs = (f"{json.dumps(f'{n}{string(rng)}')}{blank}:{blank}{x}" for n, x in enumerate(items))
    return f"{{{blank}{f'{blank},'.join(pairs)}{blank}}}"


def _json_nested(rng: Random, kind: str) -> Spelling:
    head, _, rest = kind.partition("<")
    inner = rest[:-1]
    if rng.random() < 0.03:
        return Spelling(rng.choice(('"x"', "1", "true")), REFUSED)
    if head == "ARRAY":
        items = [json_spelling(rng, inner) for _ in range(rng.randint(0, 3))]
        value = [item.value for item in items]
        return Spelling(f"[{', '.join(item.text for item in items)}]", _all(value, value))
    if head == "MAP":
        names = dict.fromkeys(string(rng) for _ in range(rng.randint(0, 3)))
        kinds = dict.fromkeys(names, inner.partition(",")[2])
    else:
        kinds = dict(field.split(":", 1) for field in split(inner))
    fields = {name: json_spelling(rng, part) for name, part in kinds.items()}
    text = ",".join(f"{json.dumps(name)}: {field.text}" for name, field in fields.items())
    values = {name: field.value for name, field in fields.items()}
    if head == "STRUCT" and rng.random() < 0.02:
        name = rng.choice([*kinds])
        return Spelling(
            f"{{{text}, {json.dumps(rng.choice((name, name.upper())))}: null}}", REFUSED
        )
    if head == "STRUCT" and rng.random() < 0.1:
        return Spelling(f'{{"other": [{{}}], {text}}}', _all([*values.values()], values))
    return Spelling(f"{{{text}}}", _all([*values.values()], values))


def _all(values: Sequence[Any], whole: Any) -> Any:
    return REFUSED if any(value is REFUSED for value in values) else whole


def split(fields: str) -> list[str]:
    """Return the parts of a list of columns, at commas outside of brackets."""
    parts, depth = [""], 0
    for character in fields:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def mostly(rng: Random, make: Callable[[], Spelling]) -> Spelling:
    """Return a value that has an expected one in most cases, so that most rows are stored."""
    made = make()
    for _ in range(4):
        if made.value is not REFUSED or rng.random() < 0.2:
            return made
        made = make()
    return made


# Comparison


def equal(stored: Any, expected: Any) -> bool:
    """Return whether a stored value, as Arrow returns it, is exactly the expected one."""
    if isinstance(expected, Document):
        return isinstance(stored, str) and _content(stored) == _content(expected.content)
    if stored is None or expected is None:
        return stored is expected
    if isinstance(expected, float):
        if not isinstance(stored, float):
            return False
        return stored == expected or (isnan(stored) and isnan(expected))
    if isinstance(expected, list):
        return len(stored) == len(expected) and all(map(equal, stored, expected))
    if isinstance(expected, dict):
        values = stored if isinstance(stored, Mapping) else dict(stored)
        return values.keys() == expected.keys() and all(
            equal(values[name], value) for name, value in expected.items()
        )
    if isinstance(expected, datetime) and not expected.tzinfo:  # hudi-rs cannot read TIMESTAMP_NTZ
        expected = expected.replace(tzinfo=UTC)
    return type(stored) is type(expected) and stored == expected


def _content(text: str) -> Any:
    """Return JSON with its pairs in order, and each number as it is written."""
    number = "number {}".format
    return json.loads(
        text, parse_float=number, parse_int=number, object_pairs_hook=lambda pairs: ("pairs", pairs)
    )
