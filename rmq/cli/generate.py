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

    The files are printed, or written to a directory by --out. With FILE, only the file of this name
    is printed.
    """


destination = together(
    click.argument("file", required=False),
    click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Write the files to this directory instead of printing them."),
    click.option("--overwrite", is_flag=True, help="Replace files in DIR that differ."),
)  # fmt: skip
cluster_option = click.option(
    "--cluster", type=CLUSTER, default="DefaultCluster", show_default=True,
    help="Cluster name of the brokers, for clients and mqadmin.",
)  # fmt: skip
insecure_option = click.option(
    "--insecure", is_flag=True,
    help="Create no accounts: whoever reaches the ports may do everything.",
)  # fmt: skip


def deliver(
    files: list[GeneratedFile], file: str | None, out: Path | None, overwrite: bool
) -> None:
    """Prints the files, or writes them to the directory `out`; `file`: the only one to print."""
    from rmq.generate.output import shown, write

    if out is None:
        if overwrite:
            raise click.UsageError("--overwrite needs --out")
        click.echo(shown(files, file), nl=False)
        return
    if file is not None:
        raise click.UsageError(f"--out writes all files: do not name {file}")
    written = write(files, out, overwrite=overwrite)
    click.echo(f"{out}: {', '.join(written) or 'all files are there already'}")


@generate.command()
@click.option("--prefix", type=Parsed("PATH", checks.path_for_units), default="/opt/rmq",
              show_default=True, help="Virtual environment that rmq is installed in.")  # fmt: skip
@click.option("--user", type=Parsed("NAME", checks.user), default="rmq", show_default=True,
              help="User that runs the servers.")  # fmt: skip
@click.option("--config", type=Parsed("PATH", checks.path_for_units), default="/etc/rmq",
              show_default=True, help="Directory of the settings files.")  # fmt: skip
@destination
def systemd(prefix: str, user: str, config: str, **where: Any) -> None:
    """Generate units for a broker, a name server, a controller and the console, and their settings.

    \b
    rmq generate systemd --out rmq-units
    rmq generate systemd rmq-broker.service >/etc/systemd/system/rmq-broker.service
    """
    from rmq.generate.systemd import systemd_files

    deliver(systemd_files(prefix, user, config), **where)


@generate.command()
@click.option("--address", type=Parsed("ADDRESS", checks.ipv4_address), default="127.0.0.1",
              show_default=True, help="Address of this machine, at which clients reach the "
              "servers. Beyond loopback, accounts are created.")  # fmt: skip
@click.option("--image", type=IMAGE, help="Name of the image.  [default: localhost/rmq:VERSION]")
@click.option("--python", type=click.Choice([f"3.{minor}" for minor in range(10, 15)]),
              default=PYTHON, show_default=True,
              help="Python version that the wheel is for.")  # fmt: skip
@cluster_option
@insecure_option
@destination
def compose(
    address: str, image: str | None, python: str, cluster: str, insecure: bool, **where: Any
) -> None:
    """Generate containers for a broker, a name server, the console, Prometheus and Grafana.

    \b
    rmq generate compose --out rmq-compose
    rmq generate compose Containerfile
    """
    from rmq.generate.compose import compose_files, default_image

    made = compose_files(address, image or default_image(), python, cluster, insecure=insecure)
    deliver(made, **where)


cluster_options = together(
    click.option("--image", type=IMAGE, required=True,
                 help="Image with rmq, which the nodes can pull. `rmq generate compose "
                      "Containerfile` prints how to build it."),
    click.option("--name-servers", type=click.IntRange(1, 9), default=2, show_default=True,
                 help="Number of name servers."),
    click.option("--brokers", type=click.IntRange(0, 1000), default=2, show_default=True,
                 help="Number of brokers, each with its own name and store."),
    click.option("--storage", type=BYTES, default="20Gi", show_default=True,
                 help="Size of each broker's volume."),
    click.option("--storage-class", type=LABEL,
                 help="Storage class of the volumes.  [default: that of Kubernetes]"),
    click.option("--memory", type=BYTES, default="2Gi", show_default=True,
                 help="Memory of each broker, page cache included."),
    click.option("--cores", type=Parsed("CORES", checks.cores), default="1", show_default=True,
                 help="CPU cores that each broker requests."),
    click.option("--secret", type=LABEL,
                 help="Secret with the initial passwords.  [default: NAME-accounts]"),
    cluster_option,
    insecure_option,
)  # fmt: skip


def _cluster(image: str, options: dict[str, Any]) -> Cluster:
    from rmq.generate.kubernetes import Cluster

    return Cluster(image, **{key: value for key, value in options.items() if value is not None})


@generate.command()
@click.option("--name", type=LABEL, default="rmq", show_default=True,
              help="Beginning of all names in Kubernetes.")  # fmt: skip
@cluster_options
@destination
def k8s(image: str, file: str | None, out: Path | None, overwrite: bool, **options: Any) -> None:
    """Generate Kubernetes manifests for name servers, brokers and the console.

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
    """Generate a Helm chart like the manifests of k8s. The options become its values.

    \b
    rmq generate helm --image registry.example.org/rmq:0.1.0 --out rmq-chart
    helm install rmq rmq-chart --set broker.replicas=3
    """
    from rmq.generate.helm import helm_files

    deliver(helm_files(_cluster(image, options)), file, out, overwrite)


@generate.command()
@click.option("--job", type=CLUSTER, default="rmq", show_default=True,
              help="Name of the Prometheus job that scrapes the brokers.")  # fmt: skip
@destination
def grafana(job: str, **where: Any) -> None:
    """Generate a Grafana dashboard and alert rules for Prometheus.

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
