"""systemd: units of a broker, a name server, a controller and the console, and settings files.

The store is below /var/lib/rmq, which systemd makes and gives to the service's user.
"""

from __future__ import annotations

from rmq.generate.output import GeneratedFile
from rmq.generate.server_settings import ServerSettings
from rmq.generate.template import filled

UNITS = ("rmq-broker.service", "rmq-namesrv.service", "rmq-controller.service",
         "rmq-console.service")  # fmt: skip


def systemd_files(prefix: str, user: str, config: str) -> list[GeneratedFile]:
    """prefix: where rmq is installed; config: the folder with the settings."""
    values = {"prefix": prefix, "user": user, "config": config}
    settings = ServerSettings(config=config)
    return [
        *(GeneratedFile(name, filled(f"systemd/{name}", values)) for name in UNITS),
        GeneratedFile("broker.conf", settings.broker_conf()),
        GeneratedFile("namesrv.conf", settings.namesrv_conf()),
        GeneratedFile("controller.conf", settings.controller_conf()),
        GeneratedFile("console.conf", settings.console_conf(user)),
    ]
