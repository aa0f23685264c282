"""Sanitized: whether this run is `make debug`, and how much slower everything may be there.

Limits of time are promises about the release build; under a sanitizer they only mean "not for
ever".
"""

import os

SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
SLOWNESS = 15 if SANITIZED else 1
