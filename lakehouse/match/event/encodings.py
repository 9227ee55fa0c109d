"""Content encodings: bodies that came compressed are unpacked, up to a limit."""

from __future__ import annotations

import zlib

MOST_UNPACKED = 2**30
PLACES = {"AMQP": "properties/content-encoding", "MQTT": "user_properties/content-encoding"}
ELSEWHERE = "headers/content-encoding"


def unpacked(body: bytes, encoding: str, most: int = MOST_UNPACKED) -> bytes:
    """Undo gzip or deflate.

    Args:
        body: as it came.
        encoding: as the content encoding tells it.
        most: bytes that may come out.

    Raises:
        ValueError: the encoding is another, the bytes are not of it, or they are too many.
    """
    written = encoding.strip().lower()
    if written in ("identity", ""):
        return body
    if written not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"content encoding {written}: only gzip and deflate are unpacked")
    unpacker = zlib.decompressobj(wbits=47)
    try:
        text = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise ValueError(f"content encoding {written}: {error}") from error
    if len(text) > most:
        raise ValueError(f"unpacks to more than {most} bytes (max_unpacked_bytes)")
    if not unpacker.eof:
        raise ValueError(f"content encoding {written}: cut off")
    return text
