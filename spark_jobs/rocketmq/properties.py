"""The properties of messages, which clients and brokers add to a body, such as KEYS and UNIQ_KEY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property


class Properties(Mapping[str, str]):
    r"""A message's properties, parsed on first access: a record batch parses those of all its messages at once.

    Attributes:
        stored: `name \x01 value \x02 name \x01 value …` in UTF-8; invalid bytes become U+FFFD.
    """

    def __init__(self, stored: bytes) -> None:
        self.stored = stored

    @cached_property
    def _parsed(self) -> dict[str, str]:
        return decode_properties(self.stored.decode("utf-8", "replace"))

    def __getitem__(self, name: str) -> str:
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)

    def __repr__(self) -> str:
        return repr(self._parsed)


def decode_properties(text: str) -> dict[str, str]:
    r"""Parse `name \x01 value \x02 name \x01 value …`; a part without `\x01` is dropped."""
    pieces = text.removesuffix("\x02").split("\x02")
    try:
        return dict([piece.split("\x01", 1) for piece in pieces])  # type: ignore[misc]
    except ValueError:
        return {name: value for name, sign, value in (piece.partition("\x01") for piece in pieces) if sign}
