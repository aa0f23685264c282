"""`python -m rmq` and the `rmq` script."""

import gc

# A start makes some 50,000 objects that stay (modules, classes, functions), and Python's 700 would
# look through all of them eighty times, a tenth of the start.
gc.set_threshold(20_000)

from rmq.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
