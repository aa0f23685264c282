"""Compose: a name server, a broker, the console, Prometheus and Grafana in containers of a machine.

Ports are published on one address of the machine. On 127.0.0.1 nobody is asked who he is, as with
`rmq standalone`; on another one accounts are made, unless somebody says --insecure.

The console has the machine's network. In one of its own it could not reach a broker that tells
clients 127.0.0.1, and would have to listen on all addresses, where it takes any name for its own
(rmq/console/settings.py), and passwords in the clear.
"""

from __future__ import annotations

import ipaddress

from rmq import __version__
from rmq.generate.accounts import FOLDER, METRICS_USER, Accounts
from rmq.generate.alerts import alerts_file
from rmq.generate.dashboard import dashboard_file
from rmq.generate.output import GeneratedFile
from rmq.generate.server_settings import in_containers
from rmq.generate.template import filled

JOB = "rmq"
PASSWORD_FILE = "/etc/prometheus/metrics-password"
BASIC_AUTH = f"""\
basic_auth:
  username: {METRICS_USER}
  password_file: {PASSWORD_FILE}
"""
NO_VARIABLES = """\
# Browsers log in with accounts: it has none.
env_file: []
"""
FILES = ("compose.yaml", "Containerfile", "prometheus.yml", "grafana-datasource.yml",
         "grafana-dashboards.yml")  # fmt: skip


def default_image() -> str:
    return f"localhost/rmq:{__version__}"


def compose_files(
    address: str, image: str, python: str, cluster: str, *, insecure: bool
) -> list[GeneratedFile]:
    """address: where ports are published, and by which clients call the broker; python: the version
    that the wheel is for, such as 3.13."""
    is_here = ipaddress.ip_address(address).is_loopback
    is_open = is_here or insecure
    settings = in_containers(cluster, "brokerName=broker-a", "namesrv:9876", insecure=is_open)
    values = _places(address, image, python, is_here=is_here, is_open=is_open)
    return [
        *(GeneratedFile(name, filled(f"compose/{name}", values)) for name in FILES),
        GeneratedFile("broker.conf", settings.broker_conf()),
        GeneratedFile("namesrv.conf", settings.namesrv_conf()),
        GeneratedFile("rmq-alerts.yml", alerts_file(JOB)),
        GeneratedFile("rmq-dashboard.json", dashboard_file()),
        *([] if is_open else Accounts.make().for_compose()),
    ]


def _places(
    address: str, image: str, python: str, *, is_here: bool, is_open: bool
) -> dict[str, str]:
    insecure = ", --insecure" if is_open else ""
    # Where only this machine can connect: the ports of the containers are published here alone.
    broker = f"[broker, -c, /etc/rmq/broker.conf, --set, brokerIP1={address}{insecure}]"
    credentials = "" if is_open else f" --credentials {FOLDER}/admin.json"
    return {
        "image": image,
        "python": python,
        "address": address,
        "clients": "this machine alone" if is_here else "all that reach this address",
        "try_it": f"rmq send greetings hello -n {address}:9876{credentials}",
        "namesrv_command": f"[namesrv, -c, /etc/rmq/namesrv.conf{insecure}]",
        "broker_command": broker,
        "env_file": "" if is_open else f"env_file: [{FOLDER}/servers.env]",
        "console_environment": "" if is_open else NO_VARIABLES,
        "console_login": "" if is_open else f": log in as {FOLDER}/admin.json says",
        "password_volume": "" if is_open else f"- ./{FOLDER}/metrics-password:{PASSWORD_FILE}:ro",
        "job": JOB,
        "basic_auth": "" if is_open else BASIC_AUTH,
    }
