"""Read a table's `hoodie.properties`, and say what is wrong with them."""

from __future__ import annotations

from hudi_inspect.entries import Vanished
from hudi_inspect.store import Store, typed
from hudilab.errors import InspectError
from hudilab.files import read_properties
from hudilab.formats import PROPERTIES

OLDEST, NEWEST = 6, 9  # table versions


def read_table_properties(store: Store) -> tuple[dict[str, str], int]:
    """Return the properties, and the table version in them.

    Raises:
        InspectError: Not a table, damaged, or of an unsupported version.
    """
    file = f"{store.uri}/{PROPERTIES}"
    try:
        data = store.read(PROPERTIES)
    except Vanished:
        raise _no_table(store) from None
    properties = read_properties(data.decode("utf-8", "replace"))
    version = properties.get("hoodie.table.version", "")
    needed = ("hoodie.table.name", "hoodie.table.type", "hoodie.table.version")
    missing = [name for name in needed if not properties.get(name)]
    if missing or not version.isdecimal():
        what = (
            "is empty" if not data.strip() else f"lacks {', '.join(missing) or 'a valid version'}"
        )
        raise InspectError(
            f"{file} {what}; compare it with its backup, if there is one "
            f"({typed(f'{file}.backup', 'ls')}), and restore it from there: "
            + typed(f"{file}.backup", "cp", file)
        )
    if int(version) > NEWEST:
        raise InspectError(
            f"{store.uri} has table version {version}, but inspect supports no version newer than "
            f"{NEWEST}",
            "use the Hudi release that wrote it: CALL show_timeline(table => 'NAME')",
        )
    if int(version) < OLDEST:
        raise InspectError(
            f"{store.uri} has table version {version}, but inspect supports no version older than "
            f"{OLDEST}",
            "upgrade the table: CALL upgrade_table(table => 'NAME', to_version => 'SIX')",
        )
    return properties, int(version)


def _no_table(store: Store) -> InspectError:
    below = store.tables_below()
    if not below:
        return InspectError(
            f"{store.uri} is not a Hudi table: it has no {PROPERTIES}",
            "give the folder that contains .hoodie: hudilab inspect TABLE",
        )
    shown = ", ".join(below[:20]) + (f" and {len(below) - 20} more" if len(below) > 20 else "")
    return InspectError(
        f"{store.uri} is not a table but contains {len(below)}: {shown}",
        f"choose one: hudilab inspect '{below[0]}'",
    )
