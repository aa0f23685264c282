"""Accounts: users and their ACLs by name, and the rules by which they change.

    createUser alice     29 blank name, 1 a Super user by somebody who is none, 16 it is there
    updateUser alice     what is not said stays
    deleteUser alice     its ACL goes with it; 0 also when there is none
    createAcl User:alice            entries are added, or take the place of those of their resource
    updateAcl User:alice            the same
    deleteAcl User:alice Topic:t    without a resource all of it

Each change gives a new version. What is here is in memory; account_file.py is the file. Owned by
one thread. `fixed` are those that are there besides, which none of these changes; where both have
a name, it is not fixed.

Example: accounts.create_user({"username": "alice", "password": "secret"}, by_super=True).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.policy import Acl, policy_type
from rmq.auth.resource import Resource
from rmq.auth.user import User, UserType
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError
from rmq.refusal import Refusal

SUBJECT_PREFIX = "User:"
USERS_MAX = 100_000
ENTRIES_MAX = 10_000  # of one user


class Accounts:
    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}  # by the user's name
        self._fixed = FixedAccounts()
        self.version = 0

    @property
    def fixed(self) -> FixedAccounts:
        return self._fixed

    @fixed.setter
    def fixed(self, fixed: FixedAccounts) -> None:
        if fixed is not self._fixed:
            self._fixed = fixed
            self.version += 1

    def is_fixed(self, name: str) -> bool:
        return name in self._fixed.users and name not in self._users

    def user(self, name: str) -> User | None:
        return self._users.get(name) or self._fixed.users.get(name)

    def acl(self, name: str) -> Acl:
        """Empty where there is none."""
        acls = self._fixed.acls if self.is_fixed(name) else self._acls
        return acls.get(name, Acl())

    # ---- users

    def create_user(self, name: str, members: Mapping[Any, Any], by_super: bool) -> None:
        user = _user_of(name, members)
        if user.is_super and not by_super:
            raise _refused_by_type("The super user can only be create by super user")
        if self.user(name) is not None:
            raise _not_allowed("The user is existed")
        if len(self._users) >= USERS_MAX:
            raise _not_allowed(f"there are {USERS_MAX} users already")
        self._users[name] = user
        self.version += 1

    def update_user(self, name: str, members: Mapping[Any, Any], by_super: bool) -> None:
        self._refuse_fixed(name)
        before = self._users.get(name)
        if before is None and name.strip():
            raise _not_allowed("The user is not exist")
        user = _user_of(name, members, before)
        if not by_super and (user.is_super or (before is not None and before.is_super)):
            raise _refused_by_type("The super user can only be update by super user")
        if user != before:
            if not (user.is_super and user.is_enabled):
                self._refuse_last(before)
            self._users[name] = user
            self.version += 1

    def delete_user(self, name: str, by_super: bool) -> None:
        self._refuse_fixed(name)
        before = self._users.get(name)
        if before is not None and before.is_super and not by_super:
            raise _refused_by_type("The super user can only be delete by super user")
        self._refuse_last(before)
        if (self._users.pop(name, None) is not None) | (self._acls.pop(name, None) is not None):
            self.version += 1

    def _refuse_last(self, user: User | None) -> None:
        """Of Super users one has to be left that is enabled: who else would make one?"""
        if user is None or not (user.is_super and user.is_enabled):
            return
        if self.some_super(others_than=user) is None:
            raise _not_allowed(f"{user.name} is the last Super user that is enabled")

    def _refuse_fixed(self, name: str) -> None:
        if self.is_fixed(name):
            raise _not_allowed(f"{name} is an account of plain_acl.yml: change it in that file")

    def users(self, part: str = "") -> list[User]:
        """Those whose names hold the text, by name."""
        all_users = self._fixed.users | self._users
        return [all_users[name] for name in sorted(all_users) if part in name]

    # ---- ACLs

    def put_acl(self, subject: str, policies: Any, by: User | None = None) -> None:
        """Adds policies, as RocketMQ's createAcl and updateAcl both do. Who is not Super changes
        others' alone."""
        name = self._name_of(subject)
        _refuse_own(name, by)
        if _entry_count(policies) > ENTRIES_MAX:  # before they are read, which costs more
            raise _too_many_entries(subject)
        try:
            added = Acl.of(policies)
        except ProtocolError as error:
            raise _not_allowed(str(error)) from None
        acl = self.acl(name)
        for kind, entries in added.policies.items():
            acl = acl.merged(kind, entries)
        if sum(map(len, acl.policies.values())) > ENTRIES_MAX:
            raise _too_many_entries(subject)
        self._acls[name] = acl
        self.version += 1

    def delete_acl(
        self, subject: str, kind: str | None, resource: str | None, by: User | None = None
    ) -> None:
        name = self._name_of(subject)
        _refuse_own(name, by)
        before = self._acls.get(name)
        if before is None:
            raise _not_allowed("The acl is not exist.")
        if not resource:
            del self._acls[name]
        else:
            found = Resource.of(resource)
            if found is None:
                raise _not_allowed("The resource is null.")
            left = before.without(policy_type(kind), found)
            if left.is_empty:
                del self._acls[name]
            else:
                self._acls[name] = left
        self.version += 1

    def acls(self, subject_part: str = "", resource_part: str = "") -> list[tuple[str, Acl]]:
        """(User:name, ACL) by name, of those that hold the texts in their subject and in one of
        their resources."""
        fixed = {name: acl for name, acl in self._fixed.acls.items() if self.is_fixed(name)}
        return [
            (SUBJECT_PREFIX + name, acl)
            for name, acl in sorted((fixed | self._acls).items())
            if subject_part in SUBJECT_PREFIX + name
            and any(
                resource_part in str(entry.resource)
                for entries in acl.policies.values()
                for entry in entries
            )
        ]

    def _name_of(self, subject: str) -> str:
        """Of a user that is there."""
        name = subject_name(subject)
        self._refuse_fixed(name)
        if name not in self._users:
            raise _not_allowed(f"The subject of {subject[:300]} is not exist.")
        return name

    # ---- as a whole

    def copy(self) -> Accounts:
        other = Accounts()
        other.take(self)
        other.fixed = self.fixed
        return other

    def take(self, other: Accounts) -> None:
        """Becomes what the other is, but for what is fixed; it costs two tables, for what is in
        them never changes."""
        self.fill(*other.tables())

    def tables(self) -> tuple[Mapping[str, User], Mapping[str, Acl]]:
        """Users and ACLs by name, without what is fixed: as they are now."""
        return dict(self._users), dict(self._acls)

    def fill(self, users: Mapping[str, User], acls: Mapping[str, Acl]) -> None:
        """Becomes what tables() gives."""
        self._users, self._acls = dict(users), dict(acls)
        self.version += 1

    def ensure_super(self, name: str, password: str) -> None:
        """Makes a Super user of the name unless there is a user of it. ProtocolError: it cannot be
        one."""
        if self.user(name) is None:
            members = {"password": password, "userType": UserType.SUPER.value}
            self._users[name] = User.of(name, members)
            self.version += 1

    def some_super(self, others_than: User | None = None) -> User | None:
        """The first by name that is enabled."""
        found = (
            user
            for user in (self._fixed.users | self._users).values()
            if user.is_super and user.is_enabled and user is not others_than
        )
        return min(found, key=lambda user: user.name, default=None)


def subject_name(subject: str) -> str:
    """alice of User:alice; Refusal for another kind of subject."""
    if not subject.startswith(SUBJECT_PREFIX) or not subject.removeprefix(SUBJECT_PREFIX).strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The subject is blank")
    return subject.removeprefix(SUBJECT_PREFIX)


def _refuse_own(name: str, by: User | None) -> None:
    if by is not None and not by.is_super and by.name == name:
        raise _not_allowed(f"{name} cannot change what {name} may do: ask a Super user")


def _entry_count(policies: Any) -> int:
    """Of what is to become an ACL; what is none has none."""
    each = policies if isinstance(policies, list) else []
    entries = [one.get("entries") for one in each if isinstance(one, Mapping)]
    return sum(len(one) for one in entries if isinstance(one, list))


def _too_many_entries(subject: str) -> Refusal:
    return _not_allowed(f"{subject[:300]} would have more than {ENTRIES_MAX} policy entries")


def _user_of(name: str, members: Mapping[Any, Any], before: User | None = None) -> User:
    if not name.strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank")
    try:
        return User.of(name, members, before)
    except ProtocolError as error:
        raise _not_allowed(str(error)) from None


def _not_allowed(text: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, text)


def _refused_by_type(text: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, text)
