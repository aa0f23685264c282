"""Writes docs/client-parameters.md, or with the word `keywords` keywords.py (see page.py)."""

from rmq.client.parameters.page import main

if __name__ == "__main__":
    main()
