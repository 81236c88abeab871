"""`python -m disco_mt` is `disco`; torchrun needs the module form."""

import sys

from disco_mt.cli import main

sys.exit(main())
