# make demo and make test do everything from a fresh clone: set-up into .venv, then the work.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed

.PHONY: demo test test-slow browser screenshots check docs bench setup clean

setup: $(SETUP)

$(SETUP): pyproject.toml constraints.txt disco_mt/engine/kernels.c
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,bench,zh,plots,onnx,serve,ray,wmt]'
	touch $(SETUP)

demo: $(SETUP)
	$(BIN)/disco demo

test: $(SETUP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# Long fault and load tests: killed runs, millions of sentences.
test-slow: $(SETUP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --override-ini addopts='-q --strict-markers' tests/slow

# The page in a real browser. Chromium is Debian's package: apt-get install chromium. Where there is none,
# `make test` skips these tests and says so; here it is fetched first.
browser: $(SETUP)
	command -v chromium >/dev/null || { apt-get update && apt-get install --yes chromium; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser

# docs/screenshots anew; MODEL=DIR takes another model than the shipped one.
screenshots: $(SETUP)
	$(BIN)/python tests/browser/screenshots.py $(MODEL)

check: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, into build/site; broken links and unknown names are errors. docs/cli.md is written anew first.
docs: $(SETUP)
	$(BIN)/python tools/cli_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

bench: $(SETUP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist *.egg-info
