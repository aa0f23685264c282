"""Client keywords: for a client with an engine of its own, what the blocking one goes by.

    Producer(group, namesrv_addr=.., **client_keywords())           as the process asks
    Producer(group, namesrv_addr=.., **client_keywords(account))    as somebody else asks

Whether it speaks TLS, and whom it trusts, is the process's either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmq.client.blocking import credentials, encryption
from rmq.format.signature import Credentials

if TYPE_CHECKING:
    from rmq.client.parameters.keywords import ClientKeywords


def client_keywords(account: Credentials | None = None) -> ClientKeywords:
    found: ClientKeywords = {}
    asker = account if account is not None else credentials.present()
    if asker is not None:
        found["access_key"], found["secret_key"] = asker.access_key, asker.secret_key
    said = encryption.checked_tls()
    if said is not None:
        found["use_tls"], found["tls_verify"] = True, said.verify
        found["tls_ca_file"], found["tls_cert_file"] = said.ca_file, said.cert_file
        found["tls_key_file"], found["tls_key_password"] = said.key_file, said.key_password
    return found
