"""Transformer with source phrase representations: +Mean, +Max, +Attn, +TA.

Xu, van Genabith, Xiong, Liu, Zhang (2020): Learning Source Phrase Representations for Neural Machine Translation. ACL.

Notation
    paper       here                       shape
    d           encoder_layers, N          6 (our D is the model width)
    x           x_BSD                      [B sentences, S source positions, D]; y_BTD in the decoder
    R_phrase    phrases_BPD                [B, P phrases, D]
    R_glance    glances_BPD                [B, P, D]
    W1, b1      PhrasePooling.hidden       [D, 2D]; left half times token, right half times glance
    w2, b2      PhrasePooling.score        [1, D]
    s           scores_BPS                 [B, P, S]; of tokens of the phrase (member_BPS)
    p           weights_BPS                [B, P, S]; 0 for the other tokens
    W3, b3      Combination.hidden         [combine_hidden*D, 2D]; left half times x, right half times Eq. (7)
    W4, b4      Combination.output         [D, combine_hidden*D]
    w (7 x 6)   TransparentAttention.weights   [N+1 levels, J decoder layers]

Equations
    Eq. (2)  glance: element-wise maximum (or mean) of a phrase's tokens
    Eq. (3)  score of a token in its phrase
    Eq. (4)  softmax of the scores over the phrase
    Eq. (5)  phrase representation: weighted sum of the tokens
    Eq. (6)  transparent attention: each decoder layer's mixture of all encoder levels
    Eq. (7)  attention of tokens to phrases
    Eq. (8)  combination of tokens and attended phrases

Deviations and choices (docs/decisions.md, X1-X26)
    Eqs. (3), (8)   hidden units are sigma(z) - 1/2 (`HiddenUnits`), and W1 and W3 learn at a lower rate
                    (`rate_factors`). The functions are the same; with sigma(z), Adam saturates the units
    Eq. (8)  the right half of W3 is 0 at the start, so that attention to source tokens learns before phrases come in;
             `init: neutron` initialises it at random
    Eq. (7)  the text calls x the keys; as in the paper's Figure 2 and the authors' code, x gives the queries
    Eqs. (3), (8)   the paper does not state the widths of W1 and W3: 3D of W3 (combine_hidden) follows from its
                    numbers of parameters, D of W1 is the authors' code's
    Level k of 0..N is pooled from the output of encoder layer k, level 0 from the embeddings. Layer k reads the level
    that is pooled from its own input. b2 cancels in Eq. (4); it is a parameter all the same, as in the paper's counts.
    norm: pre is not in the paper; with it, combination and pooling read the normalised x.
    phrase.mode: none is a control that is not in the paper: a is 0, and the parameters of Eqs. (3) and (7), the
    mixtures of phrases of Eq. (6) and the right half of W3 are unused.
    attention: relative, ngrams    in place of attention to tokens; attention to phrases (Eq. 7) stays as it is (X26)
    score: dot_product replaces Eq. (3), a control that is not in the paper: s_i = x_i . R_glance / sqrt(D).

Settings for differences of the authors' code (Neutron); the preset xu-code has all of them
    sigmoid: plain            hidden units sigma(z), one learning rate for all weights, and no zeros in W3
    score_norm: sigmoid_mix   replaces Eqs. (4) and (5): with gates g_i = sigmoid(s_i) / tokens of the phrase, the
                              phrase is sum_i g_i x_i + (1 - sum_i g_i) R_glance
    score_dropout             dropout on the argument of the sigmoid of Eq. (3)
    combine_dropout           dropout of the hidden units of Eq. (8)
    ta_dropout                dropout of the weights of Eq. (6), before the softmax
    combine_residual: x+a     LN(x + a + drop(o)) around Eq. (8), where a is the result of Eq. (7)
    ta_tokens                 a second matrix as in Eq. (6) mixes the tokens of all levels for attention to the source
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phrasemt.batching.batch import Pairs, Phrases, Source
from phrasemt.models.transformer import Attend, Attentions, EncodedSources, ReadyLayer, TransformerDecoder
from phrasemt.nn.attention import Attention, KeyValueAttention, Projected
from phrasemt.nn.diagnostics import DeadNetworks, Measurement, Network, UseOfAttentions
from phrasemt.nn.embeddings import TransformerEmbeddings
from phrasemt.nn.layers import Dropout, FeedForward, Linear, Mask, Residual, Stack, initialise, key_mask, last_norm
from phrasemt.nn.precision import normalised_dtype
from phrasemt.phrase_modes import PHRASE_MODES
from phrasemt.study.architectures import PhraseRepresentationModel


@dataclass(frozen=True, kw_only=True)
class EncodedPhrases(EncodedSources):
    """Tokens and phrases, as keys and values of each decoder layer.

    phrase_mask_BP: True at real phrases. phrase_pairs: of packed rows.
    """

    phrases_2BhPE: tuple[Projected, ...]
    phrase_mask_BP: Tensor
    phrase_pairs: Pairs | None = None

    @cached_property
    def _phrase_mask_of_search(self) -> Mask:
        return key_mask(self.phrase_mask_BP)

    def phrase_mask(self, queries: Pairs | None) -> Mask:
        """As `mask`, of queries to the phrases."""
        if self.phrase_pairs is None:
            return self._phrase_mask_of_search
        return key_mask(self.phrase_mask_BP, self.phrase_pairs, queries)


class _TokensOfPhrases(torch.autograd.Function):
    """A source position has at most one slot, so gradients are gathered too: autograd would add with atomics."""

    @staticmethod
    def forward(ctx: Any, x_BSX: Tensor, index_BPM: Tensor, slot_BS: Tensor) -> Tensor:
        ctx.save_for_backward(slot_BS)
        return _rows(x_BSX, index_BPM)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_BPMX: Tensor) -> tuple[Tensor, None, None]:
        (slot_BS,) = ctx.saved_tensors
        if not gradient_BPMX.numel():  # no phrases
            return gradient_BPMX.new_zeros(*slot_BS.shape, gradient_BPMX.shape[-1]), None, None
        gathered_BSX = _rows(gradient_BPMX.flatten(1, 2), slot_BS.clamp(min=0))
        return gathered_BSX.mul_((slot_BS[..., None] >= 0).to(gathered_BSX.dtype)), None, None


def _rows(x_BSX: Tensor, index_BY: Tensor) -> Tensor:
    """Return the vectors of each sentence at some of its positions: [B, ..., X]."""
    sentences, positions, width = x_BSX.shape
    firsts_B = torch.arange(0, sentences * positions, positions, device=x_BSX.device)
    rows_BY = firsts_B.view(-1, *[1] * (index_BY.dim() - 1)) + index_BY
    return x_BSX.flatten(0, 1).index_select(0, rows_BY.flatten()).view(*index_BY.shape, width)


def tokens_of_phrases(x_BSX: Tensor, phrases: Phrases) -> Tensor:
    """Gather tokens by phrase: [B, S, X] -> [B, P, M, X]. At padding stands the token of position 0.

    Nothing may depend on what stands at padding: its gradient is not passed on.
    """
    return _TokensOfPhrases.apply(x_BSX, phrases.token_index_BPM, phrases.slot_BS)  # type: ignore[no-untyped-call, no-any-return]


def token_counts(member_BPX: Tensor) -> Tensor:
    """Number of tokens of each phrase [B, P, 1]; 1 for padding, so that it can be a divisor."""
    return member_BPX.sum(-1, keepdim=True).clamp(min=1)


class HiddenUnits(nn.Module):
    """Hidden units of Eqs. (3) and (8): sigma(z) - 1/2, or sigma(z) with `sigmoid: plain`; any shape.

    W (sigma(z) - 1/2) + b is the same function as W sigma(z) + (b - W 1/2), so only the training differs. While z is
    small, all units sigma(z) are near 1/2. Then the weights of a row of W get nearly the same gradient, and the steps
    of Adam, which are of equal size for all weights, add up to a constant output that is many times larger than the
    part of the output that depends on the input. Eq. (4) cancels the constant of Eq. (3).
    """

    def __init__(self, settings: PhraseRepresentationModel) -> None:
        super().__init__()
        self.centred = settings.sigmoid == "centred"

    def forward(self, z: Tensor) -> Tensor:
        units = torch.sigmoid(z)
        return units - 0.5 if self.centred else units


class PhrasePooling(nn.Module):
    """Phrase representations from the tokens of one level (Eqs. 2 to 5)."""

    def __init__(self, settings: PhraseRepresentationModel) -> None:
        super().__init__()
        self.glance_by_mean = settings.glance == "mean"
        self.attentive = settings.pool == "attn"
        self.additive = self.attentive and settings.score == "additive"
        self.gated = settings.score_norm == "sigmoid_mix"
        if self.additive:
            self.hidden = Linear(2 * settings.width, settings.width)
            self.dropout = Dropout(settings.score_dropout)
            self.units = HiddenUnits(settings)
            self.score = Linear(settings.width, 1)

    def forward(self, x_BSD: Tensor, phrases: Phrases) -> Tensor:
        """[B, S, D] -> [B, P, D]; 0 for phrases that are padding."""
        glances_BPD = self.glance(tokens_of_phrases(x_BSD, phrases), phrases.token_mask_BPM)
        if not self.attentive:
            return glances_BPD
        _, number, longest = phrases.token_mask_BPM.shape
        numbers_P1 = torch.arange(number, device=x_BSD.device)[:, None]
        member_BPS = phrases.slot_BS.div(longest, rounding_mode="floor")[:, None] == numbers_P1
        if self.additive:
            scores_BPS = self.additive_scores(x_BSD, glances_BPD, member_BPS)[:, None]
        else:
            scores_BPS = glances_BPD * glances_BPD.shape[-1] ** -0.5 @ x_BSD.transpose(1, 2)
            scores_BPS = scores_BPS.to(normalised_dtype(scores_BPS))
        scores_BPS = scores_BPS.masked_fill(~member_BPS, -1e9)
        if self.gated:
            gates_BPS = torch.sigmoid(scores_BPS) / token_counts(member_BPS)
            gated_BPD = gates_BPS.to(x_BSD.dtype) @ x_BSD
            return gated_BPD + (1 - gates_BPS.sum(-1, keepdim=True)) * glances_BPD
        weights_BPS = torch.softmax(scores_BPS, dim=-1) * member_BPS  # Eq. (4)
        return weights_BPS.to(x_BSD.dtype) @ x_BSD  # Eq. (5)

    def additive_scores(self, x_BSD: Tensor, glances_BPD: Tensor, member_BPS: Tensor) -> Tensor:
        """Score of each token in its phrase (Eq. 3) [B, S], from a network with one hidden layer."""
        token_weight, glance_weight = self.hidden.weight.chunk(2, dim=1)  # W1 = [W_t | W_g]
        of_glances_BPH = F.linear(glances_BPD, glance_weight)
        # The product selects, exactly, the phrase of each token, and sums gradients over the tokens of a phrase.
        of_phrase_BSH = member_BPS.transpose(1, 2).to(of_glances_BPH.dtype) @ of_glances_BPH
        hidden_BSH = F.linear(x_BSD, token_weight, self.hidden.bias) + of_phrase_BSH
        scores_BS = F.linear(self.units(self.dropout(hidden_BSH)), self.score.weight).squeeze(-1)
        return scores_BS.to(normalised_dtype(scores_BS)) + self.score.bias  # Eq. (3)

    def glance(self, tokens_BPMD: Tensor, token_mask_BPM: Tensor) -> Tensor:
        unused_BPM1 = ~token_mask_BPM[..., None]
        if self.glance_by_mean:
            return tokens_BPMD.masked_fill(unused_BPM1, 0).sum(2) / token_counts(token_mask_BPM)  # Eq. (2), mean
        maxima_BPD = tokens_BPMD.masked_fill(unused_BPM1, -torch.inf).amax(2)  # Eq. (2)
        return maxima_BPD.masked_fill(unused_BPM1.all(2), 0)


class Combination(nn.Module):
    """Attention of tokens to phrases, and its combination with the tokens (Eqs. 7 and 8)."""

    def __init__(self, settings: PhraseRepresentationModel) -> None:
        super().__init__()
        hidden_width = round(settings.combine_hidden * settings.width)
        self.attention = KeyValueAttention(settings.width, settings.heads, settings.attn_dropout)
        self.hidden = Linear(2 * settings.width, hidden_width)
        self.units = HiddenUnits(settings)
        if self.units.centred:
            # Eq. (8) reads x alone at first. Otherwise the decoder learns to read the few phrases before the many
            # source tokens, and then has no reason left to attend to these (docs/decisions.md, X23).
            with torch.no_grad():
                self.hidden.weight[:, settings.width :].zero_()
        self.dropout = Dropout(settings.combine_dropout)
        self.output = Linear(hidden_width, settings.width)
        self.adds_attended = settings.combine_residual == "x+a"

    def forward(self, x_BTD: Tensor, phrases: Projected, phrase_mask: Mask) -> tuple[Tensor, Tensor | None]:
        """Return o of Eq. (8) [B, T, D], and with `combine_residual: x+a` also a of Eq. (7) [B, T, D], else None.

        phrases: keys and values of the phrases. phrase_mask: of real phrases.
        """
        attended_BTD = self.attention(x_BTD, phrases, phrase_mask)  # Eq. (7)
        x_weight, attended_weight = self.hidden.weight.chunk(2, dim=1)  # W3 [x | a] without joining x and a
        hidden_BTH = F.linear(x_BTD, x_weight, self.hidden.bias) + F.linear(attended_BTD, attended_weight)
        output_BTD: Tensor = self.output(self.dropout(self.units(hidden_BTH)))  # Eq. (8)
        return output_BTD, attended_BTD if self.adds_attended else None


class TransparentAttention(nn.Module):
    """Mixtures of all encoder levels, one for each decoder layer (Bapna et al. 2018; Eq. 6)."""

    own_init = True

    def __init__(self, settings: PhraseRepresentationModel) -> None:
        super().__init__()
        levels = settings.encoder_layers + 1
        bound = levels**-0.5
        self.weights = nn.Parameter(torch.empty(levels, settings.decoder_layers).uniform_(-bound, bound))
        self.dropout = Dropout(settings.ta_dropout)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """Phrases of all levels, each [B, P, D] -> phrases for each decoder layer [J, B, P, D]; likewise tokens."""
        return torch.einsum("ibpd,ij->jbpd", torch.stack(list(levels)), self.mixture_IJ())  # Eq. (6)

    def mixture_IJ(self) -> Tensor:
        """The weight of level i for decoder layer j."""
        return torch.softmax(self.dropout(self.weights), dim=0)


class EncoderLayer(nn.Module):
    """Combination with the phrases of the layer's input, self-attention and feed-forward network."""

    def __init__(self, settings: PhraseRepresentationModel, attentions: Attentions) -> None:
        super().__init__()
        self.pooling = PhrasePooling(settings)
        self.combination = Combination(settings)
        self.around_combination = Residual(settings)
        self.attention = attentions.enc_self()
        self.around_attention = Residual(settings)
        self.ffn = FeedForward(settings)
        self.around_ffn = Residual(settings)

    def forward(self, x_BSD: Tensor, mask: Mask, phrases: Phrases, phrase_mask: Mask) -> tuple[Tensor, Tensor, Tensor]:
        """Return the layer's output [B, S, D], and the level of its input: tokens [B, S, D] and phrases [B, P, D]."""
        tokens_BSD = self.around_combination.enter(x_BSD)
        phrases_BPD = self.pooling(tokens_BSD, phrases)
        keys_values = self.combination.attention.project_memory(phrases_BPD)
        combined_BSD, attended_BSD = self.combination(tokens_BSD, keys_values, phrase_mask)
        x_BSD = self.around_combination.leave(x_BSD, combined_BSD, attended_BSD)
        x_BSD = self.around_attention(x_BSD, lambda x: self.attention(x, mask))
        x_BSD = self.around_ffn(x_BSD, self.ffn)
        return x_BSD, tokens_BSD, phrases_BPD


