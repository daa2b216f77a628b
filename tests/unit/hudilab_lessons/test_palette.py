"""The colours of pictures differ for everybody, whichever colours they see."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import nbformat
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb
from matplotlib.typing import ColorType

from hudilab_lessons import plots

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"
Numbers = npt.NDArray[np.float64]

# How linear RGB is seen: Machado, Oliveira and Fernandes (2009), severity 1.
SIGHT: dict[str, Numbers] = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
# From linear sRGB to CIE XYZ (IEC 61966-2-1).
XYZ: Numbers = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
LEAST = 15.0  # in CIE76; about 2 can be seen side by side, 10 at a glance


def lab(colour: ColorType, sight: str) -> Numbers:
    """CIE L*a*b* (white: sRGB's own) of a colour as it is seen."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(SIGHT[sight] @ linear, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def closest(colours: Iterable[ColorType], sight: str) -> float:
    """The distance of the two colours that are most alike."""
    seen = [lab(colour, sight) for colour in colours]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))


def test_the_distance_is_that_of_cie() -> None:
    assert lab("white", "normal") == pytest.approx([100, 0, 0], abs=0.01)
    assert lab("red", "normal") == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    # Grey is seen as grey by all.
    for sight in SIGHT:
        assert lab("#777777", sight) == pytest.approx(lab("#777777", "normal"), abs=0.1)


def test_a_palette_that_must_fail() -> None:
    own = mpl.color_sequences["tab10"][:4]
    assert closest(own, "normal") > LEAST
    assert closest(own, "protanopia") < 5
    assert closest(own, "deuteranopia") < 8


PALETTES: dict[str, tuple[str, ...]] = {
    "series": plots.SERIES,
    "phases of a batch": (*plots.SERIES[:4], plots._REST),
    "actions of a timeline": tuple({*plots._COLOURS.values(), plots._REST}),
    "files": tuple(plots._FILES.values()),
}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("palette", PALETTES)
def test_colours_differ(palette: str, sight: str) -> None:
    assert len(PALETTES[palette]) > 1
    assert closest(PALETTES[palette], sight) > LEAST


def test_lessons_draw_with_the_colours_that_start_sets() -> None:
    drawn = 0
    for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        drawn += sum("plt.show()" in source and ".plot" in source for source in code)
        assert any("lab = start(" in source for source in code), path.name  # sets the colours
        assert not any("prop_cycle" in source for source in code), path.name
    assert drawn >= 6
