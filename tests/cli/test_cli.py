"""The command line as users meet it: what they ask for, they get, line by line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from disco_command import Disco
from disco_mt.cli import VERBS
from disco_mt.version import __version__
from small_model import LONGEST, Small

LAZY = ("--iterations", "2", "--length-beam", "2")


def test_version(disco: Disco) -> None:
    assert disco("--version").out == f"disco {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(disco: Disco, verb: str) -> None:
    done = disco(verb, "--help")
    assert done.code == 0, done.err
    assert f"disco {verb}" in done.out


def test_overview_names_every_verb(disco: Disco) -> None:
    done = disco("--help")
    assert done.code == 0
    assert all(f"disco {verb} " in done.out for verb in VERBS)


def test_alone_shows_the_overview_but_has_done_nothing(disco: Disco) -> None:
    done = disco()
    assert done.code == 2
    assert "disco translate" in done.out


def test_info(disco: Disco) -> None:
    found = json.loads(disco("info", "--json").out)
    assert found["disco"] == __version__
    assert found["devices"][0] == "cpu"
    assert "phrasebook.disco" in found["recipes"]
    plain = disco("info").out
    assert all(name in plain for name in found)


# translate: one line in, one line out


@pytest.mark.parametrize("kind", ["disco", "cmlm", "autoregressive"])
def test_every_kind_translates_with_its_default_strategy(disco: Disco, small: Small, kind: str) -> None:
    done = disco("translate", "The old house.", "--model", getattr(small, kind), *LAZY, "--beam", "2")
    assert done.code == 0, done.err
    assert len(done.lines) == 1
    assert done.lines[0]


def test_file_to_file(disco: Disco, small: Small, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.de"
    source = small.corpus / "valid.en"
    done = disco("translate", "--model", small.disco, "--input", source, "--output", out, *LAZY)
    assert (done.code, done.out) == (0, "")
    assert out.read_bytes().count(b"\n") == source.read_bytes().count(b"\n")
    assert [path.name for path in out.parent.iterdir()] == ["out.de"]


ODD_LINES = {
    "no final newline": b"The house.\nThe child.",
    "CRLF": b"The house.\r\nThe child.\r\n",
    "byte order mark": b"\xef\xbb\xbfThe house.\nThe child.\n",
    "empty lines": b"\nThe house.\n\n\nThe child.\n\n",
    "white space": b" \nThe house.\n\t\n\xc2\xa0\n",
    "U+2028, U+0085, form feed": "The\u2028house.\nThe\u0085child.\nOld\x0chouse\x1c\x1dsees.\n".encode(),
    "control characters": bytes(range(1, 10)) + b"\x0b\x1b[31m\x7f\nThe house.\n",
    "NUL": b"The\x00house.\n\x00\nThe child.\n",
    "a lone CR": b"The\rhouse.\nThe child.\n",
    "emoji, right to left, noncharacters": "👩‍👩‍👧 שלום \uffff\ufdd0\nThe house.\n".encode(),
    "names of special tokens": b"</s> <pad> <mask>\nThe <s>house.\n",
    "no lines": b"",
}


@pytest.mark.parametrize("content", ODD_LINES.values(), ids=ODD_LINES)
def test_as_many_lines_out_as_in(disco: Disco, small: Small, content: bytes, tmp_path: Path) -> None:
    number = content.count(b"\n") + (content[-1:] not in (b"\n", b""))
    by_stdin = disco("translate", "--model", small.disco, *LAZY, stdin=content)
    assert by_stdin.code == 0, by_stdin.err
    assert by_stdin.out.count("\n") == number
    assert "\r" not in by_stdin.out
    (tmp_path / "in").write_bytes(content)
    by_file = disco("translate", "--model", small.disco, *LAZY, "--input", tmp_path / "in")
    assert by_file.out == by_stdin.out


def test_line_ends_and_byte_order_mark_are_not_text(disco: Disco, small: Small) -> None:
    command = ("translate", "--model", small.disco, *LAZY)
    plain = disco(*command, stdin=b"The house.\nThe child.\n").out
    assert disco(*command, stdin=b"\xef\xbb\xbfThe house.\r\nThe child.").out == plain


def test_empty_lines_stay_empty_in_their_place(disco: Disco, small: Small) -> None:
    done = disco("translate", "--model", small.disco, *LAZY, stdin=b"\nThe house.\n\nThe child.\n")
    assert [bool(line) for line in done.lines] == [False, True, False, True]


def test_gzip(disco: Disco, small: Small, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"The house.\n"))
    packed = disco("translate", "--model", small.disco, *LAZY, "--input", tmp_path / "in.gz")
    assert packed.lines == disco("translate", "--model", small.disco, *LAZY, stdin=b"The house.\n").lines


@pytest.mark.parametrize("unit", ["the old house sees ", "x"])
def test_an_enormous_line_is_cut_and_the_others_come_through(disco: Disco, small: Small, unit: str) -> None:
    enormous = (unit * 100_000)[:100_000]
    content = f"The house.\n{enormous}\nThe child.\n".encode()
    command = ("translate", "--model", small.disco, "--iterations", "1", "--length-beam", "1")
    done = disco(*command, stdin=content)
    assert done.code == 0, done.err
    assert len(done.lines) == 3
    assert done.lines[::2] == disco(*command, stdin=b"The house.\nThe child.\n").lines
    assert len(done.lines[1]) > 100


def test_an_enormous_line_is_refused_by_name(disco: Disco, small: Small) -> None:
    content = f"The house.\n{'the old ' * 100}\nThe child.\n".encode()
    done = disco("translate", "--model", small.disco, *LAZY, "--long", "refuse", stdin=content)
    assert done.code == 2
    assert "line 2 was left empty: a sentence has 300 tokens" in done.err
    assert f"at most {LONGEST}" in done.err
    assert [bool(line) for line in done.lines] == [True, False, True]


def test_too_many_tokens_are_refused_by_name(disco: Disco, small: Small) -> None:
    long = " ".join(["Ġold"] * (LONGEST + 1))
    content = f"Ġthe Ġhouse\n{long}\n{long.removesuffix(' Ġold')}\n".encode()
    done = disco("translate", "--model", small.disco, *LAZY, "--tokens", stdin=content)
    assert done.code == 2
    assert f"line 2 was left empty: a sentence has {LONGEST + 1} tokens" in done.err
    assert [bool(line) for line in done.lines] == [True, False, True]


def test_a_text_argument_is_split_into_sentences_a_file_is_not(disco: Disco, small: Small) -> None:
    text = "The old house. Today the child finds Dr. Small."
    command = ("translate", "--model", small.disco, *LAZY, "--json")
    argument = json.loads(disco(*command, text).out)
    assert len(argument["sentences"]) == 2
    alone = [json.loads(disco(*command, part).out)["text"] for part in ("The old house.", text[15:])]
    assert argument["sentences"] == alone
    assert argument["text"] == " ".join(alone)
    whole = json.loads(disco(*command, stdin=text.encode()).out)
    assert "sentences" not in whole
    assert json.loads(disco(*command, text, "--split", "no").out)["text"] == whole["text"]
    assert len(json.loads(disco(*command, "--split", "yes", stdin=text.encode()).out)["sentences"]) == 2


def test_several_arguments_are_several_lines(disco: Disco, small: Small) -> None:
    assert len(disco("translate", "The house.", "", "The child.", "--model", small.disco, *LAZY).lines) == 3


def test_line_breaks_in_an_argument_do_not_break_its_line(disco: Disco, small: Small) -> None:
    done = disco("translate", "The house.\nThe child.\r\nOld", "--model", small.disco, *LAZY)
    assert len(done.lines) == 1


def test_an_argument_that_is_not_utf8_is_translated(disco: Disco, small: Small) -> None:
    broken = os.fsdecode(b"The \xff house.")
    done = disco("translate", broken, "--model", small.disco, *LAZY, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["source"] == "The \ufffd house."


def test_json_has_a_probability_a_token(disco: Disco, small: Small) -> None:
    done = disco("translate", "--model", small.disco, *LAZY, "--json", stdin=b"The house.\n\nThe child.\n")
    found = [json.loads(line) for line in done.lines]
    assert [entry["source"] for entry in found] == ["The house.", "", "The child."]
    for entry in found:
        assert len(entry["tokens"]) == len(entry["probabilities"])
        assert all(0 < probability <= 1 for probability in entry["probabilities"])
        assert entry["steps"] == (2 if entry["source"] else 0)


def test_tokens_in_are_the_tokens_of_the_text(disco: Disco, small: Small) -> None:
    text = disco("translate", "--model", small.disco, *LAZY, "--json", stdin=b"The old house.")
    source = "ĠThe Ġo ld Ġhouse .".encode()
    tokens = disco("translate", "--model", small.disco, *LAZY, "--tokens", stdin=source)
    assert tokens.lines == [" ".join(json.loads(text.out)["tokens"])]


# prepare, train, evaluate


def test_prepare_train_evaluate(disco: Disco, small: Small, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    corpus, data, run = small.corpus, tmp_path / "data", tmp_path / "run"
    done = disco(*prepare_command(corpus, data), "--json", "--quiet")
    assert json.loads(done.out)["splits"]["train"]["pairs"] == 300
    options = ("--training.max-steps", "2", "--training.log-every", "1")
    done = disco("train", tmp_path / "tiny.toml", "--data", data, "--out", run, *options, "--json", "--quiet")
    assert done.code == 0, done.err
    assert json.loads(done.out)["step"] == 2
    model = next((run / "best").iterdir())
    scored = ("--source", corpus / "valid.en", "--reference", corpus / "valid.de", *LAZY, "--quiet")
    done = disco(
        "evaluate", "--model", model, *scored, "--json", "--hypotheses", tmp_path / "out", "--paper-bleu"
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["sentences"] == len((tmp_path / "out").read_text().splitlines()) == 4
    assert "BLEU" in disco("evaluate", "--model", model, *scored).out


def test_evaluate_compares_with_another_system(disco: Disco, small: Small) -> None:
    """The references themselves as the other system: nothing is ahead of them."""
    files = ("--source", small.corpus / "valid.en", "--reference", small.corpus / "valid.de")
    command = ("evaluate", "--model", small.disco, *files, *LAZY, "--quiet", "--compare-with", files[3])
    compared = json.loads(disco(*command, "--json").out)["compared"]
    ours = json.loads(disco(*command, "--json").out)["bleu"]
    assert (compared["bleu_a"], compared["bleu_b"]) == pytest.approx((100, ours))
    assert compared["low"] <= compared["difference"] <= compared["high"] < 0
    assert f"ahead by        {ours - 100:+.2f}  [" in disco(*command).out


RECIPE = """
[model]
width = 16
encoder = { layers = 1, heads = 2, hidden = 16 }
decoder = { layers = 1, heads = 2, hidden = 16 }
max_source = 64
max_target = 64
length_classes = 64
[training]
batch_tokens = 256
max_tokens = 256
[decoding]
iterations = 2
length_beam = 2
"""


def prepare_command(corpus: Path, out: Path) -> tuple[object, ...]:
    return (
        *("prepare", "--source", corpus / "train.en", "--target", corpus / "train.de"),
        *("--valid-source", corpus / "valid.en", "--valid-target", corpus / "valid.de"),
        *("--source-language", "en", "--target-language", "de", "--vocabulary-size", "300", "--out", out),
    )


# trace


def test_trace_compares_two_strategies(disco: Disco, small: Small) -> None:
    done = disco("trace", "The old house.", "--model", small.disco, *LAZY, "--position", "0")
    assert done.code == 0, done.err
    assert "The old house." in done.out
    assert "easy-first 2 steps" in done.out
    assert "mask-predict 2 steps" in done.out
    assert ">" in done.out  # the chosen position
    assert "Ġ" not in done.out  # words, not the vocabulary's names for them


def test_trace_of_a_cmlm_has_only_what_it_can_do(disco: Disco, small: Small) -> None:
    done = disco("trace", "--model", small.cmlm, *LAZY, "--json", stdin=b"The old house.\n")
    assert [entry["strategy"] for entry in json.loads(done.out)["traces"]] == ["mask-predict"]


def test_trace_shows_what_translate_does(disco: Disco, small: Small) -> None:
    command = ("The old house.", "--model", small.disco, *LAZY, "--json")
    translated = json.loads(disco("translate", *command, "--strategy", "left-to-right").out)
    traced = json.loads(disco("trace", *command, "--strategies", "left-to-right").out)["traces"][0]
    assert traced["steps"] == translated["steps"]
    last = traced["passes"][-1][traced["winners"][-1]]
    assert last["probabilities"] == pytest.approx(translated["probabilities"], abs=1e-3)


def test_trace_writes_a_page_and_a_picture(disco: Disco, small: Small, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    done = disco("trace", "The old house.", "--model", small.disco, *LAZY, "--html", page, "--svg", picture)
    assert done.code == 0, done.err
    assert "The old house." in page.read_text(encoding="utf-8")
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.svg"]


# As a process


def test_a_reader_that_leaves_early_is_no_error(small: Small) -> None:
    translate = ("translate", "--model", str(small.disco), *LAZY, "The house.", "The child.")
    for arguments in (translate, ("--help",)):
        command = [sys.executable, "-m", "disco_mt", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            process.stdout.close()  # as `head -1` does when it has its line
            assert process.stderr.read() == b""
        assert process.returncode == 0


def test_an_unknown_hub_model_without_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "disco_mt", "translate", "Hello", "--model", "nobody/no-such-model"],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "'nobody/no-such-model' is not a directory" in done.stderr
    assert "Traceback" not in done.stderr
