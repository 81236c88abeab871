"""DisCo: the Disentangled Context transformer, the system of the paper."""

from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.options import DecodingOptions
from disco_mt.systems.disco import objectives
from disco_mt.systems.disco.decoding import ORDERS, decode_autoregressively, refine_in_order
from disco_mt.systems.disco.model import DisCo
from disco_mt.systems.disco.scoring import score_targets
from disco_mt.systems.system import Decoder, System

_LENGTH_BEAM = ("iterations", "length_beam", "length_penalty")


def _algorithm_1(order: str, efforts: tuple[str, ...] = ("fast", "normal")) -> Decoder:
    return Decoder(
        refine_in_order, options=_LENGTH_BEAM, efforts=efforts, pins=True, trace=True, order=ORDERS[order]
    )


SYSTEM = System(
    name="disco",
    label="DisCo",
    build=DisCo,
    objectives={
        "disco": objectives.disco,
        "left-to-right": objectives.left_to_right,
        "permutation": objectives.permutation,
        "cloze": objectives.cloze,
        "easy-first": objectives.easy_first,
        "mixture": objectives.mixture,
    },
    decoders={
        "easy-first": _algorithm_1("easy-first", ("fast", "normal", "high")),
        "mask-predict": Decoder(
            mask_predict, options=_LENGTH_BEAM, efforts=("fast", "normal"), pins=True, trace=True
        ),
        "left-to-right": _algorithm_1("left-to-right"),
        "right-to-left": _algorithm_1("right-to-left"),
        "all-but-itself": _algorithm_1("all-but-itself"),
        "autoregressive": Decoder(
            decode_autoregressively, options=("length_beam", "length_weight"), efforts=("fast", "normal")
        ),
    },
    score=score_targets,
    model_options=("start_token", "query_word"),
    engines=("incremental", "reference"),
    bench={
        "reference": (DecodingOptions("easy-first"),),
        "incremental": tuple(DecodingOptions("easy-first", length_beam=beam) for beam in (5, 3, 1)),
    },
)
