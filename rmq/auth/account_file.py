"""Account file: users and their ACLs on the disk, readable by the broker's own user only.

    config/rmqAccounts.json    {"users":{"alice":{"username":"alice","password":..}},
                                "acls":{"alice":[{"policyType":"Custom","entries":[..]}]}}

A change is written whole, and is on the disk when save() returns (rmq/base/json_file.py). A file
that is damaged, with its copy, refuses the start: who may do what is not guessed. RocketMQ keeps
the same in RocksDB; mqadmin's copyUser and copyAcl carry it over.
"""

from pathlib import Path

from rmq.auth.accounts import Accounts
from rmq.base.json_file import JsonFile
from rmq.errors import ConfigError, ProtocolError

MODE = 0o600


class AccountFile:
    def __init__(self, config_directory: Path) -> None:
        self._file = JsonFile(
            config_directory / "rmqAccounts.json",
            tables=("users", "acls"),
            advice="Put a copy in its place (of another broker of the cluster, too), or remove it "
            "and its .bak and make the users anew (initAuthenticationUser).",
            mode=MODE,
        )

    def load(self, accounts: Accounts) -> None:
        """ConfigError for a file that others may read, or that holds what is no account."""
        for path in (self._file.path, self._file.backup_path):
            if path.exists() and path.stat().st_mode & 0o077:
                raise ConfigError(
                    f"{path} holds passwords, and others than its owner may read it: "
                    f"chmod 600 {path}"
                )
        content = self._file.load()
        if content is None:
            return
        try:
            accounts.load(content)
        except ProtocolError as error:
            raise ConfigError(f"{self._file.path}: {error}") from None

    def save(self, accounts: Accounts) -> None:
        self._file.save(accounts.content())
