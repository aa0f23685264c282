"""The compiled half of rmq. Importing it checks that it was compiled, and from this version.

`setup.py` writes `cext/_build.py` with the version it compiles. A checkout that was never built has
none; one that was updated without building again has an old one, whose modules might not fit the
Python around them. Both are refused here, with the command that mends it, and never papered over
by slower code.
"""

from rmq import __version__
from rmq.errors import NotBuiltError

_REMEDY = "In a checkout run `make build`; elsewhere `pip install --force-reinstall rmq`"

try:
    from cext._build import COMMIT, VERSION  # noqa: F401 - without it the stamp is of long ago
except ImportError:
    raise NotBuiltError(f"The compiled modules of rmq are missing. {_REMEDY}.") from None
if __version__ != VERSION:
    raise NotBuiltError(
        f"The compiled modules are of rmq {VERSION}, the rest is {__version__}. {_REMEDY}."
    )
