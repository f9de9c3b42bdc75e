"""Decode message bodies from bytes and encode them again, both from one schema.

`compile_reader` is fast; its caller must check the position where it ended. `interpret` is exact and never raises. Both
make objects of the same classes (kshark.codec.shapes).
"""

from __future__ import annotations

from kshark.codec.compiler import Reader, RecordsReader, compile_reader, is_compiled, reader_source
from kshark.codec.interpreter import BodyFault, Reading, interpret
from kshark.codec.plain import plain
from kshark.codec.shapes import DECODED
from kshark.codec.writer import Writer, compile_writer

__all__ = [
    "DECODED",
    "BodyFault",
    "Reader",
    "Reading",
    "RecordsReader",
    "Writer",
    "compile_reader",
    "compile_writer",
    "interpret",
    "is_compiled",
    "plain",
    "reader_source",
]
