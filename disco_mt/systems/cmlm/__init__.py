"""CMLM: the conditional masked language model of Ghazvininejad et al. (2019), the paper's main baseline."""

from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.options import DecodingOptions
from disco_mt.systems.cmlm.model import CMLM
from disco_mt.systems.cmlm.objectives import cmlm
from disco_mt.systems.system import Decoder, System

SYSTEM = System(
    name="cmlm",
    label="CMLM",
    build=CMLM,
    objectives={"cmlm": cmlm},
    decoders={
        "mask-predict": Decoder(
            mask_predict,
            options=("iterations", "length_beam", "length_penalty"),
            efforts=("fast", "normal"),
            pins=True,
            trace=True,
        )
    },
    bench={"reference": tuple(DecodingOptions("mask-predict", iterations=passes) for passes in (4, 10))},
)
