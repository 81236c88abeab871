"""Users' mistakes: each is named and ends with code 2, without a traceback or anything half-written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from disco_command import Disco
from small_model import Small, make_model

BAD_UTF8 = b"The house.\nThe \xff child.\nOld.\n"


@pytest.fixture
def model(small: Small, tmp_path: Path) -> Path:
    """A copy of a model directory, to be spoilt."""
    return shutil.copytree(small.disco, tmp_path / "model")


def prepare(small: Small, out: Path, **changes: object) -> tuple[object, ...]:
    """The command, with files or options changed: source=..., vocabulary_size=..."""
    options: dict[str, object] = {
        "source": small.corpus / "train.en",
        "target": small.corpus / "train.de",
        "source_language": "en",
        "target_language": "de",
        "vocabulary_size": 300,
        "out": out,
        **changes,
    }
    return ("prepare", *(part for name, value in options.items() for part in (option(name), value)))


def option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def evaluate(small: Small, **changes: object) -> tuple[object, ...]:
    files: dict[str, object] = {"source": small.corpus / "valid.en", "reference": small.corpus / "valid.de"}
    given = {"model": small.disco, **files, **changes}
    return ("evaluate", *(part for name, value in given.items() for part in (option(name), value)))


def train(recipe: object, small: Small, out: Path, *options: object) -> tuple[object, ...]:
    return ("train", recipe, "--data", small.dataset, "--out", out, "--quiet", *options)


# Verbs and options


def test_unknown_verb_lists_the_verbs(refused: Disco) -> None:
    said = refused("tranlate", "x").said
    assert "'tranlate'" in said
    assert "translate" in said.replace("tranlate", "")


CHOICES = [
    (("translate", "x", "--strategy", "beem"), "easy-first, mask-predict"),
    (("translate", "x", "--strategy", "beam"), "does not fit a model of kind disco"),
    (("translate", "x", "--strategy", "easy-first+left-to-right"), "joined with + are now effort high"),
    (("translate", "x", "--effort", "highest"), "'fast', 'normal', 'high'"),
    (("translate", "x", "--strategy", "mask-predict", "--effort", "high"), "it has: fast, normal"),
    (("translate", "x", "--device", "tpu"), "cpu, cuda, mps"),
    (("translate", "x", "--device", "cpu:x"), "cpu, cuda, mps"),
    (("translate", "x", "--long", "cut"), "'split', 'refuse'"),
    (("translate", "x", "--split", "maybe"), "'auto', 'yes', 'no'"),
    (("translate", "x", "--iterations", "0"), "iterations must be at least 1, got 0"),
    (("translate", "x", "--iterations", "many"), "--iterations"),
    (("translate", "x", "--length-beam", "0"), "length_beam must be at least 1, got 0"),
    (("translate", "x", "--length-penalty", "nan"), "length_penalty must be at least 0.0, got nan"),
    (("translate", "x", "--batch-tokens", "0"), "batch_tokens must be at least 1, got 0"),
    (("translate", "x", "--threads", "-1"), "--threads must be at least 0, got -1"),
    (("translate", "x", "--iteration", "3"), "--iteration"),
    (("translate", "x", "--input", "y"), "not both"),
    (("trace", "x", "--strategies", "easy-first", "hard-first"), "easy-first, mask-predict"),
    (("trace", "x", "--strategies", "autoregressive"), "there are: disco models with easy-first"),
    (("trace", "x", "--device", "tpu"), "cpu, cuda, mps"),
    (("trace", "x", "--position", "99"), "position must be between 0 and"),
    (("trace", "x", "--candidate", "5"), "candidate must be between 0 and 4"),
    (("trace", "One. Two. Three."), "this text has 3"),
    (("trace", " "), "give a sentence to trace"),
    (("trace",), "give a sentence to trace"),
    (("trace", "the old " * 50), "this sentence cannot be traced: a sentence has 150 tokens"),
]


@pytest.mark.parametrize(
    ("arguments", "expected"), CHOICES, ids=[" ".join(arguments)[:40] for arguments, _ in CHOICES]
)
def test_option_values(refused: Disco, small: Small, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in refused(*arguments, "--model", small.disco).said


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocabulary": "shared"}, "'joint', 'separate'"),
        ({"processing": "bpe"}, "'raw', 'moses', 'pretokenized'"),
        ({"vocabulary_size": 100}, "vocabulary_size must be at least 261"),
        ({"max_length": 0}, "max_length must be at least 1, got 0"),
        ({"source_language": " "}, "source_language must be a language code"),
        ({"valid_source": "x"}, "valid_source and valid_target go together"),
    ],
)
def test_options_of_prepare(
    refused: Disco, small: Small, tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    assert expected in refused(*prepare(small, tmp_path / "out", **changes)).said


def test_strategies_that_a_kind_of_model_lacks(refused: Disco, small: Small) -> None:
    for kind, fitting in (("cmlm", "mask-predict"), ("autoregressive", "beam, greedy")):
        command = ("translate", "x", "--model", getattr(small, kind), "--strategy", "easy-first")
        assert f"for {kind} there are: {fitting}" in refused(*command).said
    said = refused("trace", "x", "--model", small.autoregressive).said
    assert "a model of kind autoregressive" in said
    assert "cmlm models with mask-predict" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("corpus", "wmt99", "--out", "none"), "phrasebook"),
        (("export", "--model", "none", "--format", "pdf", "--out", "none"), "ctranslate2"),
        (("distill", "--model", "m", "--data", "d", "--out", "none", "--engine", "steam"), "'torch'"),
    ],
)
def test_other_choices(refused: Disco, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in refused(*arguments).said


def test_rescoring_with_a_foreign_vocabulary(
    refused: Disco, disco: Disco, small: Small, tmp_path: Path
) -> None:
    disco(*prepare(small, tmp_path / "other", vocabulary_size=300), "--quiet")
    foreign = make_model(tmp_path / "foreign", tmp_path / "other", "autoregressive")
    command = ("translate", "x", "--model", small.disco, "--rerank-with", foreign)
    assert "must share languages and tokenizers" in refused(*command).said
    assert "there is no model 'nobody'" in refused(*command[:-1], "nobody").said
    assert disco(*command[:-1], small.autoregressive, "--iterations", "1").code == 0


# Files that are read


def test_unequal_line_counts_are_both_named(refused: Disco, small: Small, tmp_path: Path) -> None:
    short = tmp_path / "short.de"
    short.write_text("Das Haus.\nDas Kind.\n")
    said = refused(*prepare(small, tmp_path / "out", target=short)).said
    assert f"{small.corpus / 'train.en'} has 300" in said
    assert f"{short} has 2" in said
    said = refused(*evaluate(small, reference=short)).said
    assert f"{short} has 2 lines" in said
    assert "4 sentences" in said


def test_a_missing_or_unreadable_file_is_named(refused: Disco, small: Small, tmp_path: Path) -> None:
    model = ("--model", small.disco)
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "")):
        readers = [
            ("translate", *model, "--input", path),
            evaluate(small, source=path),
            evaluate(small, reference=path),
            prepare(small, tmp_path / "out", source=path),
            ("train", "phrasebook.disco", "--data", path, "--out", tmp_path / "run"),
        ]
        for command in readers:
            said = refused(*command).said
            assert str(path) in said
            assert reason in said or "missing" in said


def test_a_broken_gz_is_named(refused: Disco, small: Small, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(b"\x1f\x8b\x08 nothing")
    assert "in.gz" in refused("translate", "--model", small.disco, "--input", tmp_path / "in.gz").said


def test_bytes_that_are_not_utf8_are_named_by_line(refused: Disco, small: Small, tmp_path: Path) -> None:
    bad, model = tmp_path / "bad", ("--model", small.disco)
    bad.write_bytes(BAD_UTF8)
    for command in (
        ("translate", *model, "--input", bad),
        evaluate(small, source=bad),
        evaluate(small, references=bad, source=bad),
        prepare(small, tmp_path / "out", target=bad),
    ):
        assert f"{bad}, line 2: not valid UTF-8" in refused(*command).said
    assert "standard input, line 2" in refused("translate", *model, stdin=BAD_UTF8).said
    assert "standard input, line 2" in refused("trace", *model, stdin=BAD_UTF8).said


def test_nothing_to_score_writes_no_hypotheses(refused: Disco, small: Small, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    command = evaluate(small, source=empty, reference=empty, hypotheses=tmp_path / "out")
    assert f"{empty} is empty" in refused(*command).said


def test_no_references(refused: Disco, small: Small) -> None:
    assert "--reference" in refused("evaluate", "--model", small.disco, "--source", small.corpus).said


def test_another_system_must_have_as_many_translations(refused: Disco, small: Small, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("Ein Satz.\n")
    said = refused(*evaluate(small, compare_with=tmp_path / "out")).said
    assert f"{tmp_path / 'out'} has 1 translations, but there are 4 test sentences" in said


# Output paths


def taken_outputs(small: Small, taken: Path) -> dict[str, tuple[object, ...]]:
    model = ("--model", small.disco)
    missing = ("--checkpoint", "none.pt", "--source-dict", "none", "--target-dict", "none")
    return {
        "prepare": prepare(small, taken),
        "train": train("phrasebook.disco", small, taken),
        "translate": ("translate", "x", *model, "--output", taken),
        "evaluate": evaluate(small, hypotheses=taken),
        "trace --html": ("trace", "x", *model, "--html", taken),
        "trace --svg": ("trace", "x", *model, "--svg", taken),
        "import-fairseq": ("import-fairseq", *missing, "--out", taken),
        "average": ("average", small.corpus, "--out", taken),
        "distill": ("distill", "--model", small.autoregressive, "--data", small.dataset, "--out", taken),
        "export": ("export", "--model", small.autoregressive, "--format", "ctranslate2", "--out", taken),
        "corpus": ("corpus", "phrasebook", "--out", taken),
    }


VERBS_THAT_WRITE = list(taken_outputs(Small(*[Path()] * 5), Path()))


@pytest.mark.parametrize("verb", VERBS_THAT_WRITE)
def test_an_output_path_that_exists_is_left_alone(
    refused: Disco, small: Small, tmp_path: Path, verb: str
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    said = refused(*taken_outputs(small, taken)[verb]).said
    assert f"{taken} already exists" in said


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS_THAT_WRITE if verb not in ("import-fairseq", "average", "corpus")]
)
def test_an_output_path_that_cannot_be_written(
    refused: Disco, small: Small, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "file").write_text("not a folder")
    out = tmp_path / "file" / "out"
    command = taken_outputs(small, out)[verb]
    if verb == "train":
        command += ("--training.max-steps", "1", "--model.width", "16")
    said = refused(*command).said
    assert str(tmp_path / "file") in said


# Model directories

Spoil = Callable[[Path], object]


def edit(name: str, change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Change a JSON file of a directory."""

    def spoil(directory: Path) -> None:
        content = json.loads((directory / name).read_text(encoding="utf-8"))
        change(content)
        (directory / name).write_text(json.dumps(content), encoding="utf-8")

    return spoil


