"""`rmq check`: is this machine set up for a broker? Shows how it is, what is advised, and the
command that changes it. The checks that monitoring calls are in check_plugins.py."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rmq.cli.check_plugins import brokers, group, machine
from rmq.cli.main import enter_context
from rmq.cli.options import parse_pairs
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns


@click.group(invoke_without_command=True)
@click.pass_context
@click.option("--store", type=click.Path(file_okay=False, path_type=Path),
              help="Directory of a store, or for one.  [default: storePathRootDir]")  # fmt: skip
@click.option("-c", "config", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              metavar="FILE", help="Property file of the broker.")  # fmt: skip
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Override one setting.")
@click.option("--strict", is_flag=True, help="Exit with code 1 if anything is not as advised.")
@click.option("--sysctl", is_flag=True, help="Print only the lines for a file in /etc/sysctl.d.")
@output_option
def check(
    context: click.Context,
    store: Path | None,
    config: Path | None,
    pairs: tuple[str, ...],
    strict: bool,
    sysctl: bool,
    output: Output,
) -> None:
    """Check this machine, or brokers and groups for monitoring.

    Compares kernel settings and limits of this machine with those advised for a broker, and changes
    nothing. What differs is shown with the reason and the command that changes it.

    The commands below are plugins for monitoring systems such as Nagios. They print one line and
    exit with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN).
    """
    if context.invoked_subcommand is not None:
        if context.invoked_subcommand != "machine":
            enter_context(context)
        return
    from rmq.config import load_properties
    from rmq.system.checks import check as look
    from rmq.system.kernel_files import KernelFiles

    settings = load_properties(config, parse_pairs(pairs, "--set"))
    root = store if store is not None else Path(settings.storePathRootDir).expanduser()
    findings = look(KernelFiles(), root, settings)
    wrong = [finding for finding in findings if finding.good is False]
    if output.is_data:
        output.value(findings)
    elif sysctl:
        for finding in wrong:
            if finding.sysctl:
                click.echo(finding.sysctl)
    else:
        verdicts = {True: "ok", False: "change", None: "unknown"}
        output.rows(
            columns("WHAT", "NOW", "ADVISED", "VERDICT"),
            [(each.name, each.now, each.advised, verdicts[each.good]) for each in findings],
        )
        for finding in wrong:
            click.echo(f"\n{finding.name}: {finding.why}")
            if finding.command:
                click.echo(f"  {finding.command}")
        click.echo(f"\n{len(findings) - len(wrong)} of {len(findings)} need no change.")
    if strict and wrong:
        sys.exit(1)


for command in (machine, brokers, group):
    check.add_command(command)
