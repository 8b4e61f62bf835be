"""``python -m benchmarks.memory_of_pictures``: peak memory of decoding, and the estimate of it, by format and mode.

Requests are limited by `Limits.max_request_decoded_bytes` and the estimate. Its factors are in
`lazymedia.media.image.memory` and the modules of the formats; measure again after an upgrade of Pillow. Each figure
comes from a process of its own, in which all libraries have been used before. Linux only.
"""

from __future__ import annotations

import argparse
import io
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from lazymedia.cli.show import table
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.image.header import FORMATS

SIDE: Final = 3200
MODES: Final = ("RGB", "RGBA", "L", None)
OUTPUTS: Final = ("pil", "array")


def _photo(mode: str = "RGB", side: int = SIDE) -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (9, 9, 4), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((side, side), Image.Resampling.BILINEAR)
    return smooth if mode == "RGBA" else smooth.convert("RGB").convert(mode)


def _saved(kind: str, mode: str = "RGB", **options: Any) -> Callable[[int], bytes]:
    def save(side: int) -> bytes:
        buffer = io.BytesIO()
        _photo(mode, side).save(buffer, kind, **options)
        return buffer.getvalue()

    return save


def _heic(mode: str = "RGB", **options: Any) -> Callable[[int], bytes]:
    def save(side: int) -> bytes:
        import pillow_heif

        buffer = io.BytesIO()
        picture = pillow_heif.from_pillow(_photo(mode, max(side, 64)))
        picture.save(buffer, quality=50, enc_params={"preset": "ultrafast"}, **options)
        return buffer.getvalue()

    return save


def _png(bits: int, colour: int, channels: int, transparency: bytes = b"", *, interlaced: bool = False) -> Any:
    """A PNG of zeros, which Pillow does not write in every depth."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">L", len(content)) + kind + content + struct.pack(">L", zlib.crc32(kind + content))

    def save(side: int) -> bytes:
        rows = zlib.compress(bytes(2 * (1 + (side * bits * channels + 7) // 8) * side), 1)
        header = struct.pack(">LLBBBBB", side, side, bits, colour, 0, 0, interlaced)
        parts = (b"IHDR", header), *([(b"tRNS", transparency)] if transparency else []), (b"IDAT", rows), (b"IEND", b"")
        return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)

    return save


def _gif_claim(side: int) -> bytes:
    """A frame of one pixel on a screen of any size."""
    head = b"GIF89a" + struct.pack("<HHBBB", side, side, 0x80, 0, 0) + bytes(6)
    return head + b"!\xf9\4\1\0\0\0\0" + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\2\x44\1\0;"


CASES: dict[str, Callable[[int], bytes]] = {
    "JPEG": _saved("JPEG"),
    "JPEG, grey": _saved("JPEG", "L"),
    "JPEG, CMYK": _saved("JPEG", "CMYK"),
    "JPEG, progressive": _saved("JPEG", progressive=True),
    "JPEG, progressive 4:4:4": _saved("JPEG", progressive=True, subsampling="4:4:4"),
    "JPEG, progressive grey": _saved("JPEG", "L", progressive=True),
    "JPEG, progressive CMYK": _saved("JPEG", "CMYK", progressive=True),
    "PNG": _saved("PNG", compress_level=1),
    "PNG, interlaced": _png(8, 2, 3, interlaced=True),
    "PNG, tRNS": _png(8, 2, 3, bytes(6)),
    "PNG, 16 bits": _png(16, 2, 3),
    "PNG, 16 bits, tRNS": _png(16, 2, 3, bytes(6)),
    "PNG, RGBA": _saved("PNG", "RGBA", compress_level=1),
    "PNG, LA": _saved("PNG", "LA", compress_level=1),
    "PNG, L": _saved("PNG", "L", compress_level=1),
    "PNG, L, tRNS": _png(8, 0, 1, bytes(2)),
    "PNG, 1": _png(1, 0, 1),
    "PNG, grey of 16 bits": _png(16, 0, 1),
    "PNG, P": _saved("PNG", "P", compress_level=1),
    "PNG, P, tRNS": _saved("PNG", "P", compress_level=1, transparency=b"\0\x80"),
    "WebP": _saved("WEBP", method=0),
    "WebP, alpha": _saved("WEBP", "RGBA", method=0),
    "WebP, lossless": _saved("WEBP", lossless=True, method=0, quality=0),
    "WebP, lossless alpha": _saved("WEBP", "RGBA", lossless=True, method=0, quality=0),
    "GIF": _saved("GIF", "P"),
    "GIF, grey": _saved("GIF", "L"),
    "GIF, see-through": _saved("GIF", "P", transparency=3),
    "GIF, a frame of one pixel": _gif_claim,
    "AVIF": _saved("AVIF", speed=10),
    "AVIF, 4:4:4": _saved("AVIF", speed=10, subsampling="4:4:4"),
    "AVIF, alpha": _saved("AVIF", "RGBA", speed=10),
    "AVIF, grey": _saved("AVIF", "L", speed=10),
    "BMP": _saved("BMP"),
    "BMP, RGBA": _saved("BMP", "RGBA"),
    "BMP, P": _saved("BMP", "P"),
    "BMP, 1": _saved("BMP", "1"),
    "TIFF": _saved("TIFF"),
    "TIFF, deflated": _saved("TIFF", compression="tiff_deflate"),
    "TIFF, RGBA": _saved("TIFF", "RGBA"),
    "TIFF, grey": _saved("TIFF", "L"),
    "TIFF, grey of 16 bits": _saved("TIFF", "I;16"),
    "TIFF, CMYK": _saved("TIFF", "CMYK"),
}
"""A picture of each kind, of a side that is given."""
if find_spec("pillow_heif") is not None:
    CASES |= {
        "HEIF": _heic(),
        "HEIF, tiles": _heic(tile_size=512),
        "HEIF, 4:4:4": _heic(chroma="444"),
        "HEIF, alpha": _heic("RGBA"),
        "HEIF, grey": _heic("L"),
    }


def _kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def _in_a_child(work: Callable[[], int]) -> int:
    """What a fork returns, which has all libraries."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writes, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return int(answer)


