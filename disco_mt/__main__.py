"""`python -m disco_mt` is `disco`; torchrun needs the module form."""

import sys

from disco_mt.cli import main

if __name__ == "__main__":  # processes that we start import this file, too
    sys.exit(main())
