"""How a model is trained: one frozen dataclass, the paper's numbers by default."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least, one_of

# What may differ when a run goes on: when to stop, what to keep, and whether layers are compiled or encoder
# states kept, which changes a weight no more than another number of threads does.
MAY_CHANGE = frozenset(
    {
        "max_steps",
        "max_epochs",
        "patience",
        "save_every",
        "log_every",
        "keep_best",
        "encoder_states",
        "compile",
    }
)

Precision = Literal["fp32", "bf16", "fp16"]
OptimizerName = Literal["adamw", "muon"]


@dataclass(frozen=True)
class TrainingOptions:
    """The paper trained with 128K tokens per update for 300K updates; these are its settings."""

    seed: int = 1
    """Everything random follows from it: first weights, order of the data, contexts, dropout."""
    batch_tokens: int = 128_000
    """Tokens per update (the longer side of each batch, padding included), over all processes together,
    reached by accumulation."""
    max_tokens: int = 8_192
    """Tokens of one batch that goes through a model at once: as many as fit in memory."""
    max_steps: int = 300_000
    """Updates after which training ends."""
    max_epochs: int = 0
    """Passes over the data after which training ends; 0 = no limit."""
    learning_rate: float = 5e-4
    """The peak, reached at the end of the warm-up."""
    warmup_steps: int = 10_000
    """Updates of linear warm-up; then the rate falls with the inverse square root of the step."""
    cooldown_steps: int = 0
    """The last updates before max_steps, over which the rate also falls to 0 in a straight line; 0 = none, as
    in the paper."""
    optimizer: OptimizerName = "adamw"
    """adamw, the paper's, or muon: orthogonal steps for the matrices of the layers (training/optimizer.py),
    from which a run of a few thousand updates gains."""
    weight_decay: float = 0.01
    """Decoupled from the gradient, on all parameters."""
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    clip_norm: float = 25.0
    """Longest gradient, over all parameters together."""
    keep_best: int = 5
    """How many of the models with the best dev BLEU are kept."""
    save_every: int = 1000
    """Updates between two checkpoints; one is saved after each dev score and at the end, too."""
    dev_every: int = 0
    """Updates between two dev scores; 0 = at the end of each epoch. The last update is always scored."""
    patience: int = 0
    """Dev scores without improvement after which training ends; 0 = never."""
    log_every: int = 100
    """Updates between two lines of the log."""
    precision: Precision = "fp32"
    """Of the matrix products: fp32, bf16 or fp16. Weights, sums, LayerNorm and softmax are always fp32."""
    freeze: tuple[str, ...] = ()
    """Parts of the model that are not trained, such as encoder: they run without gradient and dropout."""
    encoder_states: str = ""
    """A folder that keeps the output of a frozen encoder, in half precision: about a kilobyte per source
    token at width 512. Empty: it is computed anew in every epoch."""
    compile: bool = False
    """Compile the layers with torch.compile; on a CPU this needs a C++ compiler."""

    def __post_init__(self) -> None:
        one_of("training.precision", self.precision, get_args(Precision))
        one_of("training.optimizer", self.optimizer, get_args(OptimizerName))
        for name in ("max_tokens", "max_steps", "warmup_steps", "keep_best", "save_every", "log_every"):
            at_least(f"training.{name}", getattr(self, name), 1)
        for name in ("seed", "max_epochs", "cooldown_steps", "weight_decay", "dev_every", "patience"):
            at_least(f"training.{name}", getattr(self, name), 0)
        for name in ("learning_rate", "adam_epsilon", "clip_norm"):
            if not getattr(self, name) > 0:
                raise UserError(f"training.{name} must be above 0, got {getattr(self, name)}")
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"training.{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if self.batch_tokens < self.max_tokens:
            raise UserError(
                f"training.batch_tokens must be at least max_tokens, got {self.batch_tokens} tokens per "
                f"update but {self.max_tokens} at once; lower max_tokens too"
            )

    def decisive(self) -> dict[str, Any]:
        """The options that the weights depend on: a resumed run must have the same."""
        ending = {"max_steps"} if self.cooldown_steps else set()  # the rate depends on where the end is
        return {name: value for name, value in asdict(self).items() if name not in MAY_CHANGE - ending}
