"""The long form of the sampler's stress test (contract/test_sampler_stress.py).

    python -m tests.torture --minutes 10

Threads and processes start and die, code is made and freed, stacks grow deep, generators and
coroutines hop, garbage is collected, and the process forks, all while its stacks are sampled 10,000
times a second. A crash of the process ends this with its signal; a child that crashes is an error.
The last line is JSON: what was seen.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import time
import warnings

from stepscope.record import _native
from tests.contract.test_sampler_stress import torture

ROUND_S = 10.0  # then a new sampler begins, with room for new stacks


def main() -> int:
    parser = argparse.ArgumentParser(description="Does the sampler survive everything?")
    parser.add_argument("--minutes", type=float, default=10.0)
    minutes = parser.parse_args().minutes
    faulthandler.enable()
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
    end = time.monotonic() + 60 * minutes
    total: dict[str, int] = {}
    rounds = 0
    while time.monotonic() < end:
        counters = torture(_native, min(ROUND_S, max(1.0, end - time.monotonic())))
        total = {key: total.get(key, 0) + value for key, value in counters.items()}
        rounds += 1
    ok = total["taken"] > 0 and total["torn"] < total["taken"] / 10
    version = sys.version.split()[0]
    print(json.dumps({"python": version, "minutes": minutes, "rounds": rounds, **total, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
