"""What people look at while a model trains: a bar or a line a minute, JSON lines, TensorBoard."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

log = logging.getLogger("phrasemt.train_model")

_SECONDS_BETWEEN_LINES = 60


class Reporter:
    """Reports of one training. `seconds` counts training time over all its runs, evaluations included."""

    def __init__(self, metrics: Path, *, first_update: int, max_updates: int, seconds: float) -> None:
        self._stream = metrics.open("a", encoding="utf-8", buffering=1)
        self._board = SummaryWriter(str(metrics.parent), purge_step=first_update + 1)
        self._max_updates = max_updates
        self._first_update = first_update
        self._started = time.monotonic()
        self._seconds_before = seconds
        self._next_line = self._started + _SECONDS_BETWEEN_LINES
        self._bar = tqdm(
            total=max_updates, initial=first_update, unit="update", disable=None, leave=False, file=sys.stderr
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        self._board.close()
        self._stream.close()

    @property
    def seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def update(self, update: int, values: dict[str, float]) -> None:
        """Averages over the updates since the last report: loss, tokens_per_second, ..."""
        self._write(update, "train", values)
        text = " ".join(
            f"{name} {values[key]:{form}}"
            for name, key, form in (
                ("loss", "loss", ".3f"),
                ("perplexity", "perplexity", ".2f"),
                ("tokens/s", "tokens_per_second", ",.0f"),
            )
        )
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(update - self._bar.n)
        if time.monotonic() >= self._next_line and self._bar.disable:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            done = update - self._first_update
            left = (self._max_updates - update) * (time.monotonic() - self._started) / done
            log.info("update %d of %d, %s, time left %s", update, self._max_updates, text, _clock(left))

    def evaluation(self, update: int, values: dict[str, float], *, best: bool) -> None:
        """Dev scores, with a mark when they are the best so far."""
        self._write(update, "dev", values)
        with tqdm.external_write_mode(file=sys.stderr):
            log.info(
                "update %d: dev %sperplexity %.3f%s",
                update,
                f"BLEU {values['dev_bleu']:.2f}, " if "dev_bleu" in values else "",
                values["dev_perplexity"],
                " (best)" if best else "",
            )

    def _write(self, update: int, group: str, values: dict[str, float]) -> None:
        self._stream.write(json.dumps({"update": update, "seconds": round(self.seconds, 3), **values}) + "\n")
        for name, value in values.items():
            self._board.add_scalar(f"{group}/{name}", value, update)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
