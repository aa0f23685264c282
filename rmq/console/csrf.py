"""CSRF: whether a request that changes something comes from a page of this console.

Three things are checked, each of which would be enough in most browsers:

    the cookie      SameSite=Lax: forms of another site's pages do not send it
    the origin      Origin, or Sec-Fetch-Site, says that a page of this console sent it
    the token       a hidden field of the form, made from the cookie with a key of this process

A request that does not say where it comes from is refused, because browsers always say it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

TOKEN_FIELD = "csrf"


def own_origins(request: Request, origin: str) -> set[str]:
    """The origins of this console: the one the request was addressed to, and the one that browsers
    see when the console is behind a proxy."""
    host = request.headers.get("host", "")
    return {each for each in (f"{request.url.scheme}://{host}", origin.rstrip("/")) if each}


def origin_fault(request: Request, origin: str) -> str | None:
    """Why the request may not come from a page of this console; None: it does."""
    own = own_origins(request, origin)
    said = request.headers.get("origin")
    if said is None and (referer := request.headers.get("referer")):
        parts = urlsplit(referer)
        said = f"{parts.scheme}://{parts.netloc}"
    if said is not None:
        return None if said in own else f"it comes from a page of {said[:100]}"
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin":
        return None
    return "it does not say from which page it comes (Origin)"
