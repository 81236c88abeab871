"""`make bench`: every benchmark that needs no files. Times mean something only on an idle machine."""

from __future__ import annotations

import importlib

for name in ("beam_search", "training", "waiting", "serving"):
    print(f"\n# {name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").main()
