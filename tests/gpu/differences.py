"""What systems compute on a device beside the same on a CPU in float64, and the loss at the size of a paper.

Differences are relative: the Euclidean norm of the difference, divided by that of the exact numbers. The plain
operations compute the float64 side, not those of phrasemt/nn/layers.py.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from drawn_pairs import drawn_reader, plan_of_updates
from figures import DEVICE, ON_GPU, Figures
from small_systems import SYSTEMS, TARGET_VOCABULARY, random_model
from torch import Tensor
from trainings import settings_of_paper

from phrasemt.decoding.beam import translate_split
from phrasemt.decoding.forced import force
from phrasemt.files.attention import AXES
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.layers import CPU_FORMS, without_cpu_forms
from phrasemt.nn.losses import log_probabilities, smoothed_cross_entropy
from phrasemt.nn.precision import ProductsOfTraining
from phrasemt.study.schema import Decoding
from phrasemt.training.trainer import Trainer

# float32 has 24 bits; sums over all layers and five updates take some hundred roundings. bfloat16 has 8 bits, and a
# whole system rounds some ten times in a row. Roundings of the forward pass reach a gradient twice, and a search may
# choose other words of nearly the same probability: both may differ eight times as much.
TOLERANCES = {"float32": 1e-4, "bfloat16": 2**-6}
AT_MOST_FOUR_WORDS = {"max_length_factor": 0, "max_length_extra": 4}
SEARCHES = {"greedy": Decoding(beam=1, **AT_MOST_FOUR_WORDS), "beam": Decoding(beam=4, **AT_MOST_FOUR_WORDS)}
UPDATES = 5
LOSS = "loss of a paper"


def differences(system: str, device: torch.device, precision: str) -> dict[str, float]:
    """Differences of a small system. other_words: translations of other words, which float32 must not have.

    log_probs and attention are those of forced decoding, which is always in float32.
    """
    found, words = _computed(system, random_model(SYSTEMS[system]).to(device), precision)
    exact, right = _exact(system)
    others = {"other_words": sum(map(tuple.__ne__, words, right))} if precision == "float32" else {}
    return {name: relative(found[name], tensors) for name, tensors in exact.items()} | others


@functools.cache
def _exact(system: str) -> tuple[dict[str, Sequence[Tensor]], list[tuple[int, ...]]]:
    with without_cpu_forms(*CPU_FORMS):
        return _computed(system, random_model(SYSTEMS[system]).double(), "float32")


def _computed(
    system: str, model: TranslationModel, precision: str
) -> tuple[dict[str, Sequence[Tensor]], list[tuple[int, ...]]]:
    """Return numbers by what they are, and the words of the translations."""
    settings, device = settings_of_paper(SYSTEMS[system], precision=precision), model.device
    reader = drawn_reader(settings.reads, pairs=40, vocabulary=TARGET_VOCABULARY, median=7, longest=14)
    batch = reader(range(24)).to(device)
    with ProductsOfTraining(model, precision, device)():
        loss = model.train().loss(batch, label_smoothing=0.1).objective
    gradients = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
    forced = force(model.eval(), batch)
    weights = [
        weights_BhQNK.transpose(1, 2)[batch.masks[AXES[attention.place][0]]]
        for attention, weights_BhQNK in forced.attentions
    ]
    numbers = {"loss": [loss], "gradients": gradients, "log_probs": [forced.log_probs_BT], "attention": weights}
    words = []
    for name, decoding in SEARCHES.items() if settings.reads.source else ():
        decoding = decoding.model_copy(update={"precision": precision})
        best = [found[0] for found in translate_split(model, reader, decoding)]
        numbers[name] = [torch.tensor([hypothesis.log_prob for hypothesis in best])]
        words += [hypothesis.tokens for hypothesis in best]
    trainer, plan = Trainer(model, reader, settings), plan_of_updates(settings, reader.examples).updates()
    results = [trainer.update(number, next(plan)[2]) for number in range(1, UPDATES + 1)]
    assert not any(result.skipped for result in results)
    numbers["updates"] = [torch.tensor([result.objective / result.tokens for result in results])]
    return numbers, words


def relative(found: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """The relative difference of tensors from exact ones, all taken together."""
    joined, expected = (torch.cat([one.detach().double().flatten().cpu() for one in some]) for some in (found, exact))
    return float((joined - expected).norm() / expected.norm())


def differences_of_loss(device: torch.device, precision: str) -> dict[str, float]:
    """Of the loss, its gradients and the log-probabilities of a search at the size of a paper.

    The loss overwrites its logits with their softmax: here a GPU divides the work as it does in a real training.
    """
    tokens, width, words = (3000, 512, 32_000) if ON_GPU else (50, 16, 300)
    torch.manual_seed(1)
    states_ND, table_VD = torch.randn(tokens, width), torch.randn(words, width) * 0.05
    bias_V, references_N = torch.randn(words) * 0.05, torch.randint(words, (tokens,))
    inputs = [one.to(device).requires_grad_() for one in (states_ND, table_VD, bias_V)]
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        objective = smoothed_cross_entropy(*inputs, references_N.to(device), 0.1).objective
    found = [objective, *torch.autograd.grad(objective, inputs)]
    with torch.no_grad():
        found.append(log_probabilities(*inputs))
    precise = [one.double().requires_grad_() for one in (states_ND, table_VD, bias_V)]
    logits_NV = F.linear(*precise)
    loss = F.cross_entropy(logits_NV, references_N, label_smoothing=0.1 * words / (words - 1), reduction="sum")
    exact = [loss, *torch.autograd.grad(loss, precise, retain_graph=True), torch.log_softmax(logits_NV, -1)]
    names = ("loss", "states", "table", "bias", "log_softmax")
    return {name: relative([one], [other]) for name, one, other in zip(names, found, exact, strict=True)}


def too_large(figures: dict[str, float], precision: str) -> list[str]:
    """The names of the differences that are larger than rounding explains."""
    wide = ("gradients", *SEARCHES)
    return [name for name, one in figures.items() if not one <= TOLERANCES[precision] * (8 if name in wide else 1)]


def main() -> None:
    results, wrong = Figures(), []
    for precision in TOLERANCES:
        for system in (LOSS, *(SYSTEMS if ON_GPU else ("+Max+Attn+TA", "bi-scale"))):
            arguments = DEVICE, precision
            figures = differences_of_loss(*arguments) if system == LOSS else differences(system, *arguments)
            results.add(f"{precision}, {system}", **figures)
            wrong += [f"{precision}, {system}: {name}" for name in too_large(figures, precision)]
    results.add("too large", differences=wrong)


if __name__ == "__main__":
    main()
