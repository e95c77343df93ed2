"""A training as a command: a signal stops it after its first report, and the same command resumes it.

Shows exit codes, the speed in each report, and the most memory as the training counts it beside what nvidia-smi saw.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path

from figures import ON_GPU, Figures
from processes import PATIENCE, wait_until
from speed import BASE
from training import train_command, write_corpus

from phrasemt.artefacts.training import Metrics, TrainingRecord

STOPPED = 85
PAIRS, WORDS, UPDATES, TOKENS = (12_000, 8_000, 200, 25_000) if ON_GPU else (500, 100, 40, 500)
MEMORY = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]


def main() -> None:
    results = Figures()
    model = {"family": "transformer", **BASE} | ({} if ON_GPU else {"width": 16, "ffn_width": 32})
    budget = {"tokens_per_update": TOKENS, "max_updates": UPDATES, "evaluate_every": UPDATES, "precision": "bfloat16"}
    with tempfile.TemporaryDirectory() as name:
        record = Path(name, "training.json")
        command = train_command(write_corpus(record.parent, PAIRS, WORDS), model, budget, record)
        with subprocess.Popen(command) as process:
            wait_until(lambda: any(one.stat().st_size for one in record.parent.glob("state/*/metrics.jsonl")), process)
            seen = subprocess.check_output(MEMORY, text=True).split() if ON_GPU else []
            process.send_signal(signal.SIGUSR1)
        resumed = subprocess.run(command, timeout=PATIENCE, check=False).returncode
        reports = Metrics.read(record.parent / TrainingRecord.read(record).metrics).updates
    codes = {"stopped": process.returncode, "resumed": resumed}
    results.add("exit codes", **codes, right=codes == {"stopped": STOPPED, "resumed": 0})
    results.add("memory in MiB", counted=max(report.memory_mib for report in reports), nvidia_smi=seen)
    results.add("tokens a second", reports=[report.tokens_per_second for report in reports])


if __name__ == "__main__":
    main()
