"""Dashboard: a dashboard for Grafana, as JSON to be imported or provisioned; panels.py has its
panels.

Users choose the data source, clusters and brokers above the panels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rmq.generate.panels import ROWS, Panel

UID = "rmq-brokers"
SCHEMA_VERSION = 39  # of Grafana 11; newer versions accept it, too
WIDTH = 24  # of Grafana's grid
CHOSEN = '{cluster=~"$cluster",node_id=~"$broker"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
SIZES = {"stat": (4, 4), "timeseries": (8, 8)}  # width, height
Json = dict[str, Any]


def dashboard_file() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


def dashboard() -> Json:
    return {
        "uid": UID,
        "title": "rmq brokers",
        "tags": ["rmq", "rocketmq"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }


def _variables() -> list[Json]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource",
              "query": "prometheus"}  # fmt: skip
    return [
        source,
        _variable("cluster", "Cluster", "label_values(rmq_up_seconds, cluster)"),
        _variable("broker", "Broker", 'label_values(rmq_up_seconds{cluster=~"$cluster"}, node_id)'),
    ]


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query,
        "includeAll": True, "multi": True, "refresh": 2, "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _panels() -> Iterator[Json]:
    number, top = 0, 0
    for title, panels in ROWS.items():
        number += 1
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place,
               "panels": []}  # fmt: skip
        top += 1
        left = height = 0
        for panel in panels:
            width, height = SIZES[panel.kind]
            if left + width > WIDTH:
                left, top = 0, top + height
            number += 1
            place = {"h": height, "w": width, "x": left, "y": top}
            yield _panel(panel, number, place)
            left += width
        top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> Json:
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.text,
        "datasource": SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "ABCDEF"[at], "datasource": SOURCE, "expr": chosen(expression),
             "legendFormat": legend or "__auto", "instant": panel.kind == "stat"}
            for at, (expression, legend) in enumerate(panel.queries)
        ],
    }  # fmt: skip


def chosen(expression: str) -> str:
    """The expression for those clusters and brokers only that are chosen above the dashboard."""
    return expression.replace("{..", CHOSEN)
