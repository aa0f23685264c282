"""`rmq generate systemd | compose | k8s | helm | grafana`: makes files with which these programs
run and watch servers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmq.cli.options import Parsed, together
from rmq.generate import checks

if TYPE_CHECKING:
    from rmq.generate.kubernetes import Cluster
    from rmq.generate.output import GeneratedFile

LABEL = Parsed("NAME", checks.label)
CLUSTER = Parsed("NAME", checks.name)
IMAGE = Parsed("IMAGE", checks.image)
BYTES = Parsed("SIZE", checks.memory)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@click.group()
def generate() -> None:
    """Generate files for systemd, containers, Kubernetes and Grafana.

    They are printed, one of them where its name is given, or written by --out.
    """


destination = together(
    click.argument("file", required=False),
    click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Write the files there instead of printing them."),
    click.option("--overwrite", is_flag=True, help="Also where DIR has others of these names."),
)  # fmt: skip
cluster_option = click.option(
    "--cluster", type=CLUSTER, default="DefaultCluster", show_default=True,
    help="Of brokers, as clients and mqadmin know it.",
)  # fmt: skip
insecure_option = click.option(
    "--insecure", is_flag=True,
    help="Make no accounts: whoever reaches the ports may do everything.",
)  # fmt: skip


def deliver(
    files: list[GeneratedFile], file: str | None, out: Path | None, overwrite: bool
) -> None:
    """Prints the files, or writes them to the directory `out`; `file`: the only one to print."""
    from rmq.generate.output import shown, write

    if out is None:
        if overwrite:
            raise click.UsageError("--overwrite: give --out, too")
        click.echo(shown(files, file), nl=False)
        return
    if file is not None:
        raise click.UsageError(f"--out writes all files: leave out {file}")
    written = write(files, out, overwrite=overwrite)
    click.echo(f"{out}: {', '.join(written) or 'all is there'}")


@generate.command()
@click.option("--prefix", type=Parsed("PATH", checks.path_for_units), default="/opt/rmq",
              show_default=True, help="The virtual environment that rmq is in.")  # fmt: skip
@click.option("--user", type=Parsed("NAME", checks.user), default="rmq", show_default=True,
              help="As whom servers run.")  # fmt: skip
@click.option("--config", type=Parsed("PATH", checks.path_for_units), default="/etc/rmq",
              show_default=True, help="The folder of settings.")  # fmt: skip
@destination
def systemd(prefix: str, user: str, config: str, **where: Any) -> None:
    """Make units of a broker, a name server and a controller, and settings.

    \b
    rmq generate systemd --out rmq-units
    rmq generate systemd rmq-broker.service >/etc/systemd/system/rmq-broker.service
    """
    from rmq.generate.systemd import systemd_files

    deliver(systemd_files(prefix, user, config), **where)


@generate.command()
@click.option("--address", type=Parsed("ADDRESS", checks.ipv4_address), default="127.0.0.1",
              show_default=True, help="Of this machine, by which clients reach the servers; on "
              "another than this, accounts are made.")  # fmt: skip
@click.option(
    "--image", type=IMAGE, help="The name of the image.  [default: localhost/rmq:VERSION]"
)
@click.option("--python", type=click.Choice([f"3.{minor}" for minor in range(10, 15)]),
              default=PYTHON, show_default=True,
              help="The version that the wheel is for.")  # fmt: skip
@cluster_option
@insecure_option
@destination
def compose(
    address: str, image: str | None, python: str, cluster: str, insecure: bool, **where: Any
) -> None:
    """Make containers of a broker with a name server, the console, Prometheus and Grafana.

    \b
    rmq generate compose --out rmq-compose
    rmq generate compose Containerfile
    """
    from rmq.generate.compose import compose_files, default_image

    made = compose_files(address, image or default_image(), python, cluster, insecure=insecure)
    deliver(made, **where)


cluster_options = together(
    click.option("--image", type=IMAGE, required=True,
                 help="With rmq in it, where the nodes find it: `rmq generate compose "
                      "Containerfile` makes one."),
    click.option("--name-servers", type=click.IntRange(1, 9), default=2, show_default=True),
    click.option("--brokers", type=click.IntRange(0, 1000), default=2, show_default=True,
                 help="Each of its own name, with a store of its own."),
    click.option("--storage", type=BYTES, default="20Gi", show_default=True,
                 help="Of each broker's volume."),
    click.option("--storage-class", type=LABEL, help="[default: that of Kubernetes]"),
    click.option("--memory", type=BYTES, default="2Gi", show_default=True,
                 help="Of each broker, its page cache included."),
    click.option("--cores", type=Parsed("CORES", checks.cores), default="1", show_default=True,
                 help="That each broker asks for."),
    click.option("--secret", type=LABEL,
                 help="The Secret with the first passwords.  [default: NAME-accounts]"),
    cluster_option,
    insecure_option,
)  # fmt: skip


def _cluster(image: str, options: dict[str, Any]) -> Cluster:
    from rmq.generate.kubernetes import Cluster

    return Cluster(image, **{key: value for key, value in options.items() if value is not None})


@generate.command()
@click.option("--name", type=LABEL, default="rmq", show_default=True,
              help="What names in Kubernetes begin with.")  # fmt: skip
@cluster_options
@destination
def k8s(image: str, file: str | None, out: Path | None, overwrite: bool, **options: Any) -> None:
    """Make manifests of name servers and brokers for Kubernetes.

    \b
    rmq generate k8s --image registry.example.org/rmq:0.1.0 --out rmq-k8s
    kubectl create -f rmq-k8s/accounts/secret.json
    kubectl apply -f rmq-k8s/rmq.yaml
    """
    from rmq.generate.kubernetes import kubernetes_files

    deliver(kubernetes_files(_cluster(image, options)), file, out, overwrite)


@generate.command()
@cluster_options
@destination
def helm(image: str, file: str | None, out: Path | None, overwrite: bool, **options: Any) -> None:
    """Make a Helm chart of the same as k8s; options are its values.

    \b
    rmq generate helm --image registry.example.org/rmq:0.1.0 --out rmq-chart
    helm install rmq rmq-chart --set broker.replicas=3
    """
    from rmq.generate.helm import helm_files

    deliver(helm_files(_cluster(image, options)), file, out, overwrite)


@generate.command()
@click.option("--job", type=CLUSTER, default="rmq", show_default=True,
              help="The name of the job by which Prometheus scrapes brokers.")  # fmt: skip
@destination
def grafana(job: str, **where: Any) -> None:
    """Make a dashboard for Grafana, and rules of alerts for Prometheus.

    \b
    rmq generate grafana rmq-dashboard.json
    rmq generate grafana rmq-alerts.yml --job brokers
    """
    from rmq.generate.alerts import alerts_file
    from rmq.generate.dashboard import dashboard_file
    from rmq.generate.output import GeneratedFile

    files = [
        GeneratedFile("rmq-dashboard.json", dashboard_file()),
        GeneratedFile("rmq-alerts.yml", alerts_file(job)),
    ]
    deliver(files, **where)
