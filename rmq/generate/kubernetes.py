"""Kubernetes: manifests of name servers and brokers, as StatefulSets with volumes of their own, and
of the web console.

    manifests(places(Cluster(image="registry.example.org/rmq:0.1.0")))    file -> YAML

The manifests are templates. With the values of a Cluster in their places they are for `kubectl
apply`; with expressions of Helm (rmq/generate/helm.py) they are a chart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from rmq.generate.accounts import METRICS_USER, Accounts
from rmq.generate.output import GeneratedFile
from rmq.generate.server_settings import ADMIN, METRICS, ServerSettings, in_containers
from rmq.generate.template import filled

CONFIGURATION = "configuration.yaml"
COMPONENTS = ("namesrv", "broker", "console")
INSECURE = "- --insecure"
HEADER = """\
# Name servers, brokers and the console of rmq; made by `rmq generate k8s`.
"""
SECRET_HEADER = """\
# Passwords are in the Secret {secret}, which `rmq generate k8s --out DIR` makes as
# DIR/accounts/secret.json: apply that first. Who is let in: `rmq user create`, `rmq acl allow`.
"""
SCRAPING = """\
prometheus.io/scrape: "true"
prometheus.io/port: "5557"
prometheus.io/path: /metrics
"""
# There are no annotations then: a Prometheus that scrapes by annotations has no password, and would
# be answered 401.
SCRAPING_BY_PASSWORD = f"""\
# /metrics wants a user and a password: the Secret's key `metrics` has both. Prometheus' job for
# these pods, which docs/install.md has, gives them:
#   basic_auth:
#     username: {METRICS_USER}
#     password_file: ..
"""
VARIABLE = """\
- name: {variable}
  valueFrom:
    secretKeyRef:
      name: {secret}
      key: {key}
"""


class Cluster(msgspec.Struct, frozen=True):
    """What shall run. rmq/generate/checks.py has checked the texts. memory, storage: such as
    2Gi."""

    image: str
    name: str = "rmq"
    cluster: str = "DefaultCluster"
    name_servers: int = 2
    brokers: int = 2
    cores: str = "1"
    memory: str = "2Gi"
    storage: str = "20Gi"
    storage_class: str = ""  # empty: the cluster's default
    secret: str = ""  # empty: NAME-accounts
    insecure: bool = False

    @property
    def accounts_secret(self) -> str:
        return self.secret or f"{self.name}-accounts"


def kubernetes_files(cluster: Cluster) -> list[GeneratedFile]:
    header = HEADER
    accounts = []
    if not cluster.insecure:
        header += SECRET_HEADER.format(secret=cluster.accounts_secret)
        accounts = Accounts.make().for_kubernetes(cluster.accounts_secret)
    text = "---\n".join(manifests(places(cluster)).values())
    return [GeneratedFile("rmq.yaml", header + text), *accounts]


def manifests(values: Mapping[str, str]) -> dict[str, str]:
    """file -> YAML, of one or several documents."""
    found = {CONFIGURATION: filled(f"kubernetes/{CONFIGURATION}", values)}
    for component in COMPONENTS:
        labels = {
            "app.kubernetes.io/name": "rmq",
            "app.kubernetes.io/instance": values["name"],
            "app.kubernetes.io/component": component,
        }
        text = "\n".join(f"{key}: {value}" for key, value in labels.items())
        name = f"{component}.yaml"
        found[name] = filled(f"kubernetes/{name}", {**values, "labels": text})
    return found


def places(cluster: Cluster) -> dict[str, str]:
    """What goes into the places of the templates."""
    name = cluster.name
    servers = ";".join(f"{name}-namesrv-{at}.{name}-namesrv:9876"
                       for at in range(cluster.name_servers))  # fmt: skip
    settings = in_containers(cluster.cluster, "", servers, insecure=cluster.insecure)
    texts = {key: str(value) for key, value in msgspec.structs.asdict(cluster).items()}
    secret = "" if cluster.insecure else cluster.accounts_secret
    return {
        **texts,
        **settings_places(settings),
        "addresses": servers,
        "settings_sum": _sum_of(settings),
        "storage_class": storage_class(cluster.storage_class) if cluster.storage_class else "",
        "insecure": INSECURE if cluster.insecure else "",
        "scraping": SCRAPING if cluster.insecure else SCRAPING_BY_PASSWORD,
        "broker_environment": broker_environment(secret) if secret else "",
        "namesrv_environment": namesrv_environment(secret) if secret else "",
    }


def settings_places(settings: ServerSettings) -> dict[str, str]:
    return {"broker_conf": settings.broker_conf(), "namesrv_conf": settings.namesrv_conf()}


def storage_class(name: str) -> str:
    return f"storageClassName: {name}"


def broker_environment(secret: str) -> str:
    return _variable(ADMIN, secret, "admin") + _variable(METRICS, secret, "metrics")


def namesrv_environment(secret: str) -> str:
    lines = _variable(ADMIN, secret, "admin").splitlines()
    return "\n".join(["env:", *(f"  {line}" for line in lines)])


def _variable(variable: str, secret: str, key: str) -> str:
    return VARIABLE.format(variable=variable, secret=secret, key=key)


def _sum_of(settings: ServerSettings) -> str:
    text = settings.broker_conf() + settings.namesrv_conf()
    return hashlib.sha256(text.encode()).hexdigest()
