"""`python -m rmq` and the `rmq` script."""

from rmq import collector  # noqa: F401
from rmq.cli.main import main

if __name__ == "__main__":
    main()