def _grown(touch: Callable[[], Any], decode: Callable[[], Any]) -> int:
    """Bytes by which resident memory grows at its peak; the payload was there before.

    A fork shares its libraries' memory until it uses them, which is done before.
    """
    touch()
    Path("/proc/self/clear_refs").write_text("5")
    before = _kib("VmRSS")
    kept = decode()
    grown = (_kib("VmHWM") - before) << 10
    del kept
    return grown


def measure(folder: Path) -> Iterator[tuple[str, str | None, int, int]]:
    """Output, mode, measured bytes at the peak, and the estimate, for each output and mode of a picture in a folder."""
    small, data = (folder / "small").read_bytes(), (folder / "large").read_bytes()
    limits = Limits(image_formats=tuple(FORMATS))
    for output in OUTPUTS:
        for mode in MODES:
            image_io = ImageMediaIO(mode, output=output, limits=limits)
            touch = partial(image_io.load_bytes, small)
            touch()
            ref = image_io.load_bytes_ref(data)
            yield output, mode, _in_a_child(partial(_grown, touch, ref.decode)), ref.decoded_bytes or 0


def measured(name: str, side: int = SIDE) -> list[tuple[str, str | None, int, int]]:
    """The same, of a case, from a fresh process: one that has made the picture has memory to spare."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small").write_bytes(CASES[name](16))
        (Path(folder) / "large").write_bytes(CASES[name](side))
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory_of_pictures", "--measure", folder],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=Path(__file__).parents[1],
        )
    rows = (line.split() for line in done.stdout.splitlines())
    return [
        (output, None if mode == "None" else mode, int(peak), int(estimate)) for output, mode, peak, estimate in rows
    ]


def main() -> None:
    """Parse the command line and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_of_pictures", description=__doc__)
    parser.add_argument("--only", help="cases whose name begins so")
    parser.add_argument("--side", type=int, default=SIDE, help="pixels of a picture's side")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        for row in measure(arguments.measure):
            print(*row)
        return
    pixels = arguments.side**2
    rows: list[tuple[object, ...]] = [
        ("bytes a pixel: measured/estimated", *(f"{o} {m}" for o in OUTPUTS for m in MODES))
    ]
    outside = 0
    for name in CASES:
        if not name.startswith(arguments.only or ""):
            continue
        cells = []
        for _, _, peak, estimate in measured(name, arguments.side):
            wrong = not 1.0 <= estimate / peak <= 1.6
            outside += wrong
            cells.append(f"{peak / pixels:.1f}/{estimate / pixels:.1f}{'!' if wrong else ''}")
        rows.append((name, *cells))
    print(table(rows))
    print(f"estimates outside 1.0 to 1.6 of what was measured: {outside}")


if __name__ == "__main__":
    main()
