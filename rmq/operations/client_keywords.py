"""Client keywords: give a client with an engine the account and TLS settings of blocking clients.

    Producer(group, namesrv_addr=.., **client_keywords())           with the process's account
    Producer(group, namesrv_addr=.., **client_keywords(account))    with another account

Whether the client speaks TLS, and which authorities it trusts, are the process's settings always.
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
