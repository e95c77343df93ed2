"""The program of the metric COMET (Rei et al. 2020), which runs in an environment of its own: `make comet`.

    comet_score.py fetch NAME                                       # a model of the Hugging Face hub
    comet_score.py score CHECKPOINT SOURCES HYPOTHESES REFERENCES... # one number a line

With several references the score of a sentence is the mean over them, because the models read one.
"""

import logging
import os
import sys
from pathlib import Path

FOLDER = Path(sys.executable).parents[1]  # the environment, which holds models, too
# What a checkpoint names besides: the configuration and the tokenizer of its encoder.
os.environ["HF_HOME"] = str(FOLDER / "huggingface")


def fetch(name: str) -> None:
    """Fetch a model, and what loading it needs, so that scoring needs no network."""
    from huggingface_hub import snapshot_download

    folder = Path(snapshot_download(name, local_dir=FOLDER / "models" / name))
    _load(folder / "checkpoints" / "model.ckpt")
    print(folder / "checkpoints" / "model.ckpt")


def score(checkpoint: str, *texts: str) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    model = _load(Path(checkpoint))
    sources, hypotheses, *references = (
        Path(text).read_text(encoding="utf-8").removesuffix("\n").split("\n") for text in texts
    )
    rows = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for lines in references
        for source, hypothesis, reference in zip(sources, hypotheses, lines, strict=True)
    ]
    import torch

    found = model.predict(rows, gpus=int(torch.cuda.is_available()), progress_bar=False).scores
    for sentence in range(len(sources)):
        print(sum(found[sentence :: len(sources)]) / len(references))


def _load(checkpoint: Path):
    import comet
    import pkg_resources  # without it comet 2.2.7 silently loads some models with another mix of layers

    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    version = pkg_resources.get_distribution("unbabel-comet").version
    print(f"unbabel-comet {version}, {checkpoint}", file=sys.stderr)
    return comet.load_from_checkpoint(str(checkpoint))


if __name__ == "__main__":
    {"fetch": fetch, "score": score}[sys.argv[1]](*sys.argv[2:])
