"""Secured row: signatures, permissions and TLS are on, against Apache RocketMQ with the same on.

Both brokers have the same users, entries and topics, and the same load, whose side of TLS is done
in threads. They run at once and take turns in slices, on the same cores.

    outcome = secured(Bench(root=Path("/tmp/x"), rounds=5, seconds=2.0))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from account_rows import ADMIN, SETTINGS, armed, make_users, signed_sends
from peer_pairs import HEAP, WARM_S, ApacheServer
from rounds import Outcome
from rows import Bench, compare_cpu, in_rounds, topic_queues
from servers import placed_on
from tls_rows import by_tls

from rmq.demo.ports import free_port
from rmq.format import fastjson
from tools.peers.apache import ApacheStandalone

PROVIDERS = "org.apache.rocketmq.auth"
OF_APACHE = {
    **SETTINGS,
    "authenticationProvider": f"{PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider":
        f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider":
        f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    "innerClientAuthenticationCredentials": fastjson.dumps(
        {"accessKey": ADMIN.access_key, "secretKey": ADMIN.secret_key}
    ).decode(),
}  # fmt: skip
TLS = ("-Dtls.server.mode=permissive", "-Dtls.test.mode.enable=true")


@contextmanager
def armed_apache(bench: Bench) -> Iterator[ApacheServer]:
    servers = ApacheStandalone(
        bench.root / "apache", free_port(), free_port(2, 1), OF_APACHE, heap=HEAP, jvm=TLS
    )
    try:
        with placed_on(bench.places(sync=False)):
            servers.start()
        yield ApacheServer(servers)
    finally:
        servers.kill()


def secured(bench: Bench) -> Outcome:
    outcome = Outcome("secured", "1x64 signed, permitted, by TLS: CPU-s/M to Apache's", 0.167)
    with armed(bench) as ours, armed_apache(bench) as apache, by_tls():
        make_users(apache.name_server)
        theirs, own = (signed_sends(bench, each, topic_queues(each)) for each in (apache, ours))
        theirs.slice(WARM_S)
        rounds = in_rounds(bench, theirs.slice, own.slice)
    return compare_cpu(outcome, rounds, "Apache ours")
