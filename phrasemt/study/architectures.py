"""The settings of the model families of the papers, one class for each file of `phrasemt/models/`.

A family whose file holds a class `Settings` brings its settings itself (docs/adding-a-system.md).

Defaults come from the paper of a family; `phrasemt/study/presets.py` holds the complete systems of the papers. Names in
descriptions: Neutron and dl4mt are programs of the papers' authors, T2T is tensor2tensor; numbers like X3 are rows of
docs/decisions.md.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import (
    Discriminator,
    Field,
    SerializeAsAny,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from phrasemt.errors import did_you_mean, own_code
from phrasemt.fields import Depth, Number, Positions, Probability, Settings, UserPath, Width, refuse, sections
from phrasemt.phrase_modes import PHRASE_MODES
from phrasemt.symbols import CHUNK_LABELS

Multiple = Annotated[
    float, Field(gt=0), Number(at_most=64, because="the layer is this many times as wide as the model")
]


def _without_effect(settings: Settings, keys: Iterable[str], switch: str, needed: str) -> Iterator[str]:
    """Yield a problem for each of the keys that has a value of its own while the switch has another than it needs."""
    value = getattr(settings, switch)
    for key in keys:
        if value != needed and settings.differs(key):
            yield f"{key} has no effect with {switch}: {value}, only with {switch}: {needed}"


class PhraseSegmentation(Settings):
    """The segmentation of a source into the phrases of Xu et al. (X1 to X3).

    L is the number of encoder positions, `</s>` included. n = max(min(ntok_max, ceil(L/ntok_div)), ntok_min) is the
    length of n-gram phrases, and the largest length of phrases from trees.
    """

    mode: Literal["ngram", "parse", "random", "right", "shuffled", "given", "none"] = Field(
        "ngram",
        description="ngram: phrases of n tokens; parse: Algorithm 1 on parses; random, right: Algorithm 1 on random "
        "binary trees or on right-branching trees; shuffled: the phrase lengths of parse in random order; given: the "
        "phrases that you give; none: no phrases, the attended phrases of eq. 8 are 0, a control for its network (X24)",
    )
    ntok_div: Positions = Field(6, description="divisor of L")
    ntok_min: Positions = Field(3, description="smallest n")
    ntok_max: Positions = Field(8, description="largest n")
    ntok_scope: Literal["sentence", "batch"] = Field(
        "sentence",
        description="L of a sentence: its own length, or the padded length of its batch (Neutron; X3). With batch, "
        "scores depend on the other sentences of the batch",
    )
    given: UserPath | None = Field(
        None, description="mode given: folder of <dataset>/<split>.txt, with the phrase ends of each raw pair, in words"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> PhraseSegmentation:
        problems = []
        if self.ntok_min > self.ntok_max:
            problems.append(f"ntok_min ({self.ntok_min}) must not exceed ntok_max ({self.ntok_max})")
        mode = PHRASE_MODES[self.mode]
        if mode.reads_given != (self.given is not None):
            problems.append("the folder `given` must be set with mode: given, and only with it")
        for key in PhraseSegmentation.model_fields:
            if key not in {"mode", "given", *mode.keys} and self.differs(key):
                modes = ", ".join(name for name, other in PHRASE_MODES.items() if key in other.keys)
                problems.append(f"{key} has no effect in mode {self.mode}, only in {modes}")
        refuse(problems)
        return self

    @property
    def reads_parses(self) -> bool:
        return PHRASE_MODES[self.mode].reads_parses

    @property
    def has_columns(self) -> bool:
        """Whether models read the phrases from columns of `extract_phrases`."""
        return PHRASE_MODES[self.mode].stored

    @property
    def folder_name(self) -> str:
        """The mode and all options that differ from their defaults: the folder name of the phrase columns."""
        options = [
            f"{key}-{value}"
            for key, value in self.model_dump(mode="json", exclude={"mode", "given"}, exclude_defaults=True).items()
        ]
        folder = [re.sub(r"[^a-zA-Z0-9.+-]", "-", self.given.name)] if self.given else []
        return "_".join([self.mode, *folder, *options])


class ModelInputs(Settings):
    """The inputs that batches must hold for a model."""

    source: bool = Field(description="source sentences; a language model reads none")
    begins_with_bos: bool = Field(description="`<s>` in front of each source, a position like any other")
    phrases: PhraseSegmentation | None = Field(description="ends of source phrases by this segmentation")
    chunks: bool = Field(description="chunks of the target")


class Control(NamedTuple):
    """A model that shows what a gain comes from. title: of its row; {title} stands for that of the system."""

    model: Architecture
    title: str


class Architecture(Settings, ABC):
    """Base of the settings of all model families.

    The properties are for code that reads a study. Stages get the values of these properties as settings of their own
    (phrasemt/stages), so that an edited property reruns the stages whose values change.
    """

    family: str
    reads_chunks: ClassVar[bool] = False  # whether batches must hold the chunks of the target
    translates: ClassVar[bool] = True
    # Deviations between trainings are pooled within a group: recurrent systems differ more than those of attention.
    pool_group: ClassVar[Literal["attention", "recurrent"]] = "attention"

    @property
    def full_name(self) -> str:
        return self.family

    @property
    @abstractmethod
    def learning_rate_width(self) -> int:
        """The width d in the learning rate schedule of Vaswani et al."""

    @property
    def source_phrases(self) -> PhraseSegmentation | None:
        """The segmentation of the source, for batches; None for models without phrases."""
        return None

    @property
    def source_begins_with_bos(self) -> bool:
        """Whether sources begin with `<s>`, which is a position like any other."""
        return False

    @property
    def one_vocabulary(self) -> bool:
        """Whether source and target must share a vocabulary."""
        return False

    @property
    def model_inputs(self) -> ModelInputs:
        return ModelInputs(
            source=self.translates,
            begins_with_bos=self.source_begins_with_bos,
            phrases=self.source_phrases,
            chunks=self.reads_chunks,
        )

    @property
    def plain_counterpart(self) -> Architecture:
        """A model of the same size without the addition of its paper; `phrasemt describe` compares costs with it."""
        return self

    @property
    def own_controls(self) -> dict[str, Control]:
        """The controls that a system of this family can have, by name (`controls` of a system)."""
        return {}


# The keys of each attention.
_OF_ATTENTION = {"relative": ("rel_k",), "ngrams": ("ngrams", "ngram_score")}
_ATTENTION = {"attention", *chain.from_iterable(_OF_ATTENTION.values())}


class Layers(Architecture):
    """Base of the families with Transformer layers."""

    width: Width = Field(512, description="model width d")
    heads: Width = Field(8, description="attention heads h; d/h is the head width")
    ffn_width: Width = Field(2048, description="inner width f of the feed-forward networks")
    dropout: Probability = Field(0.1, description="dropout of embeddings and of outputs of sub-layers")
    attn_dropout: Probability = Field(0.1, description="dropout of attention weights")
    act_dropout: Probability = Field(0.1, description="dropout of feed-forward activations")
    norm: Literal["post", "pre"] = Field(
        "post", description="layer normalisation after (Vaswani et al., Xu et al.) or before each sub-layer (T2T)"
    )
    attention: Literal["tokens", "relative", "ngrams"] = Field(
        "tokens",
        description="tokens: as in the Transformer (Vaswani et al.); relative: self-attention with relative instead of "
        "absolute positions (Shaw et al. 2018); ngrams: phrasal attention, to n-grams of tokens (Nguyen et al.)",
    )
    rel_k: Positions = Field(
        16, description="attention relative: largest distance k with its own embedding (base model: 16)"
    )
    ngrams: Annotated[Literal[1, 2, 3, 4], Number()] = Field(
        2, description="attention ngrams: longest n-gram N_g; 1 is attention to tokens"
    )
    ngram_score: Literal["query_kernel", "static", "last_token"] = Field(
        "query_kernel",
        description="attention ngrams: the paper's scores; the rejected alternative, convolved keys (static); or a "
        "control of ours, scores of the last token alone with the parameters of query_kernel (last_token)",
    )

    @model_validator(mode="after")
    def _layers_fit_together(self) -> Layers:
        problems = []
        if self.width % self.heads:
            problems.append(f"width ({self.width}) must be a multiple of heads ({self.heads})")
        for attention, keys in _OF_ATTENTION.items():
            problems += _without_effect(self, keys, "attention", attention)
        refuse(problems)
        return self

    @property
    def full_name(self) -> str:
        return self.family if self.attention == "tokens" else f"{self.family} with attention: {self.attention}"

    @property
    def learning_rate_width(self) -> int:
        return self.width

    def parameters_of_attention(self, to_itself: int, to_source: int) -> int:
        """What `attention` adds to so many attentions (Shaw et al., Eqs. 3-4; Nguyen et al., Eqs. 5-10)."""
        if self.attention == "relative":
            return to_itself * 2 * (2 * self.rel_k + 1) * (self.width // self.heads)
        orders = range(2, self.ngrams + 1) if self.attention == "ngrams" else ()
        return (to_itself + to_source) * sum(2 * n * self.width**2 for n in orders)

    def as_large(self, layers: int, added: int) -> dict[str, Control]:
        """The control `same-size`: the plain counterpart with wider feed-forward networks, or nothing.

        layers: with such a network. added: parameters in use that the counterpart does not have.
        """
        wider = round(added / (layers * (2 * self.width + 1)))
        if not wider:
            return {}
        plain = self.plain_counterpart
        model = type(plain).model_validate({**plain.model_dump(), "ffn_width": self.ffn_width + wider})
        title = f"Transformer as large as {{title}}, feed-forward width {self.ffn_width + wider:,}"
        return {"same-size": Control(model, title)}


class TransformerModel(Layers):
    """Transformer (Vaswani et al. 2017). The defaults are the base model."""

    family: Literal["transformer"] = Field("transformer", description="model family, phrasemt/models/<family>.py")
    encoder_layers: Depth = Field(6, description="encoder layers N")
    decoder_layers: Depth = Field(6, description="decoder layers N")
    tie: Literal["decoder", "all"] = Field(
        "decoder",
        description="decoder: target embeddings and output layer share a table; all: source embeddings, too (needs a "
        "shared vocabulary)",
    )
    embed_ln: bool = Field(False, description="layer normalisation of the embeddings (Neutron)")
    softmax_bias: bool = Field(True, description="bias of the output layer (Neutron: true, T2T: false)")
    init: Literal["xavier", "neutron"] = Field(
        "xavier", description="initial weights: Xavier-uniform, or uniform by fan-in (Neutron)"
    )

    @property
    def one_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def plain_counterpart(self) -> Architecture:
        sizes = self.model_dump(include=TransformerModel.model_fields.keys() - {"family", *_ATTENTION})
        return TransformerModel.model_validate(sizes)

    @property
    def own_controls(self) -> dict[str, Control]:
        added = self.added_parameters if self.family in _NAMES else _added_by_own_family(self)
        return self.as_large(self.encoder_layers + self.decoder_layers, added)

    @property
    def added_parameters(self) -> int:
        """The parameters in use that the plain counterpart does not have."""
        return self.parameters_of_attention(self.encoder_layers + self.decoder_layers, self.decoder_layers)


class PhraseRepresentationModel(TransformerModel):
    """Transformer with source phrase representations (Xu et al. 2020), presets xu-paper and xu-code."""

    family: Literal["phrase_representation"] = Field(  # type: ignore[assignment]
        "phrase_representation", description="model family, phrasemt/models/<family>.py"
    )
    phrase: PhraseSegmentation = Field(default_factory=PhraseSegmentation, description="source phrases")
    src_bos: bool = Field(False, description="sources begin with <s>, which counts as a position (Neutron; X4)")
    glance: Literal["max", "mean"] = Field("max", description="element-wise summary of the tokens of a phrase (eq. 2)")
    pool: Literal["glance", "attn"] = Field(
        "glance",
        description="phrase representation: the summary (+Max, +Mean), or attention over the tokens (+Attn, eq. 3-5)",
    )
    sigmoid: Literal["centred", "plain"] = Field(
        "centred",
        description="hidden units of eq. 3 and 8: sigma(z) - 1/2, where W1 and W3 learn at a lower rate and W3 begins "
        "without phrases, or sigma(z) as in Neutron (X21, X23)",
    )
    score: Literal["additive", "dot_product"] = Field(
        "additive",
        description="pool attn: score of a token by the two-layer network of eq. 3, or by its dot product with the "
        "summary, divided by sqrt(d), without parameters (X25)",
    )
    score_norm: Literal["softmax", "sigmoid_mix"] = Field(
        "softmax",
        description="pool attn: softmax over a phrase (paper), or gated tokens mixed with the summary (Neutron; X10)",
    )
    score_dropout: Probability = Field(0.0, description="pool attn: dropout before the sigmoid of eq. 3 (Neutron)")
    combine_hidden: Multiple = Field(3.0, description="width of the attentive combination, in multiples of d (X8)")
    combine_dropout: Probability = Field(0.0, description="dropout of the hidden units of eq. 8 (Neutron; X22)")
    combine_residual: Literal["x", "x+a"] = Field(
        "x", description="residual of the combination: input x (paper), or x plus attended phrases (Neutron; X7)"
    )
    ta: Literal["off", "on"] = Field(
        "off", description="+TA: each decoder layer mixes the phrases of all encoder levels (eq. 6)"
    )
    ta_tokens: bool = Field(
        False, description="each decoder layer also mixes the tokens of all encoder levels (Neutron; X6)"
    )
    ta_dropout: Probability = Field(0.0, description="dropout of the mixture weights of eq. 6 (Neutron; X22)")

    @model_validator(mode="after")
    def _switches_go_together(self) -> PhraseRepresentationModel:
        problems = [
            *_without_effect(self, ("score", "score_norm", "score_dropout"), "pool", "attn"),
            *_without_effect(self, ("score_dropout",), "score", "additive"),
        ]
        if self.ta == "off" and not self.ta_tokens and self.differs("ta_dropout"):
            problems.append("ta_dropout has no effect with ta: off and ta_tokens: false")
        if self.src_bos and self.phrase.has_columns:
            problems.append(
                f"src_bos needs phrase.mode: ngram; phrases of mode {self.phrase.mode} do not count <s> as a position"
            )
        refuse(problems)
        return self

    @property
    def source_phrases(self) -> PhraseSegmentation | None:
        return self.phrase if PHRASE_MODES[self.phrase.mode].segmenter else None

    @property
    def own_controls(self) -> dict[str, Control]:
        """Besides the size: the same network without phrases (X24), and with phrases that are no phrases."""
        controls, own = super().own_controls, PHRASE_MODES[self.phrase.mode]
        for name, (mode, title) in _CONTROLS.items():
            other = PHRASE_MODES[mode]
            if mode == self.phrase.mode or (other.reads_parses and not own.reads_parses) or self.source_phrases is None:
                continue
            if not (self.src_bos and other.stored):  # such phrases do not count `<s>`
                phrase = {"mode": mode, **self.phrase.model_dump(include=set(own.keys & other.keys))}
                model = self.model_copy(update={"phrase": PhraseSegmentation.model_validate(phrase)})
                controls[name] = Control(model, f"{{title}}, but {title}")
        return controls

    @property
    def added_parameters(self) -> int:
        """Those of Eqs. (3), (6), (7) and (8); without phrases, only what Eq. (8) makes of the tokens."""
        d, layers = self.width, self.encoder_layers + self.decoder_layers
        combined = round(self.combine_hidden * d)
        levels = self.encoder_layers + 1
        mixtures = levels * self.decoder_layers  # a matrix of Eq. (6)
        of_phrases = layers * (4 * d**2 + d * combined) + (self.ta == "on") * mixtures
        if self.pool == "attn" and self.score == "additive":
            of_phrases += levels * (2 * d * d + d + d + 1)
        own = layers * (2 * d * combined + combined + d + 2 * d) + self.ta_tokens * mixtures
        return super().added_parameters + own + (of_phrases if self.source_phrases else 0)

    @property
    def source_begins_with_bos(self) -> bool:
        return self.src_bos


# The mode of the phrases of each control, and its title.
_CONTROLS = {
    "no-phrases": ("none", "no phrases"),
    "random-trees": ("random", "random trees"),
    "right-branching": ("right", "right-branching trees"),
    "shuffled": ("shuffled", "phrases in random order"),
}


class LanguageModel(Layers):
    """Language model of the target side, a decoder without source (Nguyen et al., Table 3)."""

    family: Literal["language_model"] = Field(description="model family, phrasemt/models/<family>.py")
    layers: Depth = Field(6, description="layers N")
    translates: ClassVar[bool] = False

    @property
    def plain_counterpart(self) -> Architecture:
        return LanguageModel.model_validate(self.model_dump(exclude=_ATTENTION))

    @property
    def own_controls(self) -> dict[str, Control]:
        return self.as_large(self.layers, self.parameters_of_attention(self.layers, 0))


class RecurrentModel(Architecture):
    """Base of the recurrent families (C13)."""

    pool_group: ClassVar[Literal["attention", "recurrent"]] = "recurrent"

    embedding: Width = Field(620, description="width E of the word embeddings")
    hidden: Width = Field(1000, description="width H of a GRU state; the two directions of the encoder make 2H")
    attention_width: Width | None = Field(
        None, description="width of the hidden layer of the attention; null: 2H (dl4mt)"
    )
    readout: Literal["tanh", "maxout"] = Field("tanh", description="tanh (dl4mt) or maxout of pairs (Bahdanau et al.)")
    readout_width: Width | None = Field(None, description="width of the readout; null: E (dl4mt); Bahdanau et al.: 500")
    dropout: Probability = Field(0.0, description="dropout of embeddings and readout; the papers use none")
    initial_deviation: Annotated[
        float, Field(gt=0), Number(at_most=10, because="larger weights saturate every gate")
    ] = Field(
        0.01,
        description="standard deviation of initial weights that are not orthogonal; 0.01 (dl4mt) suits a width of "
        "1000, models of width 100 or 200 need about 0.1",
    )

    @property
    def learning_rate_width(self) -> int:
        return self.hidden

    @property
    def plain_counterpart(self) -> Architecture:
        return Dl4mtModel.model_validate({"family": "dl4mt", **self._sizes()})

    def _sizes(self) -> dict[str, Any]:
        return self.model_dump(include=RecurrentModel.model_fields.keys() - {"family"})

    @property
    @abstractmethod
    def parameters_of_states(self) -> int:
        """All parameters without embeddings and output layer, which do not depend on the width of the states."""

    @property
    def own_controls(self) -> dict[str, Control]:
        """`same-size`: dl4mt of one decoder layer with wider states."""

        def wider(hidden: int) -> Dl4mtModel:
            return Dl4mtModel.model_validate({"family": "dl4mt", **self._sizes(), "hidden": hidden})

        wanted, last = self.parameters_of_states, self.hidden
        if self.family not in _NAMES:
            wanted = wider(last).parameters_of_states + _added_by_own_family(self)
        while wider(last + 1).parameters_of_states <= wanted:
            last += 1
        nearest = min((last, last + 1), key=lambda hidden: abs(wider(hidden).parameters_of_states - wanted))
        if nearest == self.hidden:
            return {}
        return {"same-size": Control(wider(nearest), f"dl4mt as large as {{title}}, states of {nearest:,}")}

    def _encoder_and_start(self) -> int:
        """Two cells over the source, and the state before the first word."""
        return 2 * _cell(self.embedding, self.hidden) + 2 * self.hidden**2 + self.hidden

    def _attention(self, query: int) -> int:
        width = self.attention_width or 2 * self.hidden
        return width * (query + 2 * self.hidden + 2) + 1

    def _readout(self, *inputs: int) -> int:
        return (self.readout_width or self.embedding) * (2 if self.readout == "maxout" else 1) * (sum(inputs) + 1)


def _cell(inputs: int, states: int) -> int:
    return 3 * states * (inputs + states + 1)


class Dl4mtModel(RecurrentModel):
    """Conditional GRU with attention (dl4mt; Bahdanau et al. 2015)."""

    family: Literal["dl4mt"] = Field(description="model family, phrasemt/models/<family>.py")
    decoder_layers: Annotated[Literal[1, 2], Number()] = Field(1, description="1: dl4mt; 2: dl4mt-2, with a second GRU")

    @property
    def parameters_of_states(self) -> int:
        e, h, context = self.embedding, self.hidden, 2 * self.hidden
        second_layer = context * h + h + _cell(h + context, h) if self.decoder_layers == 2 else 0
        cells = _cell(e, h) + self._attention(h) + _cell(context, h)
        return self._encoder_and_start() + cells + second_layer + self._readout(h, e, context)


class BiscaleModel(RecurrentModel):
    """Chunk-based bi-scale decoder (Zhou et al. 2017), presets zh-paper and zh-code."""

    family: Literal["biscale"] = Field(description="model family, phrasemt/models/<family>.py")
    chunk_hidden: Width = Field(1000, description="width D_p of the chunk state")
    chunk_embedding: Width = Field(
        1000, description="width D_e of chunk representations and of the classifiers of boundaries and labels"
    )
    attention: Literal["chunk", "word"] = Field(
        "chunk", description="chunk: the chunk state attends, at boundaries; word: every word attends (Table 2)"
    )
    ctx_update: Literal["boundary", "every_step"] = Field(
        "boundary",
        description="attention chunk: new context at boundaries (paper) or at every word (authors' code; C4)",
    )
    word_inputs: Literal["p", "p+c"] = Field(
        "p", description="word state and readout read the chunk state (paper), or also the context (authors' code; C5)"
    )
    chunk_query: Literal["v", "p_prev"] = Field(
        "v", description="query of attention chunk: first chunk GRU (authors' code) or last chunk state (paper; C3)"
    )
    reads_chunks: ClassVar[bool] = True

    @model_validator(mode="after")
    def _switches_go_together(self) -> BiscaleModel:
        refuse(_without_effect(self, ("ctx_update", "word_inputs", "chunk_query"), "attention", "chunk"))
        if self.ctx_update == "every_step" and self.word_inputs == "p":
            raise ValueError("ctx_update: every_step has no effect with word_inputs: p, only with word_inputs: p+c")
        return self

    @property
    def parameters_of_states(self) -> int:
        e, h, p, q, context = self.embedding, self.hidden, self.chunk_hidden, self.chunk_embedding, 2 * self.hidden
        by_word = self.attention == "word"
        reads_context = by_word or self.word_inputs == "p+c"
        words = _cell(e, h) + _cell(p + context * reads_context, h)
        chunks = context * p + p + q * h + _cell(q, p) + self._attention(h if by_word else p) + _cell(context, p)
        boundaries = q * (e + h + 1) + 2 * (q + 1)
        labels = q * (p + q + context + 1) + len(CHUNK_LABELS) * (q + 1)
        readout = self._readout(h, e, context if reads_context else p)
        return self._encoder_and_start() + words + chunks + boundaries + labels + readout


_OfThePapers = TransformerModel | PhraseRepresentationModel | LanguageModel | Dl4mtModel | BiscaleModel
_NAMES = [name for kind in sections(_OfThePapers) for name in get_args(kind.model_fields["family"].annotation)]


def has_module(family: str) -> bool:
    return family.isidentifier() and importlib.util.find_spec(f"phrasemt.models.{family}") is not None


def own_settings(family: object) -> type[Architecture] | None:
    """The class `Settings` in phrasemt/models/<family>.py; None for the families above and for what is no family.

    Only the study knows which file to import, so the import is dynamic, as that of `build` (phrasemt/models/interface).
    It brings torch, which readers of other studies never wait for.
    """
    if not isinstance(family, str) or family in _NAMES or not has_module(family):
        return None
    own_code.add(str(file_of(family)))
    settings = getattr(importlib.import_module(f"phrasemt.models.{family}"), "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, Architecture)):
        return None
    return settings if family in get_args(settings.model_fields["family"].annotation) else None


def file_of(family: str) -> Path:
    """The file of a family."""
    return Path(__file__).parents[1] / "models" / f"{family}.py"


def _added_by_own_family(model: Architecture) -> int:
    """The parameters in use that the plain counterpart does not have, from models that torch makes without memory."""
    import torch  # which the module of the family has brought (`own_settings`)

    def in_use(settings: Architecture) -> int:
        family = importlib.import_module(f"phrasemt.models.{settings.family}")
        with torch.device("meta"):
            built = family.build(settings, source_vocabulary=9, target_vocabulary=9)
        return int(sum(parameter.numel() for parameter in built.parameters()) - built.unused_parameters())

    return in_use(model) - in_use(model.plain_counterpart)


def _of_any_family(value: Any, of_the_papers: ValidatorFunctionWrapHandler) -> Any:
    family = value.get("family") if isinstance(value, dict) else getattr(value, "family", None)
    own = own_settings(family)
    if own is None:
        if isinstance(family, str) and not (family in _NAMES or has_module(family) or did_you_mean(family, _NAMES)):
            allowed = f"{', '.join(_NAMES)}, or a family of your own"
            raise ValueError(f"family: found {family!r}, allowed: {allowed}, which would be the file {file_of(family)}")
        return of_the_papers(value)
    module = sys.modules[own.__module__]
    if not callable(getattr(module, "build", None)):
        raise ValueError(f"{module.__file__}: no function build, which makes the model")
    try:
        own.model_rebuild()
    except NameError as error:  # of an annotation
        raise ValueError(f"{module.__file__}: {str(error).splitlines()[0]}") from None
    # A union, so that the place of a mistake begins with the family, as for the families of the papers.
    kinds: Any = Annotated[own | TransformerModel, Discriminator("family")]
    return TypeAdapter(kinds).validate_python(value)


ModelSettings = Annotated[_OfThePapers, Discriminator("family"), SerializeAsAny(), WrapValidator(_of_any_family)]
