"""What a user gets from the wheel: installed in an empty directory, with all that is not Python code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PACKAGE = PROJECT / "disco_mt"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because the build would leave its traces in the project."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(PACKAGE, source / "disco_mt", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(PROJECT / name, source)
    run(
        *PIP,
        "wheel",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        ".",
        cwd=source,
    )
    return next(folder.glob("disco_mt-*.whl"))


def shipped() -> list[str]:
    """What must be in the wheel beside the modules."""
    patterns = ("training/recipes/*.toml", "suites/*.toml", "views/assets/*", "py.typed", "pretrained/*/*")
    return [str(path.relative_to(PROJECT)) for pattern in patterns for path in PACKAGE.glob(pattern)]


def test_the_wheel_is_complete(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert "disco_mt/py.typed" in inside
    assert "disco_mt/training/recipes/phrasebook.disco.toml" in inside
    assert "disco_mt/views/assets/trace.js" in inside
    assert set(shipped()) <= inside
    modules = {str(path.relative_to(PROJECT)) for path in PACKAGE.rglob("*.py")}
    assert modules <= inside
    assert any(name.startswith("disco_mt/engine/_kernels.") for name in inside) or not shutil.which("cc")
    assert not [name for name in inside if name.startswith("tests")]


def test_installed_in_an_empty_directory_it_finds_its_recipes(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(*PIP, "install", "--no-deps", "--no-index", "--no-compile", "--target", site, wheel, cwd=tmp_path)
    where = run(
        *(sys.executable, "-c", "import disco_mt; print(disco_mt.__file__)"),
        cwd=elsewhere,
        PYTHONPATH=str(site),
    )
    assert where.startswith(str(site))
    command = (sys.executable, "-m", "disco_mt", "info", "--json")
    found = json.loads(run(*command, cwd=elsewhere, PYTHONPATH=str(site)))
    assert found["recipes"] == sorted(path.stem for path in (PACKAGE / "training" / "recipes").glob("*.toml"))
    assert found["models"] == sorted(path.parent.name for path in PACKAGE.glob("pretrained/*/config.json"))
    assert not list(elsewhere.iterdir())