def cut(name: str, keep: int) -> Spoil:
    """Cut a file of a directory short."""

    def spoil(directory: Path) -> None:
        (directory / name).write_bytes((directory / name).read_bytes()[:keep])

    return spoil


def replaced(name: str, content: bytes) -> Spoil:
    return lambda directory: (directory / name).write_bytes(content)


SPOILT_MODELS: dict[str, tuple[Spoil, str]] = {
    "no config": (lambda d: (d / "config.json").unlink(), "config.json is missing"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "model.safetensors is missing"),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "weights cut short": (cut("model.safetensors", 5000), "model.safetensors cannot be read"),
    "weights empty": (cut("model.safetensors", 0), "model.safetensors cannot be read"),
    "weights garbage": (replaced("model.safetensors", b"\xff" * 999), "model.safetensors cannot be read"),
    "config cut short": (cut("config.json", 50), "config.json cannot be read as JSON"),
    "config not UTF-8": (replaced("config.json", b"\xff"), "config.json cannot be read as JSON"),
    "config a list": (replaced("config.json", b"[1]"), "'format_version' is missing"),
    "newer format": (
        edit("config.json", lambda c: c.update(format_version=3)),
        "format version 3 is newer than this Disco reads (2)",
    ),
    "no format version": (edit("config.json", lambda c: c.pop("format_version")), "'format_version'"),
    "no model": (edit("config.json", lambda c: c.pop("model")), "the table 'model' is missing"),
    "no text": (edit("config.json", lambda c: c.update(text=3)), "the table 'text' is missing"),
    "text without target": (edit("config.json", lambda c: c["text"].pop("target")), "incomplete: 'target'"),
    "text of another sort": (edit("config.json", lambda c: c["text"].update(source=3)), "incomplete"),
    "unknown key": (edit("config.json", lambda c: c["model"].update(widht=1)), "unknown key 'widht'"),
    "wrong type": (
        edit("config.json", lambda c: c["model"].update(width="16")),
        "width must be a whole number, got '16'",
    ),
    "decoding of another sort": (
        edit("config.json", lambda c: c["extra"].update(decoding=3)),
        "extra.decoding must be a table, got 3",
    ),
    "a penalty in words": (
        edit("config.json", lambda c: c["extra"].update(decoding={"length_penalty": "two"})),
        "extra.decoding: length_penalty must be a number, got 'two'",
    ),
    "unknown kind": (edit("config.json", lambda c: c["model"].update(kind="gpt")), "disco, cmlm"),
    "other sizes": (
        edit("config.json", lambda c: c["model"]["encoder"].update(hidden=64)),
        "should be (64, 16), is (32, 16)",
    ),
    "more layers": (edit("config.json", lambda c: c["model"]["decoder"].update(layers=3)), "missing ["),
    "fewer layers": (edit("config.json", lambda c: c["model"]["decoder"].update(layers=1)), "unknown ["),
    "another processing": (
        edit("config.json", lambda c: c["text"]["source"].update(processing="magic")),
        "processing must be one of raw, moses",
    ),
    "tokenizer changed": (
        edit("tokenizer.json", lambda c: c["model"]["merges"].pop()),
        "does not belong to these weights",
    ),
}


