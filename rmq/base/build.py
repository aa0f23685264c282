"""Build: which version and commit of rmq this is, for people who compare machines.

Example: build_text() is "0.1.0 (4d61e699)"; the commit has a + where the checkout was changed.
"""

from cext._build import COMMIT, VERSION


def build_text() -> str:
    return f"{VERSION} ({COMMIT})" if COMMIT else VERSION
