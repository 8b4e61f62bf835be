"""The pixels of a PNG, and which of them one see-through colour stands for.

Comes in: a payload with its outline. Goes out: a plain Pillow image, and an alpha channel where the file names a
colour. Never here: chunks (the outline knows where they lie), or a background.
"""

from __future__ import annotations

from PIL import Image

from lazymedia.media.image import png
from lazymedia.media.image.pixels import blank, decode, opaque_but, region, steps


def rasterise(data: bytes, outline: png.PngOutline) -> tuple[Image.Image, Image.Image | None]:
    """The stored pixels, and where one colour is see-through an "L" picture of 255 for every other pixel.

    Raises:
        Exception: Whatever Pillow raises; ValueError for fewer rows than there should be, or for damaged colours.
    """
    mode, packing = png.LAYOUTS[outline.bits, outline.colour]
    image = _inflated(data, outline, mode, packing)
    for part, name in ((outline.palette, "PLTE"), (outline.transparency, "tRNS")):
        if part is not None and not png.sound(data, part):
            raise ValueError(f"the checksum of {name} is wrong")
    if outline.colour == 3 and outline.palette is not None:  # without a palette every colour is black, as in Pillow
        image.putpalette(data[slice(*outline.palette)])
    if outline.transparency is None:
        return image, None
    return image, _transparency(image, data, data[slice(*outline.transparency)], outline)


def _inflated(data: bytes, outline: png.PngOutline, mode: str, packing: str) -> Image.Image:
    """The pixels of a PNG, all of them.

    A compressed stream that ends between two rows is no error to Pillow's codec, which leaves the rest black. So what
    would be written last is marked before and looked at afterwards. A picture that looks like the mark there is
    decoded once more, over another mark.
    """
    place, size = _written_last(outline)
    for pattern in (b"\x5a", b"\xa5"):
        image = blank(mode, (outline.width, outline.height))
        mark = Image.frombytes(mode, size, pattern * len(blank(mode, size).tobytes()))
        image.paste(mark, place)
        _inflate(data, outline, image, packing)
        if region(image, place, size).tobytes() != mark.tobytes():
            return image
    raise ValueError("fewer rows of pixels than the header says")


def _inflate(data: bytes, outline: png.PngOutline, image: Image.Image, packing: str) -> None:
    view = memoryview(data)
    pieces = (piece for span in outline.pixels for piece in steps(view[slice(*span)]))
    decode(image, pieces, "zip", (packing, int(outline.interlaced)))


def _written_last(outline: png.PngOutline) -> tuple[tuple[int, int], tuple[int, int]]:
    """Corner and size of a box of pixels that all belong to the last row that is decoded.

    Of Adam7's passes the last fills the odd rows; where there is none, the one before it fills the odd columns.
    """
    width, height = outline.width, outline.height
    if outline.interlaced and height > 1:
        return (0, height - 1 - height % 2), (width, 1)
    if outline.interlaced and width > 1:
        return (width - 1 - width % 2, 0), (1, 1)
    return (0, height - 1), (width, 1)


def _transparency(image: Image.Image, data: bytes, chunk: bytes, outline: png.PngOutline) -> Image.Image | None:
    """Note tRNS in the picture's `info`, in the units of its pixels; for one see-through colour, tell the pixels apart.

    The chunk counts in the units of the file, whatever Pillow makes of the samples: 0 to 3 for two bits, which become
    0 to 255, and 0 to 65535 for sixteen, of which Pillow keeps the upper eight. The lower eight are read as if the
    file were little-endian, so that only an exact match is see-through.
    """
    if outline.colour == 3:
        image.info["transparency"] = chunk[:256]
        return None
    if outline.colour not in {0, 2}:
        return None
    size = 2 if outline.colour == 0 else 6
    if len(chunk) < size:
        raise ValueError("tRNS is too short for a colour")
    key = tuple(int.from_bytes(chunk[at : at + 2]) for at in range(0, size, 2))
    if outline.colour == 2 and outline.bits == 16:
        lower = blank("RGB", image.size)
        _inflate(data, outline, lower, "RGB;16L")
        upper_key = tuple(value >> 8 for value in key)
        image.info["transparency"] = upper_key
        return opaque_but(image, (image, upper_key), (lower, tuple(value & 255 for value in key)))
    if outline.bits < 16:
        scale = 255 // ((1 << outline.bits) - 1)
        key = tuple((value & ((1 << outline.bits) - 1)) * scale for value in key)
    image.info["transparency"] = key if outline.colour == 2 else key[0]
    return opaque_but(image, (image, key))


__all__ = ["rasterise"]
