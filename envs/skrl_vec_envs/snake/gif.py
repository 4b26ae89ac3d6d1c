"""Pictures of several boards as one, and films of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_GAP = 6


def grid_of(pictures: Sequence[Array], titles: Sequence[str], columns: int) -> Array:
    """Put pictures of one size side by side, each below its title. Needs Pillow.

    :param pictures: Pictures. Shape: (rows, columns, 3), dtype: uint8.
    :param titles: A line of text for each.
    :param columns: Pictures in a row.

    :return: Picture. Shape: (rows, columns, 3), dtype: uint8.
    """
    from PIL import Image, ImageDraw

    height, width = pictures[0].shape[:2]
    line = 14
    rows = -(-len(pictures) // columns)
    size = (columns * (width + _GAP) + _GAP, rows * (height + line + _GAP) + _GAP)
    image = Image.new("RGB", size, (12, 13, 16))
    draw = ImageDraw.Draw(image)
    for i, (picture, title) in enumerate(zip(pictures, titles, strict=True)):
        left, top = _GAP + i % columns * (width + _GAP), _GAP + i // columns * (height + line + _GAP)
        draw.text((left, top), title, fill=(210, 214, 222))
        image.paste(Image.fromarray(picture), (left, top + line))
    return np.asarray(image)


def save_gif(frames: Sequence[Array], path: Path, seconds: float) -> None:
    """Save a film. Needs Pillow.

    :param frames: Pictures of one size.
    :param path: File to write.
    :param seconds: Time from frame to frame.
    """
    from PIL import Image

    images = [Image.fromarray(frame).quantize(48) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=int(1000 * seconds), loop=0, optimize=True)
