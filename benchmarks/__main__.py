"""`make bench`: every benchmark, one after the other. Times mean something only on an idle machine."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks

for module in pkgutil.iter_modules(benchmarks.__path__):
    if not module.name.startswith("_"):
        print(f"\n# {module.name}", flush=True)
        importlib.import_module(f"benchmarks.{module.name}").main()
