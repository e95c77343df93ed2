"""`python -m phrasemt` is the command line."""

from __future__ import annotations

import sys

from phrasemt.cli import main
from phrasemt.machine.launch import launched, leave

if __name__ == "__main__":
    code = main()
    if launched():
        leave(code)
    sys.exit(code)
