"""Lines end at LF or CRLF only, whatever else a text contains."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco_mt.core.errors import UserError
from disco_mt.text.lines import one_line, read_lines, split_lines


def test_only_lf_and_crlf_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\u2028b\u0085c\x0bd\x0ce\rf\r\n\nlast".encode())
    assert list(read_lines(path)) == ["a\u2028b\u0085c\x0bd\x0ce\rf", "", "last"]


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\n\ufeffb\n".encode())
    assert list(read_lines(path)) == ["a", "\ufeffb"]
    assert split_lines("\ufeffa\n\ufeffb\n") == ["a", "\ufeffb"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("\r\n\r\n", ["", ""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\r\nb\r", ["a", "b\r"]),
    ],
)
def test_split_lines(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@given(st.text(alphabet="a\r\n\u2028\ufeff"))
def test_a_string_and_a_file_have_the_same_lines(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(text.encode())
    assert split_lines(text) == list(read_lines(path))


def test_gzip_by_suffix(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"eins\r\nzwei\n"))
    assert list(read_lines(path)) == ["eins", "zwei"]


@pytest.mark.parametrize("content", [b"no gzip at all", gzip.compress(b"text " * 1000, mtime=0)[:-20]])
def test_a_broken_gzip_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read .*text\.gz"):
        list(read_lines(path))


def test_invalid_utf8_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"fine\nnot f\xfcr us\n")
    with pytest.raises(UserError, match=r"latin1\.txt, line 2: not valid UTF-8 \(byte 0xfc at position 6"):
        list(read_lines(path))


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nowhere: No such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        list(read_lines(tmp_path))


@given(st.text(alphabet="a\r\n \u2028"))
def test_one_line_is_one_line(text: str) -> None:
    line = one_line(text)
    assert len(io.StringIO(line, newline=None).readlines()) <= 1
    assert line.replace(" ", "") == text.replace("\r", "").replace("\n", "").replace(" ", "")
