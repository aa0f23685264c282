"""Helm: the manifests of kubernetes.py as a chart, whose values are the fields of a Cluster.

    helm install rmq ./chart --set broker.replicas=3

values.schema.json refuses what rmq/generate/checks.py refuses.
"""

from __future__ import annotations

import json
from typing import Any

from rmq import __version__
from rmq.generate import checks
from rmq.generate.kubernetes import (
    INSECURE,
    SCRAPING,
    SCRAPING_BY_PASSWORD,
    Cluster,
    broker_environment,
    manifests,
    namesrv_environment,
    settings_places,
    storage_class,
)
from rmq.generate.output import GeneratedFile
from rmq.generate.server_settings import (
    ACCOUNTS,
    EVERYWHERE,
    EVERYWHERE_METRICS,
    METRICS_PASSWORD,
    NO_ACCOUNTS,
    ServerSettings,
)
from rmq.generate.template import filled

NAME = "{{ .Release.Name }}"
SECRET = '{{ .Values.secret | default (printf "%s-accounts" .Release.Name) }}'
SERVERS = (
    "{{ range $at := until (int .Values.nameServers) }}{{ if $at }};{{ end }}"
    "{{ $.Release.Name }}-namesrv-{{ $at }}.{{ $.Release.Name }}-namesrv:9876{{ end }}"
)
Json = dict[str, Any]


def helm_files(cluster: Cluster) -> list[GeneratedFile]:
    """The chart; the cluster's values are its defaults."""
    return [
        GeneratedFile("Chart.yaml", filled("helm/Chart.yaml", {"version": __version__})),
        GeneratedFile("values.yaml", filled("helm/values.yaml", _defaults(cluster))),
        GeneratedFile("values.schema.json", json.dumps(schema(), indent=2) + "\n"),
        *(GeneratedFile(f"templates/{name}", text) for name, text in manifests(places()).items()),
    ]


def places() -> dict[str, str]:
    """What goes into the places of the templates: Helm's expressions."""
    access = EVERYWHERE + _either(NO_ACCOUNTS, ACCOUNTS)
    settings = ServerSettings(
        cluster="{{ .Values.cluster }}",
        broker="",
        namesrv=SERVERS,
        access=access,
        namesrv_access=access,
        metrics=EVERYWHERE_METRICS + _either("", METRICS_PASSWORD),
    )
    of_class = storage_class("{{ . }}")
    return {
        "name": NAME,
        "image": "{{ .Values.image }}",
        "name_servers": "{{ .Values.nameServers }}",
        "brokers": "{{ .Values.broker.replicas }}",
        "cores": "{{ .Values.broker.cpu }}",
        "memory": "{{ .Values.broker.memory }}",
        "storage": "{{ .Values.broker.storage }}",
        "storage_class": f"{{{{- with .Values.storageClass }}}}\n{of_class}\n{{{{- end }}}}",
        "addresses": SERVERS,
        "settings_sum": '{{ include (print $.Template.BasePath "/configuration.yaml") . '
        "| sha256sum }}",
        "insecure": _either(f"{INSECURE}\n", ""),
        "scraping": _either(SCRAPING, SCRAPING_BY_PASSWORD),
        "broker_environment": _either("", broker_environment(SECRET)),
        "namesrv_environment": _either("", namesrv_environment(SECRET) + "\n"),
        **settings_places(settings),
    }


def _either(insecure: str, secure: str) -> str:
    """Lines of a template: the first ones with the value insecure, the second ones without."""
    if not secure:
        return "{{- if .Values.insecure }}\n" + insecure + "{{- end }}\n"
    if not insecure:
        return "{{- if not .Values.insecure }}\n" + secure + "{{- end }}\n"
    return "{{- if .Values.insecure }}\n" + insecure + "{{- else }}\n" + secure + "{{- end }}\n"


def _defaults(cluster: Cluster) -> dict[str, str]:
    return {
        "image": cluster.image,
        "cluster": cluster.cluster,
        "name_servers": str(cluster.name_servers),
        "brokers": str(cluster.brokers),
        "cores": cluster.cores,
        "memory": cluster.memory,
        "storage": cluster.storage,
        "storage_class": json.dumps(cluster.storage_class),
        "secret": json.dumps(cluster.secret),
        "insecure": "true" if cluster.insecure else "false",
    }


def schema() -> Json:
    """The JSON schema of values.yaml."""
    optional = f"({checks.LABEL})?"
    broker = {
        "replicas": _number(0, 1000),
        "cpu": _text(checks.CORES),
        "memory": _text(checks.BYTES),
        "storage": _text(checks.BYTES),
    }
    values = {
        "image": _text(checks.IMAGE),
        "cluster": _text(checks.NAME),
        "nameServers": _number(1, 9),
        "broker": _object(broker),
        "storageClass": _text(optional),
        "secret": _text(optional),
        "insecure": {"type": "boolean"},
        "global": {"type": "object"},  # Helm's own
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_object(values, optional=("global",)),
    }


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name in properties if name not in optional],
        "properties": properties,
    }


def _text(pattern: str) -> Json:
    return {"type": "string", "pattern": f"^({pattern})$"}


def _number(least: int, most: int) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}
