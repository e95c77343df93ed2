"""Export of the plain Transformer to CTranslate2, a translation engine in C++ (https://opennmt.net/CTranslate2).

The exported folder holds the weights in CTranslate2's format, its settings and both vocabularies. CTranslate2 adds
`</s>` to a source and begins a translation with `<s>`, as phrasemt does. Its `translate_batch` gives our translations
with `beam_size` our beam, `length_penalty` our alpha of `length_penalty_form: length`, and `min_decoding_length=0`. It
has no penalty of Wu et al., and it cuts a translation at `max_decoding_length` where we close it with `</s>`.

ctranslate2 is an optional package (`pip install -c constraints.txt -e .[ctranslate2]`).
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from phrasemt.artefacts.columns import Vocabularies
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import new_folder, write_text
from phrasemt.models.interface import TranslationModel
from phrasemt.models.transformer import DecoderLayer, EncoderLayer, Transformer
from phrasemt.models.weights import load_model
from phrasemt.nn.attention import KeyValueAttention
from phrasemt.nn.layers import NORM_EPSILON, sinusoids
from phrasemt.study.architectures import Architecture, TransformerModel
from phrasemt.symbols import BOS, EOS, LONGEST_SENTENCE, UNK
from phrasemt.workflow.trained_system import PLACES, TrainedSystem

# CTranslate2 computes missing position encodings with all sines before all cosines, so the folder holds ours.
POSITIONS = 2 * LONGEST_SENTENCE


def export_ctranslate2(
    model: TranslationModel[Any, Any], settings: Architecture, words: Vocabularies, folder: Path
) -> None:
    """Write a model for CTranslate2 into an empty folder.

    settings: of the model. Sources and translations of the exported model have at most `POSITIONS` subwords.
    Raises PhrasemtError when ctranslate2 is not installed, or when the model is not a plain Transformer.
    """
    if type(settings) is not TransformerModel or settings.attention != "tokens" or type(model) is not Transformer:
        what, next_step = "CTranslate2 cannot run this model", "export it in the format of phrasemt"
        expected = "family transformer with attention: tokens"
        raise PhrasemtError(what, expected=expected, found=f"family {settings.full_name}", next_step=next_step)
    specs = _specs()
    norms = {"pre_norm": settings.norm == "pre", "layernorm_embedding": settings.embed_ln}
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(settings.encoder_layers, settings.heads, **norms),
        specs.TransformerDecoderSpec(settings.decoder_layers, settings.heads, **norms),
    )
    own, output = model.embeddings, model.embeddings.output
    _set_side(spec.encoder, spec.encoder.embeddings[0], own.source_weights, own.source_embedding.norm)
    _set_side(spec.decoder, spec.decoder.embeddings, own.target_table_VD, own.target_embedding.norm)
    for module, part in ((model.encoder_norm, spec.encoder), (model.decoder_norm, spec.decoder)):
        if settings.norm == "pre":
            _set_norm(part.layer_norm, module)
    _set_linear(spec.decoder.projection, output.weight_VD, output.bias_V)
    parts = [*spec.encoder.layer, *spec.decoder.layer]
    for part, layer in zip(parts, [*model.encoder, *model.decoder], strict=True):
        _set_layer(part, layer)
    spec.register_source_vocabulary(words.source.tokens(range(len(words.source))))
    spec.register_target_vocabulary(words.target.tokens(range(len(words.target))))
    bos, eos, unk = words.target.tokens([BOS, EOS, UNK])
    config = spec.config
    config.bos_token, config.eos_token, config.unk_token, config.decoder_start_token = bos, eos, unk, bos
    config.add_source_eos = True
    config.add_attribute("layer_norm_epsilon", NORM_EPSILON)
    spec.validate()
    spec.optimize()  # writes equal tensors once
    spec.save(str(folder))


def _specs() -> ModuleType:
    try:
        return importlib.import_module("ctranslate2.specs")
    except ImportError as error:
        next_step = "pip install -c constraints.txt -e .[ctranslate2]"
        raise PhrasemtError("the export needs the package ctranslate2", found=error, next_step=next_step) from None


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().contiguous().numpy()


def _set_side(side: Any, embeddings: Any, table_VD: Tensor, norm: nn.Module) -> None:
    """Embeddings of one side. norm: of the embeddings, an Identity where they have none."""
    embeddings.weight = _array(table_VD)
    side.position_encodings.encodings = _array(sinusoids(POSITIONS, table_VD.shape[1]))
    if isinstance(norm, nn.LayerNorm):
        _set_norm(side.layernorm_embedding, norm)


def _set_norm(part: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    part.gamma, part.beta = _array(norm.weight), _array(norm.bias)


def _set_linear(part: Any, weight: Tensor, bias: Tensor | None = None) -> None:
    part.weight = _array(weight)
    if bias is not None:
        part.bias = _array(bias)


def _set_layer(part: Any, layer: EncoderLayer | DecoderLayer) -> None:
    _set_norm(part.self_attention.layer_norm, layer.around_attention.norm)
    _set_attention(part.self_attention, layer.attention.query_key_value, layer.attention.output)
    if isinstance(layer, DecoderLayer):
        source: KeyValueAttention = layer.source_attention
        _set_norm(part.attention.layer_norm, layer.around_source_attention.norm)
        _set_attention(part.attention, source.query, source.key_value, source.output)
    _set_norm(part.ffn.layer_norm, layer.around_ffn.norm)
    _set_linear(part.ffn.linear_0, layer.ffn.inner.weight, layer.ffn.inner.bias)
    _set_linear(part.ffn.linear_1, layer.ffn.outer.weight, layer.ffn.outer.bias)


def _set_attention(part: Any, *weights: Tensor) -> None:
    for linear, weight in zip(part.linear, weights, strict=True):
        _set_linear(linear, weight)


def write_ctranslate2_folder(folder: Path, system: TrainedSystem, texts: Mapping[str, str]) -> None:
    """Write a plain Transformer for CTranslate2, with the merges and counts that make subwords, and further files.

    Raises PhrasemtError for another family of models, without the package ctranslate2, and if the folder is there.
    """
    words = Vocabularies.read(system.files["source_vocabulary"], system.files["target_vocabulary"])
    settings = system.settings.model
    model = load_model(system.files["weights"], settings, words)
    with new_folder(folder) as temporary:
        export_ctranslate2(model, settings, words, temporary)
        for role in system.files.keys() & {"codes", "source_counts", "target_counts"}:
            shutil.copyfile(system.files[role], temporary / PLACES[role])
        for name, text in texts.items():
            write_text(temporary / name, text)
