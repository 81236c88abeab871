"""Figures: what is drawn is plain data; matplotlib (the extra `plots`) draws it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_file

COLOURS = ("#4f46e5", "#d9480f", "#228b22", "#9f4c7c", "#64748b", "#b58900")
MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True)
class Series:
    """Points of one system, joined by a line unless they are apart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    joined: bool = True
    names: tuple[str, ...] = ()  # written beside the points


@dataclass(frozen=True)
class Figure:
    name: str  # of the files
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    logarithmic: bool = False  # the x axis


def require_matplotlib() -> None:
    """Refuse before any work where figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise UserError("figures need matplotlib, which is not installed: pip install 'disco-mt[plots]'")


def draw(figure: Figure, folder: Path) -> None:
    """NAME.svg and NAME.png; the same data give the same bytes."""
    require_matplotlib()
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    with mpl.rc_context({"svg.hashsalt": figure.name, "font.size": 11}):
        canvas, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
        try:
            _fill(axes, figure)
            for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
                with atomic_file(folder / f"{figure.name}.{suffix}") as path:
                    canvas.savefig(path, format=suffix, dpi=150, metadata=metadata)
        finally:
            pyplot.close(canvas)


def _fill(axes: Any, figure: Figure) -> None:
    for place, series in enumerate(figure.series):
        style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
        line = "-" if series.joined else "none"
        axes.plot(series.x, series.y, label=series.label, linestyle=line, markersize=5, **style)
        for x, y, name in zip(series.x, series.y, series.names, strict=False):
            axes.annotate(name, (x, y), textcoords="offset points", xytext=(5, 5), fontsize=9)
    if figure.logarithmic:
        axes.set_xscale("log")
        if len({series.x for series in figure.series}) == 1:  # a few sizes: these, not powers of ten
            sizes = figure.series[0].x
            axes.set_xticks(sizes, [f"{size:,g}" for size in sizes])
            axes.set_xticks([], minor=True)
    axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
