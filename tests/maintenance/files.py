"""Look for a text in everything below a folder, whatever it is compressed with; no code of the warehouse is used."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import duckdb
import pyarrow.parquet as pq


def holding(folder: Path, text: str) -> list[str]:
    """The files that hold the text."""
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if text.encode() in plain(file):
            found.append(str(file.relative_to(folder)))
    return found


def plain(file: Path) -> bytes:
    """The file's bytes, and what they say when they are unpacked."""
    content = file.read_bytes()
    if content.startswith(b"PAR1"):
        columns = pq.ParquetFile(io.BytesIO(content)).read().to_pydict()
        return content + b"".join(map(_bytes, columns.values()))
    if content.startswith(b"Obj\x01"):
        return content + _avro(content)
    if content[8:12] == b"DUCK":
        return content + _duckdb(file)
    if file.suffixes[-2:] == [".gz", ".metadata.json"] or content.startswith(b"\x1f\x8b"):
        return zlib.decompress(content, wbits=31)
    return content


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (list, tuple)):
        return b"\n".join(map(_bytes, value))
    if isinstance(value, dict):
        return _bytes(list(value.items()))
    return str(value).encode()


def _duckdb(file: Path) -> bytes:
    """The rows of all tables, and the views."""
    with duckdb.connect(file, read_only=True) as reader:
        views = reader.execute("select sql from duckdb_views() where not internal").fetchall()
        tables = reader.execute("select schema_name || '.' || table_name from duckdb_tables()").fetchall()
        return _bytes(views) + b"".join(
            _bytes(reader.execute(f"from {table}").fetchall()) for (table,) in tables
        )


def _avro(content: bytes) -> bytes:
    """The blocks of an Avro file, inflated: after the header each is a count, a size, the data and the sync marker."""
    stream = io.BytesIO(content[4:])
    codec = b"null"
    while count := _long(stream):
        if count < 0:
            _long(stream)
        for _ in range(abs(count)):
            key, value = (stream.read(_long(stream)) for _ in range(2))
            codec = value if key == b"avro.codec" else codec
    sync, blocks = stream.read(16), []
    while stream.tell() < len(content) - 4:
        _long(stream)
        data = stream.read(_long(stream))
        blocks.append(zlib.decompress(data, wbits=-15) if codec == b"deflate" else data)
        assert codec in (b"deflate", b"null"), codec
        assert stream.read(16) == sync
    return b"".join(blocks)


def _long(stream: io.BytesIO) -> int:
    shift = value = 0
    while True:
        byte = stream.read(1)[0]
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
