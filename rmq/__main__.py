"""`python -m rmq` and the `rmq` script."""

from rmq.cli.main import main

if __name__ == "__main__":
    main()
