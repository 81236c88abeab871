"""The JSON of /v1, as clients write and read it. Requests are strict: an unknown field is a mistake."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from disco_mt.decoding.options import Effort
from disco_mt.serve.limits import LONGEST_PIN, MOST_ITERATIONS, MOST_PINS, MOST_TEXTS, WIDEST_LENGTH_BEAM

Text = Annotated[str, Field(max_length=200_000)]
Name = Annotated[str, Field(max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PinnedWord(_Strict):
    """A word or phrase that the translation must contain."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_PIN)]
    at: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None, description="Position (from 0) of its first token; null: where it fits best."
    )
    sentence: Annotated[int, Field(ge=0, le=10_000)] = Field(0, description="Which sentence of the text.")
    of: Annotated[int, Field(ge=0, lt=MOST_TEXTS)] = Field(0, description="Which text, if there are several.")


class TranslateRequest(_Strict):
    """What to translate, and how. Texts may have several sentences and lines."""

    text: Text | Annotated[list[Text], Field(max_length=MOST_TEXTS)] = Field(
        description="One text, or a list of texts."
    )
    model: Name | None = Field(None, description="Name of a model of /v1/models; null: by the languages.")
    source: Name | None = Field(None, description="Language of the text; null: any.")
    target: Name | None = Field(None, description="Language to translate into; null: any.")
    strategy: Name = Field("", description="Inference algorithm; empty: the model's default.")
    effort: Effort = Field("", description="fast, normal or high; empty: the model's default.")
    iterations: int = Field(
        10, ge=1, le=MOST_ITERATIONS, description="T: the maximum number of decoder passes."
    )
    length_beam: int = Field(5, ge=1, le=WIDEST_LENGTH_BEAM, description="K: how many lengths are tried.")
    pinned: Annotated[list[PinnedWord], Field(max_length=MOST_PINS)] = Field(
        default_factory=list, description="Words that the translations must contain."
    )
    trace: bool = Field(False, description="Return every pass of every length candidate.")
    stream: bool = Field(False, description="Answer with server-sent events: each pass as it happens.")


class SentenceAnswer(BaseModel):
    """One sentence. Lists have one entry per token."""

    source: str
    text: str
    tokens: list[str]
    pieces: list[str] = Field(description="The tokens as they read, each with the space before it.")
    probabilities: list[float]
    pinned: list[bool] = Field(description="True where a token is pinned; empty where none is.")
    score: float = Field(
        description="What the candidate was chosen by. With reranking: the mean log probability that the "
        "reranker gives its words, plus their share of the weighted log probability of the length. Without: "
        "the log probability of its words, divided by their number to the power of the length penalty."
    )
    steps: int = Field(description="Sequential decoder passes.")
    trace: dict[str, Any] | None = Field(None, description="Every pass, if it was asked for.")


class TextAnswer(BaseModel):
    """One text and its sentences."""

    text: str
    steps: int
    sentences: list[SentenceAnswer]


class TranslateAnswer(BaseModel):
    """One translation per text, in order."""

    model: str
    source: str
    target: str
    strategy: str
    milliseconds: float = Field(description="Time in the server, including the queue.")
    translations: list[TextAnswer]


class ModelAnswer(BaseModel):
    """A model of the server."""

    model_config = ConfigDict(from_attributes=True)
    name: str
    source: str
    target: str
    kind: str
    strategies: list[str] = Field(description="The first is the default.")


class ModelsAnswer(BaseModel):
    """All models; the first is the default."""

    models: list[ModelAnswer]


class ErrorAnswer(BaseModel):
    """What went wrong."""

    error: str


class StatusAnswer(BaseModel):
    """Whether the server is well."""

    status: str
