"""`python -m phrasemt` is the command line."""

from __future__ import annotations

import signal
import sys

# Ctrl-C while this starts ends it without a traceback. It may also be ignored, as behind a shell's `&`.
interrupted = signal.getsignal(signal.SIGINT)
if interrupted is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from phrasemt.cli import main  # noqa: E402
from phrasemt.machine.launch import launched, leave  # noqa: E402

if __name__ == "__main__":
    signal.signal(signal.SIGINT, interrupted)
    code = main()
    if launched():
        leave(code)
    sys.exit(code)