@pytest.mark.parametrize(("spoil", "expected"), SPOILT_MODELS.values(), ids=SPOILT_MODELS)
def test_spoilt_model_directories(
    refused: Disco, small: Small, model: Path, spoil: Spoil, expected: str
) -> None:
    spoil(model)
    said = refused("translate", "x", "--model", model).said
    assert expected in said
    assert str(model) in said
    assert expected in refused(*evaluate(small, model=model)).said
    assert expected in refused("trace", "x", "--model", model).said


def test_a_foreign_tokenizer_is_refused_even_with_its_own_hash(
    refused: Disco, small: Small, model: Path, tmp_path: Path, disco: Disco
) -> None:
    """Somebody copied another model's tokenizer and its description as well: the sizes give it away."""
    disco(*prepare(small, tmp_path / "other", vocabulary_size=300), "--quiet")
    shutil.copy(tmp_path / "other" / "tokenizer.json", model)
    assert "does not belong to these weights" in refused("translate", "x", "--model", model).said
    theirs = json.loads((tmp_path / "other" / "dataset.json").read_text())["text"]
    edit("config.json", lambda config: config.update(text=theirs))(model)
    said = refused("translate", "x", "--model", model).said
    assert "tokenizer has 300 tokens, but the weights have 320" in said


def test_no_such_model(refused: Disco, small: Small) -> None:
    said = refused("translate", "x", "--model", "en-xx").said
    assert "there is no model 'en-xx'" in said
    assert "not a model directory" in refused("translate", "x", "--model", small.corpus / "train.en").said
    assert "config.json is missing" in refused("translate", "x", "--model", small.dataset).said


