"""A trace made visible: in the terminal, as a page, as a picture. Pure functions from a trace to text."""

from disco_mt.views.html import render_html
from disco_mt.views.svg import render_svg
from disco_mt.views.terminal import print_traces, render_terminal
from disco_mt.views.view import TraceView

__all__ = ["TraceView", "print_traces", "render_html", "render_svg", "render_terminal"]
