"""Makes the pictures that crates/arrays/tests/golden/ holds, and what Pillow sees in them.

    pip install pillow numpy
    python tests/python/make_pictures.py crates/arrays/tests/golden

Each picture `name.jpg` or `name.png` has `name.rgb` beside it: Pillow's pixels, three bytes each,
row after row. `resized.rgb` is what Pillow makes of `colour.png` at a shorter side of 16 pixels
(24 x 16), with its bilinear filter.
"""

import pathlib
import sys

import numpy
from PIL import Image

ROWS, COLS = 26, 39


def scene():
    """Smooth colours with one sharp edge, so that both kinds of mistake would show."""
    y, x = numpy.mgrid[0:ROWS, 0:COLS]
    red = 127 + 120 * numpy.sin(x / 9.0) * numpy.cos(y / 11.0)
    green = 255 * x / COLS
    blue = numpy.where(x + y > 35, 200, 40) + 20 * numpy.sin(y / 3.0)
    return numpy.stack([red, green, blue], axis=2).clip(0, 255).astype(numpy.uint8)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    colour = Image.fromarray(scene())
    alpha = colour.convert("RGBA")
    alpha.putalpha(colour.convert("L"))
    save = {
        "baseline.jpg": (colour, dict(quality=90, subsampling=0)),
        "subsampled.jpg": (colour, dict(quality=85, subsampling=2)),
        "progressive.jpg": (colour, dict(quality=85, progressive=True)),
        "grey.jpg": (colour.convert("L"), dict(quality=90)),
        "cmyk.jpg": (colour.convert("CMYK"), dict(quality=90)),
        "colour.png": (colour, dict(optimize=True)),
        "grey.png": (colour.convert("L"), dict(optimize=True)),
        "palette.png": (colour.quantize(32), dict(optimize=True)),
        "alpha.png": (alpha, dict(optimize=True)),
        "bits.png": (colour.convert("1"), dict(optimize=True)),
    }
    for name, (picture, options) in save.items():
        picture.save(folder / name, **options)
        pixels = Image.open(folder / name).convert("RGB")
        (folder / name.replace(".", "_")).with_suffix(".rgb").write_bytes(pixels.tobytes())
    small = colour.resize((24, 16), Image.Resampling.BILINEAR)
    (folder / "resized.rgb").write_bytes(small.tobytes())


if __name__ == "__main__":
    main()
