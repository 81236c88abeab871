"""Files are written completely or not at all, with the permissions of the user's umask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from disco_mt.core.files import atomic_directory, atomic_file, write_text
from disco_mt.nn.directory import save_model
from disco_mt.systems.build import build_model
from tiny import tiny_config

NOBODY = 65534  # the user id of nobody


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_the_umask_decides_who_may_read(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_directory(tmp_path / "model") as folder:
            save_file({"a": torch.ones(2)}, folder / "model.safetensors")  # the library writes 0600
            (folder / "part").mkdir()
            write_text(folder / "part" / "config.json", "{}")
        with atomic_file(tmp_path / "file") as temporary:
            temporary.write_text("text")
    finally:
        os.umask(before)
    files = [tmp_path / "file", *(path for path in (tmp_path / "model").rglob("*") if path.is_file())]
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}
    folders = tmp_path / "model", tmp_path / "model" / "part"
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o777 & ~mask}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_of_another_user_is_not_called_damaged(tmp_path: Path, name: str) -> None:
    with atomic_directory(tmp_path / "model") as folder:
        save_model(folder, build_model(tiny_config(kind="disco")), {}, "", {})
    (tmp_path / "model" / name).chmod(0o600)
    for path in (tmp_path, *tmp_path.parents):
        if path.is_relative_to(Path(os.environ.get("TMPDIR", "/tmp"))) and path.stat().st_uid == 0:
            path.chmod(path.stat().st_mode | 0o011)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from disco_mt.core.errors import UserError\n"
        "from disco_mt.nn.directory import read_config\n"
        "from disco_mt.systems.build import load_weights\n"
        f"os.setuid({NOBODY})\n"
        "try: load_weights(read_config(Path(sys.argv[1])))\n"
        "except UserError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    assert f"{name} may not be read by this user (permission denied)" in done.stdout
    assert "damaged" not in done.stdout
