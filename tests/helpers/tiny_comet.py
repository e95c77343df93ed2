"""Writes a tiny model of COMET with random weights into a folder; runs in the environment of COMET."""

import sys
from pathlib import Path

import pytorch_lightning
import sentencepiece
import torch
import yaml
from comet.models import RegressionMetric
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

folder = Path(sys.argv[1])
encoder, text = folder / "encoder", folder / "text"
encoder.mkdir(parents=True)
text.write_text("\n".join(f"{a} {b} {c}" for a in ("the", "one") for b in ("dog", "cat") for c in ("sleeps", "runs")))
pieces = encoder / "sentencepiece.bpe"
sentencepiece.SentencePieceTrainer.train(
    input=str(text), model_prefix=str(pieces), vocab_size=40, hard_vocab_limit=False, minloglevel=2
)
tokenizer = XLMRobertaTokenizerFast(vocab_file=f"{pieces}.model")
tokenizer.save_pretrained(encoder)
sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=66, **sizes).save_pretrained(encoder)
torch.manual_seed(1)
model = RegressionMetric(pretrained_model=str(encoder), load_pretrained_weights=False, hidden_sizes=[8, 4])
(folder / "checkpoints").mkdir()
checkpoint = {
    "state_dict": model.state_dict(),
    "hyper_parameters": dict(model.hparams),
    "pytorch-lightning_version": pytorch_lightning.__version__,
}
torch.save(checkpoint, folder / "checkpoints" / "model.ckpt")
(folder / "hparams.yaml").write_text(yaml.dump(dict(model.hparams)))
