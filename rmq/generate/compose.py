"""Compose: name server, broker, console, Prometheus and Grafana in containers of one machine.

Ports are published on one address of the machine. On 127.0.0.1 servers ask for no accounts, as with
`rmq standalone`. On another address accounts are made, unless --insecure is given.

The console has the machine's network. In a network of its own it could not reach a broker whose
address for clients is 127.0.0.1. It would also have to listen on all addresses, where it takes any
host name for its own (rmq/console/settings.py), and would get passwords in the clear.
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
    """address: where ports are published, and the broker's address for clients; python: the version
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
    # --insecure is safe for is_here: only this machine can connect to the published ports.
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
