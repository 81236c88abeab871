"""AT: the autoregressive transformer, the paper's baseline and teacher."""

from disco_mt.decoding.options import DecodingOptions
from disco_mt.systems.autoregressive.decoding import beam_decoder, greedy_decoder
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.autoregressive.objectives import autoregressive
from disco_mt.systems.autoregressive.scoring import score_targets
from disco_mt.systems.system import Decoder, System

SYSTEM = System(
    name="autoregressive",
    label="AT",
    build=Autoregressive,
    objectives={"autoregressive": autoregressive},
    decoders={
        "beam": Decoder(beam_decoder, options=("beam", "length_penalty")),
        "greedy": Decoder(greedy_decoder, options=("length_penalty",)),
    },
    score=score_targets,
    model_options=("contextless",),
    engines=("reference", "ctranslate2"),
    bench={"ctranslate2": (DecodingOptions("beam"), DecodingOptions("greedy", beam=1))},
)