# Datasets


SPOILT_DATASETS: dict[str, tuple[Spoil, str]] = {
    "no description": (lambda d: (d / "dataset.json").unlink(), "dataset.json is missing"),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "no ids": (lambda d: (d / "train.source.bin").unlink(), "train.source.bin"),
    "ids cut short": (cut("train.target.bin", 10), "train.target.bin should have"),
    "newer format": (edit("dataset.json", lambda c: c.update(format_version=9)), "version 9"),
    "tokenizer changed": (replaced("tokenizer.json", b"{}"), "does not belong"),
    "no valid": (edit("dataset.json", lambda c: c["splits"].pop("valid")), "--valid-source"),
}


@pytest.mark.parametrize(("spoil", "expected"), SPOILT_DATASETS.values(), ids=SPOILT_DATASETS)
def test_spoilt_datasets(refused: Disco, small: Small, tmp_path: Path, spoil: Spoil, expected: str) -> None:
    data = shutil.copytree(small.dataset, tmp_path / "data")
    spoil(data)
    said = refused("train", "phrasebook.disco", "--data", data, "--out", tmp_path / "run").said
    assert expected in said
    assert str(data) in said


# Recipes

BAD_RECIPES = {
    "misspelt table": ("[modle]\nwidth = 16", "unknown key 'modle'; known keys: decoding, model"),
    "misspelt key": ("[model]\nwidht = 16", "unknown key 'widht'; known keys: activation"),
    "misspelt nested key": ("[model.encoder]\nlayer = 2", "unknown key 'layer'; known keys: heads"),
    "misspelt training key": ("[training]\nmax_step = 2", "unknown key 'max_step'"),
    "key outside a table": ("width = 16", "unknown key 'width'"),
    "string for a number": ('[model]\nwidth = "16"', "width must be a whole number, got '16'"),
    "fraction for a number": ("[model.encoder]\nlayers = 1.5", "layers must be a whole number, got 1.5"),
    "string for a fraction": ('[training]\nlearning_rate = "fast"', "must be a number, got 'fast'"),
    "truth for a number": ("[training]\nseed = true", "seed must be a whole number, got True"),
    "number for truth": ("[model]\ncontextless = 1", "contextless must be true or false, got 1"),
    "number for a string": ("[decoding]\nstrategy = 1", "strategy must be a string, got 1"),
    "number for a table": ("model = 3", "model must be a table, got 3"),
    "number for a nested table": ("[model]\nencoder = 6", "encoder must be a table, got 6"),
    "list for a table": ("[[model]]\nwidth = 16", "model must be a table"),
    "model.kind": ('[model]\nkind = "gpt"', "disco, cmlm, autoregressive, got 'gpt'"),
    "model.norm": ('[model]\nnorm = "both"', "post, pre; got 'both'"),
    "model.activation": ('[model]\nactivation = "tanh"', "gelu, relu, silu; got 'tanh'"),
    "model.positions": ('[model]\npositions = "rope"', "learned, sinusoidal, marian; got 'rope'"),
    "model.tying": ('[model]\ntying = "some"', "all, decoder, none; got 'some'"),
    "model.attention_init": ('[model]\nattention_init = "he"', "normal, xavier; got 'he'"),
    "objective.name": ('[objective]\nname = "gan"', "disco, left-to-right, permutation"),
    "objective of another kind": ('[objective]\nname = "cmlm"', "does not fit a model of kind disco"),
    "decoding.strategy": ('[decoding]\nstrategy = "beam"', "easy-first, mask-predict"),
    "decoding.iterations": ("[decoding]\niterations = 0", "iterations must be at least 1, got 0"),
    "no layers": ("[model.decoder]\nlayers = 0", "layers must be at least 1, got 0"),
    "heads": ("[model]\nwidth = 10", "multiple of the heads"),
    "dropout": ("[model]\ndropout = 1.0", "dropout must be at least 0 and below 1"),
    "nan": ("[training]\nweight_decay = nan", "weight_decay must be at least 0, got nan"),
    "batch": ("[training]\nbatch_tokens = 10", "batch_tokens must be at least max_tokens"),
    "vocabulary": ("[model]\nsource_vocabulary = 9", "comes from the dataset; remove it"),
    "not TOML": ("[model", "not valid TOML"),
}


