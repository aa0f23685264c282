"""Kubernetes manifests: valid by the schemas, and right in what the schemas do not check.

Goal: `kubectl apply` accepts them, and every reference in them finds what it refers to. Method:
each document is checked by the schemas of the oldest and the newest version at hand, and unknown
fields are refused. Not shown here: that a cluster has room. The chart:
tests/compat/test_generated.py, by Helm itself.
"""

from typing import Any

import pytest
from support.command_line import rmq

from rmq.generate.helm import schema

kubernetes_validate = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")

OLDEST = "1.27"  # the first with policy/v1, and with probes by a port's name
WAYS = {
    "default": (),
    "insecure": ("--insecure",),
    "all": ("--name", "orders", "--name-servers", "3", "--brokers", "5", "--storage", "100Gi",
            "--storage-class", "fast", "--memory", "512Mi", "--cores", "500m", "--secret", "mine",
            "--cluster", "Other_1"),
}  # fmt: skip


def documents(*options: str) -> list[dict[str, Any]]:
    done = rmq("generate", "k8s", "--image", "registry.example.org/rmq:0.1.0", *options)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def by_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in found if each["kind"] == kind]


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("way", WAYS)
def test_kubernetes_knows_every_field(way: str, version: str) -> None:
    found = documents(*WAYS[way])
    assert [each["kind"] for each in found] == [
        "ConfigMap", *["Service", "StatefulSet", "PodDisruptionBudget"] * 2, "Deployment",
    ]  # fmt: skip
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)


def test_a_field_that_does_not_exist_is_found() -> None:
    spoilt = by_kind(documents(), "StatefulSet")[0]
    spoilt["spec"]["replicaz"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(spoilt, OLDEST, strict=True)


@pytest.mark.parametrize("way", WAYS)
def test_what_refers_to_something_finds_it(way: str) -> None:
    found = documents(*WAYS[way])
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    for each in by_kind(found, "StatefulSet"):
        spec = each["spec"]
        assert ("Service", spec["serviceName"]) in names
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        claimed = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes | claimed
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            (action,) = container[probe].keys() & {"httpGet", "tcpSocket"}
            assert container[probe][action]["port"] in ports
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
        for service in by_kind(found, "Service"):
            if service["spec"]["selector"] == labels:
                offered = {port["targetPort"] for port in service["spec"]["ports"]}
                assert offered <= set(ports)
                break
        else:
            raise AssertionError(f"no service selects {labels}")
        budgets = by_kind(found, "PodDisruptionBudget")
        assert any(each["spec"]["selector"]["matchLabels"] == labels for each in budgets)


@pytest.mark.parametrize("way", WAYS)
def test_brokers_know_every_name_server_by_its_own_name(way: str) -> None:
    found = documents(*WAYS[way])
    (configuration,) = by_kind(found, "ConfigMap")
    line = next(line for line in configuration["data"]["broker.conf"].splitlines()
                if line.startswith("namesrvAddr="))  # fmt: skip
    server = next(each for each in by_kind(found, "StatefulSet")
                  if each["metadata"]["name"].endswith("-namesrv"))  # fmt: skip
    name = server["metadata"]["name"]
    pods = [f"{name}-{at}.{server['spec']['serviceName']}:9876"
            for at in range(server["spec"]["replicas"])]  # fmt: skip
    assert line == f"namesrvAddr={';'.join(pods)}"


@pytest.mark.parametrize("way", WAYS)
def test_the_console_asks_those_name_servers_and_nothing_leads_to_it(way: str) -> None:
    """Passwords would go to it in the clear: it stays in its pod, and port-forward leads there."""
    found = documents(*WAYS[way])
    (console,) = by_kind(found, "Deployment")
    spec = console["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels and spec["replicas"] == 1
    for service in by_kind(found, "Service"):
        assert not service["spec"]["selector"].items() <= labels.items()
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    (configuration,) = by_kind(found, "ConfigMap")
    assert container["args"][:2] == ["console", "-n"] and "env" not in container
    (addresses,) = container["args"][2:]
    assert f"namesrvAddr={addresses}" in configuration["data"]["broker.conf"].splitlines()
    server = by_kind(found, "StatefulSet")[0]["spec"]["template"]["spec"]
    assert container["securityContext"] == server["containers"][0]["securityContext"]
    of_the_pod = {key: server["securityContext"][key] for key in pod["securityContext"]}
    assert pod["securityContext"] == of_the_pod
    assert container["image"] == server["containers"][0]["image"]


def test_pods_start_anew_when_settings_change_and_not_otherwise() -> None:
    def sums(*options: str) -> set[str]:
        return {each["spec"]["template"]["metadata"]["annotations"]["rmq/settings"]
                for each in by_kind(documents(*options), "StatefulSet")}  # fmt: skip

    assert len(sums()) == 1
    assert sums() == sums("--brokers", "7") != sums("--cluster", "Other")


@pytest.mark.parametrize("way", WAYS)
def test_pods_ask_to_be_scraped_where_no_password_is_wanted(way: str) -> None:
    """Pods must ask to be scraped only if no password is needed: a scraper that goes by annotations
    has none, and would get 401."""
    found = documents(*WAYS[way])
    (configuration,) = by_kind(found, "ConfigMap")
    asks = any(
        name.startswith("prometheus.io/")
        for each in by_kind(found, "StatefulSet")
        for name in each["spec"]["template"]["metadata"]["annotations"]
    )
    wanted = "rmqMetricsCredentials=" in configuration["data"]["broker.conf"]
    assert (asks, wanted) == ((True, False) if way == "insecure" else (False, True))


def test_the_charts_schema_has_the_values_of_the_chart() -> None:
    done = rmq("generate", "helm", "values.yaml", "--image", "rmq:1")
    values = yaml.safe_load(done.stdout)
    described = schema()
    assert values.keys() == set(described["required"])
    assert values["broker"].keys() == set(described["properties"]["broker"]["required"])
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(values, described)
    for broken in ({"image": "a b"}, {"nameServers": 0}, {"unknown": 1}, {"insecure": "no"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values, **broken}, described)
