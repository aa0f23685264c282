"""Name servers: which there are, by a list, the environment, a file, or an address server.

    source = NameServerSource(parameters)
    source.addresses()          # ["10.0.0.7:9876", "10.0.0.8:9876"], read again when it is time

The first of these counts: the parameter namesrv_addr, the environment's NAMESRV_ADDR, namesrv_file,
namesrv_http, 127.0.0.1:9876. A file or a URL is read again every two minutes, as RocketMQ's clients
do. If that fails, the last list stays, and the next try comes after two minutes, too; as long as
there was no list at all, it comes after ten seconds. Between two tries no request waits for an
address server that does not answer.
"""

from __future__ import annotations

import os
from pathlib import Path

from rmq.base import clock
from rmq.base.server_address import split_address
from rmq.client.connection.repeated_warnings import RepeatedWarnings
from rmq.client.parameters import ClientParameters
from rmq.errors import ConfigError, UnreachableError

READ_AGAIN_S = 120.0
FIRST_AGAIN_S = 10.0  # while there is no list, without which nothing can be done
HTTP_TIMEOUT_S = 3.0
HTTP_BYTES_MAX = 64 << 10
DEFAULT_ADDRESS = "127.0.0.1:9876"


def split_list(text: str) -> list[str]:
    """The addresses in "a:1;b:2" (also separated by commas or white space), each once."""
    found = dict.fromkeys(text.replace(";", " ").replace(",", " ").split())
    return [each.removeprefix("http://") for each in found]


class NameServerSource:
    """The list of one client, and where it comes from."""

    def __init__(self, parameters: ClientParameters) -> None:
        self._fixed = parameters.namesrv_addr or os.environ.get("NAMESRV_ADDR")
        self._file = parameters.namesrv_file
        self._url = parameters.namesrv_http
        if self._url and not self._url.startswith(("http://", "https://")):
            raise ConfigError(f"namesrv_http={self._url}: a URL of http or https is wanted")
        self._list: list[str] = []
        self._read_at = 0.0  # when it is read the next time
        self._failure: Exception | None = None
        self._warnings = RepeatedWarnings()
        if self._fixed or not (self._file or self._url):
            self._list = split_list(self._fixed or DEFAULT_ADDRESS)
            for address in self._list:
                split_address(address)
            if not self._list:
                raise ConfigError("no name server given: host:port, several separated by ';'")

    @property
    def text(self) -> str:
        """Where the list comes from; two sources with the same text are the same."""
        return self._fixed or self._file or self._url or DEFAULT_ADDRESS

    def addresses(self) -> list[str]:
        """The addresses, at least one. UnreachableError: file or address server never gave any."""
        if self._fixed or not (self._file or self._url):
            return self._list
        if clock.monotonic() >= self._read_at:
            self._read_again()
        if not self._list:
            raise UnreachableError(f"{self.text} gives no list of name servers: {self._failure}")
        return self._list

    def _read_again(self) -> None:
        what = f"list of name servers {self.text}"
        try:
            found = split_list(self._read())
            for address in found:
                split_address(address)
            if not found:
                raise ConfigError("it is empty")
        except (OSError, ValueError, ConfigError) as error:
            self._failure = error
            self._warnings.begin(what, error)
        else:
            self._list = found
            self._warnings.end(what)
        self._read_at = clock.monotonic() + (READ_AGAIN_S if self._list else FIRST_AGAIN_S)

    def _read(self) -> str:
        if self._file:
            return Path(self._file).read_text()
        assert self._url is not None
        import http.client
        import urllib.request  # takes 10 ms, and few clients use an address server

        try:
            with urllib.request.urlopen(self._url, timeout=HTTP_TIMEOUT_S) as answer:
                data: bytes = answer.read(HTTP_BYTES_MAX)
        except http.client.HTTPException as error:
            raise OSError(f"no answer of HTTP: {error!r}") from error
        return data.decode()
