"""Bundle parts: the contents of a bundle: facts of the machine, the cluster, a store, and logs.

Each file is added on its own, so that one that cannot be got does not keep others out of the
bundle. It has at most TOPICS_MAX topics and GROUPS_MAX groups.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import urllib.request
from functools import partial
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from rmq.cli import broker_figures
from rmq.cli.bundle import FILE_BYTES, Bundle
from rmq.cli.secrets_mask import safe_settings
from rmq.cli.table import records
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.client.blocking.group_lag import group_lag
from rmq.client.blocking.replicas import Replicas
from rmq.client.blocking.waiting_retries import waiting_retries
from rmq.config import Settings
from rmq.errors import RmqError
from rmq.operations.broker_samples import BrokerSamples
from rmq.operations.server_settings import name_server_settings
from rmq.operations.times import utc_text
from rmq.progress import Progress

TOPICS_MAX, GROUPS_MAX = 2000, 300
PROBLEMS_MAX = 100
METRICS_S = 5.0
PACKAGES = ("rmq", "click", "msgspec", "mmh3", "numpy", "pyzmq", "rich", "PyYAML", "pyarrow",
            "pyspark", "cryptography", "httpx", "lz4", "zstandard", "redis")  # fmt: skip
# Files of /proc: memory, load, uptime, kernel, pressure, limits of this process.
PROC = ("meminfo", "loadavg", "uptime", "version", "pressure/cpu", "pressure/io",
        "pressure/memory", "self/limits", "self/cgroup")  # fmt: skip


# ---- this machine


def add_machine(bundle: Bundle, settings: Settings, store: Path | None) -> None:
    bundle.add("versions.json", "versions of rmq, Python and packages here", versions)
    bundle.add("machine/facts.json", "processors, memory, load of this machine", _facts)
    root = store if store is not None else Path(settings.storePathRootDir).expanduser()
    bundle.add("machine/check.json", "what rmq check says", lambda: _findings(settings, root))


def versions() -> dict[str, Any]:
    from rmq.base.build import build_text

    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    now_ms = int(time.time() * 1000)
    return {"rmq": build_text(), "python": sys.version, "platform": platform.platform(),
            "packages": packages, "made": utc_text(now_ms), "made_ms": now_ms}  # fmt: skip


def _facts() -> dict[str, Any]:
    from rmq.system.kernel_files import KernelFiles
    from rmq.system.memory_limit import memory_bytes
    from rmq.system.topology import read_topology

    kernel = KernelFiles()
    return {"processors": os.cpu_count(), "usable_processors": sorted(os.sched_getaffinity(0)),
            "memory_limit_bytes": memory_bytes(), "topology": read_topology(),
            "proc": {name: kernel.text(f"/proc/{name}") for name in PROC}}  # fmt: skip


def _findings(settings: Settings, root: Path) -> Any:
    from rmq.system.checks import check
    from rmq.system.kernel_files import KernelFiles

    return check(KernelFiles(), root, settings)


def add_settings_file(bundle: Bundle, settings: Settings) -> None:
    """Adds the settings that were given; the others have their defaults."""
    given = {key: text for key, text in settings.items() if settings.given(key)}
    bundle.add("settings/file.json", "settings of the property file and --set",
               lambda: safe_settings(given)[0])  # fmt: skip


# ---- the cluster


def add_cluster(bundle: Bundle, cluster: Cluster) -> list[dict[str, str]]:
    """Adds the files of the cluster; returns the settings of each broker that answered."""
    entries: list[BrokerEntry] = []
    bundle.add("cluster/brokers.json", "state of each broker, as rmq broker status -o wide",
               lambda: _brokers(cluster, entries))  # fmt: skip
    found = [settings for entry in entries for number, address in sorted(entry.addresses.items())
             if (settings := _add_broker(bundle, cluster, entry, number, address))]  # fmt: skip
    for at, address in enumerate(cluster.name_servers):
        bundle.add(f"settings/name-server-{at}.json", f"settings of name server {address}",
                   partial(_name_server, cluster, address))  # fmt: skip
    topics: list[str] = []
    bundle.add("cluster/routes.json", "topics: their queues and brokers",
               lambda: _routes(cluster, topics))  # fmt: skip
    bundle.add("cluster/groups.json", "groups: members and lag", lambda: _groups(cluster, topics))
    bundle.add("cluster/replicas.json", "replicas and controllers, as rmq replica status",
               lambda: _replicas(cluster, entries, found))  # fmt: skip
    return found


def _brokers(cluster: Cluster, entries: list[BrokerEntry]) -> Any:
    entries += cluster.brokers()
    rows = BrokerSamples(cluster, broker_figures.refusal).poll()
    return records(broker_figures.columns(()), map(broker_figures.values, rows))


def _add_broker(
    bundle: Bundle, cluster: Cluster, entry: BrokerEntry, number: int, address: str
) -> dict[str, str]:
    name = f"{entry.name}-id{number}"
    single = BrokerEntry(entry.name, entry.cluster, {0: address})
    found: dict[str, str] = {}

    def settings() -> Any:
        found.update(admin.broker_settings(cluster, address))
        shown, left_out = safe_settings(found)
        return {"address": address, "settings": shown, "left_out": left_out}

    bundle.add(f"settings/{name}.json", f"settings of {entry.name} at {address}", settings)
    bundle.add(f"cluster/runtime-{name}.json", f"runtime information of {entry.name} at {address}",
               lambda: admin.runtime_info(cluster, single, "true"))  # fmt: skip
    if found.get("metricsExporterType", "").upper() == "PROM":
        bundle.add(f"metrics/{name}.txt", f"metrics of {entry.name}, for Prometheus",
                   lambda: _metrics(address, found))  # fmt: skip
    return found


def _metrics(address: str, settings: dict[str, str]) -> str:
    """The metrics page of a broker. RmqError: it needs a password or TLS, or its port is not
    known."""
    host, _, _ = address.rpartition(":")
    port = settings.get("metricsPromExporterPort", "")
    if settings.get("rmqMetricsCredentials") or settings.get("rmqMetricsTls") == "true":
        raise RmqError("the metrics need a password or TLS")
    if port in ("", "0"):
        raise RmqError("the port of the metrics is not known (metricsPromExporterPort=0)")
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=METRICS_S) as answer:
        return str(answer.read(FILE_BYTES + 1).decode("utf-8", "replace"))


def _name_server(cluster: Cluster, address: str) -> Any:
    shown, left_out = safe_settings(name_server_settings(cluster, address), "namesrv")
    return {"address": address, "settings": shown, "left_out": left_out}


def _routes(cluster: Cluster, topics: list[str]) -> Any:
    topics += cluster.topics()
    routes = {name: cluster.route(name).entries for name in islice(topics, TOPICS_MAX)}
    return {"topics": len(topics), "routes": routes}


def _groups(cluster: Cluster, topics: list[str]) -> Any:
    known, rows = sorted(admin.groups(cluster)), []
    waiting = waiting_retries(cluster)
    for name in islice(known, GROUPS_MAX):
        found = group_lag(cluster, name, set(topics), known)
        members = admin.online_members(cluster, name)
        rows.append({"group": name, "members": len(members), "lag": found.lag,
                     "retry_lag": found.retry_lag, "delayed_retries": waiting.of(name),
                     "dead_letters": found.dead_letters})  # fmt: skip
    return {"groups": len(known), "delayed_retries_exact": waiting.is_exact, "rows": rows}


def _replicas(cluster: Cluster, entries: list[BrokerEntry], settings: list[dict[str, str]]) -> Any:
    named = {each.strip() for found in settings for each in
             found.get("controllerAddr", "").split(";") if each.strip()}  # fmt: skip
    replicas = Replicas(cluster, sorted(named))
    sets = replicas.sets() if named else []
    plain = [each for each in entries if each.name not in {found.name for found in sets}]
    return {"controllers": replicas.states(),
            "brokers": [*sets, *map(replicas.plain_set, plain)]}  # fmt: skip


# ---- a store, and logs


def add_store(bundle: Bundle, settings: Settings, root: Path, *, with_check: bool) -> None:
    bundle.add("store/parts.json", "files of the store, as rmq store dump",
               lambda: _parts(settings, root))  # fmt: skip
    if with_check:
        bundle.add("store/check.json", "check of the store, as rmq store check",
                   lambda: _check(settings, root, bundle.progress))  # fmt: skip


def _parts(settings: Settings, root: Path) -> Any:
    from rmq.cli.store_places import log_of, stores_under
    from rmq.offline.overview import overview

    return {str(each): [part._asdict() for part in overview(each, log_of(settings, root, each))]
            for each in stores_under(root)}  # fmt: skip


def _check(settings: Settings, root: Path, progress: Progress) -> Any:
    from rmq.cli.store import check_one
    from rmq.cli.store_places import log_of, stores_under
    from rmq.offline.index_check import Shape

    shape = Shape(settings.maxHashSlotNum, settings.maxIndexNum)
    found = {}
    for each in stores_under(root):
        report = check_one(each, log_of(settings, root, each), None, True, shape, progress)
        shown = msgspec.structs.replace(report, problems=report.problems[:PROBLEMS_MAX])
        found[str(each)] = {"problem_count": len(report.problems), "report": shown}
    return found


def add_logs(bundle: Bundle, given: tuple[Path, ...], settings: list[dict[str, str]]) -> None:
    """Adds the ends of logs: of the files given, and of brokers' rmqLogFile, if this machine has
    the file."""
    named = {Path(text) for found in settings if (text := found.get("rmqLogFile", ""))}
    paths = [*given, *(each for each in sorted(named) if each.is_file() and each not in given)]
    for at, path in enumerate(paths):
        bundle.add(f"logs/{at}-{path.name}", f"the end of {path}", partial(_end, path),
                   is_end=True)  # fmt: skip


def _end(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - FILE_BYTES))
        if size > FILE_BYTES:
            file.readline()
        return file.read(FILE_BYTES).decode("utf-8", "replace")