@pytest.mark.parametrize(("content", "expected"), BAD_RECIPES.values(), ids=BAD_RECIPES)
def test_recipes(refused: Disco, small: Small, tmp_path: Path, content: str, expected: str) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text(content)
    assert expected in refused(*train(recipe, small, tmp_path / "run")).said


def test_a_recipe_that_is_not_utf8(refused: Disco, small: Small, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_bytes(b'[model]\nkind = "\xff"')
    assert "my.toml" in refused(*train(tmp_path / "my.toml", small, tmp_path / "run")).said


def test_no_recipe(refused: Disco, small: Small, tmp_path: Path) -> None:
    assert "phrasebook.disco" in refused(*train("fraseboek", small, tmp_path / "run")).said
    assert "phrasebook.disco" in refused("train", "--data", small.dataset, "--out", tmp_path / "run").said
    assert "--data" in refused("train", "phrasebook.disco").said


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--model.kind", "gpt"), "disco, cmlm, autoregressive, got 'gpt'"),
        (("--model.tying", "some"), "'all', 'decoder', 'none'"),
        (("--objective.name", "gan"), "disco, left-to-right"),
        (("--decoding.strategy", "beam"), "easy-first, mask-predict"),
        (("--model.max-source", "3"), "model.max_source must be at least"),
        (("--model.kind", "cmlm", "--decoding.strategy", "easy-first"), "for cmlm there are: mask-predict"),
        (("--device", "tpu"), "cpu, cuda, mps"),
        (("--threads", "-1"), "--threads"),
        (("--resume",), "has no training run to resume"),
    ],
)
def test_options_of_train(
    refused: Disco, small: Small, tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert expected in refused(*train("phrasebook.disco", small, tmp_path / "run", *options)).said


def test_tied_tables_need_a_joint_vocabulary(
    refused: Disco, disco: Disco, small: Small, tmp_path: Path
) -> None:
    disco(*prepare(small, tmp_path / "apart", vocabulary="separate"), "--quiet")
    said = refused("train", "phrasebook.disco", "--data", tmp_path / "apart", "--out", tmp_path / "run").said
    assert "model.tying 'all' needs a joint vocabulary" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--rescore-with=self", "--rescore-with is now --rerank-with"),
        ("--settle", "--settle is now --effort high"),
        ("--read", "--read is now --effort high"),
        ("--drop-behind", "--drop-behind was removed"),
    ],
)
def test_an_option_of_an_older_release_is_refused_with_the_new_one_named(
    disco: Disco, old: str, new: str
) -> None:
    done = disco("translate", "x", old, "1")
    assert (done.code, done.out) == (2, "")
    assert new in done.err
