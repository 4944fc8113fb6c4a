"""The number of the lake's format, and the refusal of a lake that a newer version of this project has written.

The number is the property `trace.format` of the namespace `ops`, which the first job writes; a lake without it has format 1.
A version opens lakes of every format up to its own: `tables.ensure` upgrades them, as docs/maintenance.md says.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError

FORMAT = 1
NAMESPACE = "ops"
PROPERTY = "trace.format"


class NewerLakeError(ValueError):
    """The lake was written by a newer version; nothing was read or written."""


def number_of(catalog: Catalog) -> int:
    """The format of the lake in a catalog; that of this version where no job has run yet."""
    try:
        return int(catalog.load_namespace_properties(NAMESPACE).get(PROPERTY, "1"))
    except NoSuchNamespaceError:
        return FORMAT


def verify(catalog: Catalog) -> None:
    """Refuse a lake that this version does not know.

    Raises:
        NewerLakeError: the lake has a newer format.
    """
    if (found := number_of(catalog)) > FORMAT:
        raise NewerLakeError(
            f"the lake has format {found}, and this version opens formats up to {FORMAT}: install the version that "
            "wrote the lake, or a newer one (docs/maintenance.md, Upgrades)"
        )
