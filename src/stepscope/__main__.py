"""`python -m stepscope` is `stepscope`."""

from __future__ import annotations

import sys

from stepscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
