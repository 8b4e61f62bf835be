"""JPEGs by hand: any number of scans in a few bytes each. ITU-T T.81, annex B, whose names of the fields these are."""

from __future__ import annotations

import struct
from typing import Final

SOI, EOI = b"\xff\xd8", b"\xff\xd9"
BASELINE, PROGRESSIVE, ARITHMETIC = 0xC0, 0xC2, 0xCA
"""The last is progressive as well."""

END_OF_BLOCKS: Final = 0xE0
"""A symbol of progressive AC scans: this block and others hold no more, at most 32,767 of them (G.1.2.2)."""
_MOST_BLOCKS: Final = 32_767

_NOISE: Final = bytes.fromhex(
    "4bc60000000000016874004eea00000000b56a5d800000000dfda10000000002b96f30929de6099a37e73a6eb7ba79e87dcd314d973832e8"
    "bea0"
)
"""Arithmetic code of a first AC scan that leaves most coefficients of all blocks different from zero."""


def segment(marker: int, body: bytes) -> bytes:
    """A marker with its length."""
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def frame(kind: int, size: tuple[int, int], components: int) -> bytes:
    """Tables that quantise by 1, and a frame header."""
    width, height = size
    parts = b"".join(bytes([number + 1, 0x11, 0]) for number in range(components))
    return segment(0xDB, b"\0" + b"\1" * 64) + segment(kind, struct.pack(">BHHB", 8, height, width, components) + parts)


def huffman(kind: int, symbol: int) -> bytes:
    """A table of one symbol, whose code is a single 0. ``kind`` is 0 for DC, 1 for AC."""
    return segment(0xC4, bytes([kind << 4, 1]) + bytes(15) + bytes([symbol]))


def scan(components: range, first: int, last: int, approximation: int, coded: bytes = b"") -> bytes:
    """One scan of coefficients ``first`` to ``last``; the high half of ``approximation`` is the point before."""
    parts = b"".join(bytes([number + 1, 0]) for number in components)
    return segment(0xDA, bytes([len(components)]) + parts + bytes([first, last, approximation])) + coded


def arithmetic(size: tuple[int, int], scans: int) -> bytes:
    """Progressive, arithmetic coding: DC, AC, and then as many refinements of all coefficients as there is room for."""
    head = SOI + frame(ARITHMETIC, size, 1) + scan(range(1), 0, 0, 0, _NOISE[:2])
    refinements = scan(range(1), 1, 63, 0x10, _NOISE[:2]) * (scans - 2)
    return head + scan(range(1), 1, 63, 0x01, _NOISE) + refinements + EOI


def dc_refined(size: tuple[int, int], components: int, scans: int) -> bytes:
    """Progressive, Huffman: a DC scan and refinements of it, each without a byte, which libjpeg fills with zeros."""
    tables = huffman(0, 0) + huffman(1, END_OF_BLOCKS)
    first = scan(range(components), 0, 0, 0x01)
    return (
        SOI
        + frame(PROGRESSIVE, size, components)
        + tables
        + first
        + scan(range(components), 0, 0, 0x10) * (scans - 1)
        + EOI
    )


def ac_refined(size: tuple[int, int], components: int, scans: int) -> bytes:
    """Progressive, Huffman: refinements of all AC coefficients, complete, each in runs of empty blocks."""
    blocks = -(-size[0] // 8) * -(-size[1] // 8)
    runs, rest = divmod(blocks, _MOST_BLOCKS)
    bits = ("0" + "1" * 14) * (runs + (rest > 0))
    coded = int(bits + "1" * (-len(bits) % 8), 2).to_bytes(-(-len(bits) // 8)).replace(b"\xff", b"\xff\0")
    tables = huffman(0, 0) + huffman(1, END_OF_BLOCKS)
    body = scan(range(components), 0, 0, 0)
    for number in range(scans - 1):
        component = number % components
        point = 0x01 if number < components else 0x10
        body += scan(range(component, component + 1), 1, 63, point, coded)
    return SOI + frame(PROGRESSIVE, size, components) + tables + body + EOI


def restarts(size: tuple[int, int], marker: bytes = b"") -> bytes:
    """Baseline, with a restart after each block that never comes: another marker is found in its place."""
    tables = huffman(0, 0) + huffman(1, 0) + segment(0xDD, b"\0\1")
    return SOI + frame(BASELINE, size, 3) + tables + scan(range(3), 0, 63, 0, b"\0\0" + marker) + EOI


__all__ = [
    "EOI",
    "PROGRESSIVE",
    "SOI",
    "ac_refined",
    "arithmetic",
    "dc_refined",
    "frame",
    "huffman",
    "restarts",
    "scan",
    "segment",
]
