"""A trace as one self-contained page: no outside resource, no build step, light and dark.

The page is assets/trace.html with assets/trace.css and the modules of assets/ set in, and the trace as a JSON
block that the script turns into elements (always by textContent, so no text can become markup). The page of
`disco serve` loads the same stylesheet and modules, as files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from disco_mt.views.view import TraceView, to_data, visible

# Each after what it imports.
MODULES = ("dom", "passes", "roving", "stage", "candidates", "panel", "controls", "detail", "trace")


def render_html(source: str, traces: Sequence[TraceView]) -> str:
    script = bundle()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    parts = {  # this script runs, and no other
        "{{policy}}": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "{{title}}": escape(visible(source)),
        "{{style}}": asset("trace.css"),
        "{{data}}": json_block(to_data(source, traces)),
        "{{script}}": script,
    }
    return _fill(asset("trace.html"), parts)


def asset(name: str) -> str:
    return (files("disco_mt.views") / "assets" / name).read_text(encoding="utf-8")


def bundle() -> str:
    """The modules end to end as one, as a page in one file cannot import. No two share a top-level name."""
    text = "\n".join(asset(f"{name}.js") for name in MODULES)
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", text, flags=re.M), flags=re.M)


def json_block(data: object) -> str:
    """JSON that cannot end its <script> element or open a comment in it, whatever the text is."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _fill(template: str, parts: dict[str, str]) -> str:
    """One pass from left to right: what is set in is never searched again for another place."""
    page = []
    for name, text in parts.items():
        before, template = template.split(name, 1)
        page += [before, text]
    return "".join([*page, template])
