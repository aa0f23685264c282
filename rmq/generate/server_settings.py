"""Server settings: broker.conf, namesrv.conf, controller.conf, and the console's environment.

They are samples for servers on a machine; the first two are also made for containers. There every
server listens on all addresses of its container, so it asks for accounts. Their passwords come in
the environment, from a file or a Secret that only the operator reads.
"""

from __future__ import annotations

import msgspec

from rmq.generate.template import filled

HERE = """\
# Reachable from other machines: give the address clients use, and let `rmq setup security` make
# accounts and certificates, with --audit-log /var/log/rmq/audit.log (or start with --insecure, and
# everyone who reaches it may do all).
# Without these two lines everything stays on this machine.
#brokerIP1=10.0.0.5
#bindAddress=0.0.0.0
"""
HERE_METRICS = """\
# /metrics, /healthz and /readyz on this machine only; another address wants rmqMetricsCredentials.
"""
EVERYWHERE = "bindAddress=0.0.0.0\n"
# Variables of the environment that hold JSON (rmq/generate/accounts.py).
ADMIN, METRICS = "RMQ_ADMIN", "RMQ_METRICS"
ACCOUNTS = f"""\
# Who asks is asked who he is. The first Super user comes in the environment.
authenticationEnabled=true
authorizationEnabled=true
initAuthenticationUser=${ADMIN}
"""
NO_ACCOUNTS = """\
# Whoever reaches the ports may do everything: --insecure.
"""
EVERYWHERE_METRICS = """\
# /metrics of whoever knows the password; /healthz and /readyz of everybody.
metricsPromExporterHost=0.0.0.0
"""
METRICS_PASSWORD = f"rmqMetricsCredentials=${METRICS}\n"


class ServerSettings(msgspec.Struct, frozen=True):
    """What differs between the ways to run servers. broker: the line with its name; empty if the
    command line gives the name."""

    config: str = "/etc/rmq"
    cluster: str = "DefaultCluster"
    broker: str = "brokerName=broker-a"
    namesrv: str = "127.0.0.1:9876"
    flush: str = "ASYNC_FLUSH"
    hours: str = "72"
    access: str = HERE
    metrics: str = HERE_METRICS
    namesrv_access: str = "bindAddress=127.0.0.1"

    def broker_conf(self) -> str:
        return filled("broker.conf", msgspec.structs.asdict(self))

    def namesrv_conf(self) -> str:
        return filled("namesrv.conf", {"config": self.config, "access": self.namesrv_access})

    def controller_conf(self) -> str:
        return filled("controller.conf", {"config": self.config, "access": self.namesrv_access})

    def console_conf(self, user: str) -> str:
        values = {"config": self.config, "namesrv": self.namesrv, "user": user}
        return filled("console.conf", values)


def in_containers(cluster: str, broker: str, namesrv: str, *, insecure: bool) -> ServerSettings:
    access = EVERYWHERE + (NO_ACCOUNTS if insecure else ACCOUNTS)
    return ServerSettings(
        cluster=cluster,
        broker=broker,
        namesrv=namesrv,
        access=access,
        namesrv_access=access,
        metrics=EVERYWHERE_METRICS + ("" if insecure else METRICS_PASSWORD),
    )
