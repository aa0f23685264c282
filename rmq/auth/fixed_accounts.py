"""Fixed accounts: accounts that come from files (plain_acl.py) and that no request changes.

Besides users and what they may do, they have addresses, as in ACL 1.0:

    white       requests from there may do everything, without an account
    unsigned    requests from there that give this name may do everything, without a signature

Example: FixedAccounts(white=[WhiteList.of("10.0.0.*")]).lets_in(address("10.0.0.7")) is true.
"""

from __future__ import annotations

import msgspec

from rmq.auth.policy import Acl
from rmq.auth.user import User
from rmq.auth.white_list import WhiteList
from rmq.base.networks import Address


class FixedAccounts(msgspec.Struct):
    users: dict[str, User] = {}
    acls: dict[str, Acl] = {}  # by the user's name
    white: list[WhiteList] = []
    unsigned: dict[str, WhiteList] = {}  # by the user's name

    def lets_in(self, source: Address | None) -> bool:
        return any(each.covers(source) for each in self.white)

    def trusts(self, name: str, source: Address | None) -> bool:
        """Whether the user's name is enough for requests from this address."""
        return name in self.unsigned and self.unsigned[name].covers(source)
