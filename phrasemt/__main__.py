"""`python -m phrasemt`."""

import sys

from phrasemt.cli import main

sys.exit(main())
