"""`rmq completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rmq.cli.main import cli

HOW = {
    "bash": 'eval "$(rmq completion bash)"       in ~/.bashrc',
    "zsh": 'eval "$(rmq completion zsh)"        in ~/.zshrc, after compinit',
    "fish": "rmq completion fish >~/.config/fish/completions/rmq.fish",
}


@click.command(epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(list(HOW)))
def completion(shell: str) -> None:
    """Print the script that completes commands in your shell."""
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "rmq", "_RMQ_COMPLETE").source())
