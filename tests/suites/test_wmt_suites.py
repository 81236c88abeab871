"""The paper's seven directions: every number of their recipes, and the sizes of their models."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from disco_mt.decoding.options import DecodingOptions
from disco_mt.evaluation.quality import bleu_tokenizer
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.suites.suite import Suite, load_suite, shipped_suites
from disco_mt.systems.build import build_model
from tiny_mirror import SUITES

BASE, LARGE = Stack(6, 8, 2048), Stack(6, 16, 4096)


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest) -> Suite:
    return load_suite(str(request.param))


def year(suite: Suite) -> str:
    return suite.name.partition(".")[0]


def test_all_seven_ship() -> None:
    assert {*SUITES} == {name for name in shipped_suites() if re.match(r"wmt\d+\.", name)}


CORPORA = {
    "wmt14.en-de": ["europarl_wmt13-7", "commoncrawl_wmt13-1", "news_commentary-v9.1"],
    "wmt16.en-ro": ["europarl-v8", "setimes-v2"],
    "wmt17.en-zh": ["news_commentary_wmt18-13", "unpc-v1.0"],
    "wmt14.en-fr": [
        "europarl_wmt13-7",
        "commoncrawl_wmt13-1",
        "multiun-v1",
        "news_commentary-v9.1",
        "giga_fren-v2",
    ],
}
HELD_OUT = {
    "wmt14.en-de": ("Statmt-newstest-2013-eng-deu", "Statmt-newstest_deen-2014-deu-eng"),
    "wmt14.de-en": ("Statmt-newstest-2013-eng-deu", "Statmt-newstest_deen-2014-deu-eng"),
    "wmt16.en-ro": ("Statmt-newsdev_enro-2016-eng-ron", "Statmt-newstest_enro-2016-eng-ron"),
    "wmt16.ro-en": ("Statmt-newsdev_roen-2016-ron-eng", "Statmt-newstest_roen-2016-ron-eng"),
    "wmt17.en-zh": ("Statmt-newsdev_enzh-2017-eng-zho", "Statmt-newstest_enzh-2017-eng-zho"),
    "wmt17.zh-en": ("Statmt-newsdev_zhen-2017-zho-eng", "Statmt-newstest_zhen-2017-zho-eng"),
    "wmt14.en-fr": ("", "Statmt-newstest_fren-2014-fra-eng"),
}


def test_languages_and_corpora(suite: Suite) -> None:
    name, _, languages = suite.name.partition(".")
    assert suite.data.source == "mtdata"
    assert suite.data.languages == tuple(languages.split("-"))
    other = next(each for each in suite.data.languages if each != "en")
    of_pair = f"{name}.en-{other}"
    assert [each.split("-", 1)[1].rsplit("-", 2)[0] for each in suite.data.parts.train] == CORPORA[of_pair]
    assert suite.data.parts.by_hand == (("CWMT-wmt17",) if other == "zh" else ())
    assert suite.data.limit == 0


def test_dev_and_test_sets(suite: Suite) -> None:
    parts = suite.data.parts
    assert (parts.valid, parts.test) == HELD_OUT[suite.name]
    assert parts.valid_one_in == (1333 if suite.name == "wmt14.en-fr" else 0)


def test_vocabularies(suite: Suite) -> None:
    of_40k = suite.name in ("wmt16.en-ro", "wmt16.ro-en", "wmt14.en-fr")
    separate = year(suite) == "wmt17"
    assert suite.prepare.vocabulary_size == (40_000 if of_40k else 32_000)
    assert suite.prepare.vocabulary == ("separate" if separate else "joint")
    assert suite.prepare.processing == "moses"
    for system in suite.systems.values():
        assert system.recipe.model.tying == ("decoder" if separate else "all")


def test_chinese_is_scored_by_characters(suite: Suite) -> None:
    assert (bleu_tokenizer(suite.data.languages[1]) == "zh") is (suite.name == "wmt17.en-zh")


def test_students_are_base_and_teachers_large_but_of_romanian(suite: Suite) -> None:
    assert suite.distill is not None
    assert suite.distill.beam == 5
    teacher = suite.systems[suite.distill.teacher].recipe.model
    assert teacher.kind == "autoregressive"
    romanian = year(suite) == "wmt16"
    assert (teacher.width, teacher.encoder, teacher.decoder) == (
        (512, BASE, BASE) if romanian else (1024, LARGE, LARGE)
    )
    students = {name: each for name, each in suite.systems.items() if each.data == "distilled"}
    assert {each.recipe.model.kind for each in students.values()} == {"autoregressive", "cmlm", "disco"}
    for system in (*students.values(), suite.systems["at-raw"]):
        model = system.recipe.model
        assert (model.width, model.encoder, model.decoder) == (512, BASE, BASE)


def test_optimisation(suite: Suite) -> None:
    assert suite.average == 5
    for system in suite.systems.values():
        training = system.recipe.training
        assert training.batch_tokens == 128_000
        assert training.max_steps == (500_000 if suite.name == "wmt14.en-fr" else 300_000)
        assert (training.warmup_steps, training.learning_rate) == (10_000, 5e-4)
        assert (training.adam_beta1, training.adam_beta2, training.adam_epsilon) == (0.9, 0.999, 1e-6)
        assert training.weight_decay == 0.01
        assert training.precision == "fp16"
        assert (training.max_epochs, training.patience, training.dev_every) == (0, 0, 0)
        assert system.recipe.objective.label_smoothing == 0.1
        assert system.recipe.model.attention_init == "normal"
        assert (system.recipe.model.norm, system.recipe.model.activation) == ("post", "gelu")


def test_dropout_is_chosen_for_every_system(suite: Suite) -> None:
    for name, system in suite.systems.items():
        assert system.choose.dropout == (0.1, 0.2, 0.3)
        recipes = suite.trainings(name)
        assert {label: each.model.dropout for label, each in recipes.items()} == {
            f"{name}@0.1": 0.1,
            f"{name}@0.2": 0.2,
            f"{name}@0.3": 0.3,
        }


def test_decoding(suite: Suite) -> None:
    for system in suite.systems.values():
        match system.recipe.model.kind:
            case "autoregressive":
                assert system.evaluate == DecodingOptions(strategy="beam", beam=5)
            case "cmlm":
                assert system.evaluate == DecodingOptions(
                    strategy="mask-predict", iterations=10, length_beam=5
                )
            case "disco":
                assert system.evaluate == DecodingOptions(strategy="easy-first", iterations=10, length_beam=5)


def count_by_hand(config: ModelConfig) -> int:
    """Every matrix and vector of a model, written out. d: width, h: hidden."""
    d = config.width
    positions = 1024
    attention = 4 * (d * d + d)  # queries, keys, values, output: a matrix and a bias each
    norm = 2 * d
    encoder_layer = attention + norm + (d * (h := config.encoder.hidden) + h) + (h * d + d) + norm
    decoder_layer = 2 * (attention + norm) + (d * (h := config.decoder.hidden) + h) + (h * d + d) + norm
    layers = 6 * encoder_layer + 6 * decoder_layer
    shared = config.tying == "all"
    words = (config.target_vocabulary if shared else config.source_vocabulary + config.target_vocabulary) * d
    lengths = 0 if config.kind == "autoregressive" else 1024 * d  # the table of the length predictor
    return words + 2 * positions * d + layers + lengths


# What count_by_hand gives for base: layers 44,138,496 = 6 (3,152,384 + 4,204,032); positions 1,048,576;
# lengths 524,288; words 512 x 32,000 = 16,384,000.
MILLIONS = {
    "wmt14.en-de": {"at-raw": 61.6, "disco-distilled": 62.1, "cmlm-distilled": 62.1, "teacher": 211.2},
    "wmt16.en-ro": {"at-raw": 65.7, "disco-distilled": 66.2, "cmlm-distilled": 66.2},
    "wmt17.en-zh": {"at-raw": 78.0, "disco-distilled": 78.5, "cmlm-distilled": 78.5, "teacher": 244.0},
    "wmt14.en-fr": {"at-raw": 65.7, "disco-distilled": 66.2, "cmlm-distilled": 66.2, "teacher": 219.4},
}


@pytest.mark.parametrize("name", MILLIONS)
def test_parameters_are_those_counted_by_hand(name: str) -> None:
    suite = load_suite(name)
    size = suite.prepare.vocabulary_size
    for system, millions in MILLIONS[name].items():
        config = replace(suite.systems[system].recipe.model, source_vocabulary=size, target_vocabulary=size)
        with torch.device("meta"):
            model = build_model(config)
        counted = sum(parameter.numel() for parameter in model.parameters())
        assert counted == count_by_hand(config), system
        assert round(counted / 1e6, 1) == millions


def test_analyses_are_where_the_paper_has_them() -> None:
    """Table 4 and the ablations: en-de and ro-en. Contextless AT: de-en, too."""
    main = {"at-raw", "at-distilled", "cmlm-distilled", "disco-distilled"}
    contextless = {"at-contextless", "at-contextless-distilled"}
    analyses = {"cmlm-raw", "disco-raw", "disco-easy-first", *contextless}
    expected = {
        "wmt14.en-de": {"teacher", "disco-mixture", *main, *analyses},
        "wmt14.de-en": {"teacher", *main, *contextless},
        "wmt16.en-ro": main,
        "wmt16.ro-en": main | analyses,
    }
    for name in SUITES:
        assert {*load_suite(name).systems} == expected.get(name, {"teacher", *main}), name