class DecoderLayer(nn.Module):
    """Self-attention, combination with source phrases, attention to source tokens and feed-forward network."""

    def __init__(self, settings: PhraseRepresentationModel, attentions: Attentions) -> None:
        super().__init__()
        self.attention = attentions.dec_self()
        self.around_attention = Residual(settings)
        self.combination = Combination(settings)
        self.around_combination = Residual(settings)
        self.source_attention = attentions.cross()
        self.around_source_attention = Residual(settings)
        self.ffn = FeedForward(settings)
        self.around_ffn = Residual(settings)

    def forward(
        self,
        y: Tensor,
        attend_to_past: Attend,
        combine_with_phrases: Callable[[Tensor], tuple[Tensor, Tensor | None]],
        attend_to_source: Attend,
    ) -> Tensor:
        """[B, T, D] -> [B, T, D], or in a search [B, K, D] -> [B, K, D]."""
        y = self.around_attention(y, attend_to_past)
        y = self.around_combination.leave(y, *combine_with_phrases(self.around_combination.enter(y)))
        y = self.around_source_attention(y, attend_to_source)
        states: Tensor = self.around_ffn(y, self.ffn)
        return states


# W1 and W3 learn as fast as a network of this many inputs would at the full learning rate.
RATE_FAN_IN = 25.6


class PhraseRepresentationTransformer(TransformerDecoder[EncodedPhrases]):
    """Transformer in which tokens attend to source phrases in every encoder and decoder layer."""

    def __init__(self, settings: PhraseRepresentationModel, *, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        attentions = Attentions.of(settings)
        if settings.phrase.ntok_scope != "batch":  # there the length of phrases follows from pairs of similar length
            self.positions_in_row = attentions.positions_in_row
        self.embeddings = TransformerEmbeddings(
            settings,
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            tie_all=settings.tie == "all",
            embed_ln=settings.embed_ln,
            softmax_bias=settings.softmax_bias,
            positions=attentions.positions,
        )
        self.encoder = Stack[EncoderLayer](EncoderLayer(settings, attentions) for _ in range(settings.encoder_layers))
        self.last_pooling = PhrasePooling(settings)
        self.transparent_attention = TransparentAttention(settings) if settings.ta == "on" else None
        self.transparent_token_attention = TransparentAttention(settings) if settings.ta_tokens else None
        self.decoder = Stack[DecoderLayer](DecoderLayer(settings, attentions) for _ in range(settings.decoder_layers))
        self.encoder_norm = last_norm(settings)
        self.decoder_norm = last_norm(settings)
        self.reads_phrases = PHRASE_MODES[settings.phrase.mode].segmenter is not None
        initialise(self, settings.init)

    def encode(self, source: Source) -> EncodedPhrases:
        phrases = source.phrases if self.reads_phrases else _no_phrases(source)
        assert phrases is not None
        x_BSD = self.embeddings.embed_source(source.ids_BS, source.pairs)
        mask = key_mask(source.mask_BS, source.pairs, source.pairs)
        phrase_mask = key_mask(phrases.phrase_mask_BP, phrases.pairs, source.pairs)
        token_levels, phrase_levels = [], []
        for layer in self.encoder:
            x_BSD, tokens_BSD, phrases_BPD = layer(x_BSD, mask, phrases, phrase_mask)
            token_levels.append(tokens_BSD)
            phrase_levels.append(phrases_BPD)
        states_BSD = self.encoder_norm(x_BSD)
        token_levels.append(states_BSD)
        phrase_levels.append(self.last_pooling(states_BSD, phrases))
        tokens_JBSD = self._for_decoder(token_levels, self.transparent_token_attention)
        phrases_JBPD = self._for_decoder(phrase_levels, self.transparent_attention)
        layers = list(zip(self.decoder, phrases_JBPD, tokens_JBSD, strict=True))
        return EncodedPhrases(
            source_nBhSE=tuple(layer.source_attention.project_memory(tokens) for layer, _, tokens in layers),
            mask_BS=source.mask_BS,
            pairs=source.pairs,
            phrases_2BhPE=tuple(layer.combination.attention.project_memory(mixed) for layer, mixed, _ in layers),
            phrase_mask_BP=phrases.phrase_mask_BP,
            phrase_pairs=phrases.pairs,
        )

    def _for_decoder(self, levels: Sequence[Tensor], mixture: TransparentAttention | None) -> Tensor:
        """Levels [B, P, D] as J decoder layers read them [J, B, P, D]: one mixture per layer, or the last level."""
        mixed_JBPD: Tensor = levels[-1][None] if mixture is None else mixture(levels)
        return mixed_JBPD.expand(len(self.decoder), -1, -1, -1)

    def layers_with(self, memory: EncodedPhrases, pairs: Pairs | None) -> list[ReadyLayer]:
        layers = zip(self.decoder, memory.phrases_2BhPE, memory.source_nBhSE, strict=True)
        mask, phrase_mask = memory.mask(pairs), memory.phrase_mask(pairs)
        return [
            partial(
                layer,
                combine_with_phrases=partial(layer.combination, phrases=phrases, phrase_mask=phrase_mask),
                attend_to_source=partial(layer.source_attention, keys_values=source, mask=mask),
            )
            for layer, phrases, source in layers
        ]

    def attentions(self) -> list[Attention]:
        attentions = []
        for number, layer in enumerate(self.encoder, 1):
            attentions.append(Attention(place="enc_phrases", layer=number, module=layer.combination.attention))
            attentions.append(Attention(place="enc_self", layer=number, module=layer.attention))
        for number, target_layer in enumerate(self.decoder, 1):
            attentions.append(Attention(place="dec_self", layer=number, module=target_layer.attention))
            attentions.append(Attention(place="dec_phrases", layer=number, module=target_layer.combination.attention))
            attentions.append(Attention(place="cross", layer=number, module=target_layer.source_attention))
        return [attention for attention in attentions if self.reads_phrases or not attention.place.endswith("_phrases")]

    def mixtures(self) -> Mapping[str, Tensor]:
        """The weights of Eq. (6), and those of the tokens with `ta_tokens`. Evaluation mode: without dropout."""
        modules = {"phrases": self.transparent_attention, "tokens": self.transparent_token_attention}
        return {name: module.mixture_IJ() for name, module in modules.items() if module is not None}

    def networks(self) -> list[Network]:
        """The networks of Eqs. (3) and (8): scores_<level>, encoder_<layer>, decoder_<layer>."""
        poolings = [*(layer.pooling for layer in self.encoder), self.last_pooling]
        scores = [
            Network(f"scores_{level}", pooling, "source") for level, pooling in enumerate(poolings) if pooling.additive
        ]
        encoder = [Network(f"encoder_{n}", layer.combination, "source") for n, layer in enumerate(self.encoder, 1)]
        decoder = [Network(f"decoder_{n}", layer.combination, "target") for n, layer in enumerate(self.decoder, 1)]
        return [*(scores if self.reads_phrases else []), *encoder, *decoder]

    def unused_parameters(self) -> int:
        """With `phrase.mode: none`, those of Eqs. (3), (6) of phrases and (7), and the half of W3 that reads a = 0."""
        if self.reads_phrases:
            return 0
        combinations = [layer.combination for layer in (*self.encoder, *self.decoder)]
        unused = [layer.pooling for layer in self.encoder] + [self.last_pooling, self.transparent_attention]
        unused += [combination.attention for combination in combinations]
        halves: int = sum(combination.hidden.weight.numel() // 2 for combination in combinations)
        return halves + sum(parameter.numel() for module in unused if module for parameter in module.parameters())

    def rate_factors(self) -> dict[nn.Parameter, float]:
        """W1 and W3 learn at min(1, RATE_FAN_IN / fan_in) of the learning rate, unless `sigmoid: plain`.

        A step of Adam changes each weight by up to the learning rate, and so z of Eq. (8) by up to rate * fan_in times
        the size of an input. At the full rate, sigma saturates before the other weights have learned anything.
        """
        modules = [network.module for network in self.networks()]
        weights = [module.hidden.weight for module in modules if module.units.centred]
        return {weight: min(1.0, RATE_FAN_IN / weight.shape[1]) for weight in weights}

    def measurements(self) -> list[Measurement]:
        return [*super().measurements(), DeadNetworks(self.networks())]

    def analyses(self) -> list[Measurement]:
        return [UseOfAttentions(self.attentions(), self.plain_loss)]


def _no_phrases(source: Source) -> Phrases:
    """Return the phrases of `phrase.mode: none`. Attention without keys returns 0, and so a of Eq. (8) is 0."""
    index_B01 = source.ids_BS.new_zeros(len(source.ids_BS), 0, 1)
    index_B0 = index_B01.squeeze(-1)
    return Phrases(
        token_index_BPM=index_B01,
        token_mask_BPM=index_B01.bool(),
        phrase_mask_BP=index_B0.bool(),
        slot_BS=torch.full_like(source.ids_BS, -1),
        pairs=None if source.pairs is None else Pairs(number_BS=index_B0, place_BS=index_B0),
    )


build = PhraseRepresentationTransformer
