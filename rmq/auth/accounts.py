"""Accounts: users and their ACLs by name, and the rules by which they change.

    createUser alice     29 blank name, 1 a Super user made by a user who is none, 16 it exists
    updateUser alice     members that are not given stay as they are
    deleteUser alice     deletes its ACL, too; 0 also when there is no such user
    createAcl User:alice            adds entries, or replaces those of the same resource
    updateAcl User:alice            the same
    deleteAcl User:alice Topic:t    without a resource deletes the whole ACL

Each change gives a new version. This is the table in memory; account_file.py is the file. Owned by
one thread. `fixed` has further accounts, which these requests do not change; a name that is in both
is not fixed.

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
        """The user's ACL, empty if there is none."""
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
        """Refuses to lose the last enabled Super user, because nobody could make another one."""
        if user is None or not (user.is_super and user.is_enabled):
            return
        if self.some_super(others_than=user) is None:
            raise _not_allowed(f"{user.name} is the last Super user that is enabled")

    def _refuse_fixed(self, name: str) -> None:
        if self.is_fixed(name):
            raise _not_allowed(f"{name} is an account of plain_acl.yml: change it in that file")

    def users(self, part: str = "") -> list[User]:
        """The users whose names contain the text, ordered by name."""
        all_users = self._fixed.users | self._users
        return [all_users[name] for name in sorted(all_users) if part in name]

    # ---- ACLs

    def put_acl(self, subject: str, policies: Any, by: User | None = None) -> None:
        """Adds policies, as RocketMQ's createAcl and updateAcl both do. A user who is not Super may
        not change its own."""
        name = self._name_of(subject)
        _refuse_own(name, by)
        if _entry_count(policies) > ENTRIES_MAX:  # checked before reading them, which costs more
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
        """(User:name, ACL), ordered by name, of ACLs that have the one text in their subject and
        the other in one of their resources."""
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
        """The name in a subject; Refusal if there is no such user."""
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
        """Becomes equal to the other, except for fixed accounts. It copies only the two tables,
        because the objects in them never change."""
        self.fill(*other.tables())

    def tables(self) -> tuple[Mapping[str, User], Mapping[str, Acl]]:
        """(users, ACLs) by name, as they are now, without fixed ones."""
        return dict(self._users), dict(self._acls)

    def fill(self, users: Mapping[str, User], acls: Mapping[str, Acl]) -> None:
        """Replaces all users and ACLs by those that tables() has returned."""
        self._users, self._acls = dict(users), dict(acls)
        self.version += 1

    def ensure_super(self, name: str, password: str) -> None:
        """Makes a Super user unless there is a user of this name. ProtocolError: name or password
        is invalid."""
        if self.user(name) is None:
            members = {"password": password, "userType": UserType.SUPER.value}
            self._users[name] = User.of(name, members)
            self.version += 1

    def some_super(self, others_than: User | None = None) -> User | None:
        """The first enabled Super user by name."""
        found = (
            user
            for user in (self._fixed.users | self._users).values()
            if user.is_super and user.is_enabled and user is not others_than
        )
        return min(found, key=lambda user: user.name, default=None)


def subject_name(subject: str) -> str:
    """The name, alice, of a subject User:alice; Refusal for another kind of subject."""
    if not subject.startswith(SUBJECT_PREFIX) or not subject.removeprefix(SUBJECT_PREFIX).strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The subject is blank")
    return subject.removeprefix(SUBJECT_PREFIX)


def _refuse_own(name: str, by: User | None) -> None:
    if by is not None and not by.is_super and by.name == name:
        raise _not_allowed(f"{name} cannot change what {name} may do: ask a Super user")


def _entry_count(policies: Any) -> int:
    """The number of entries in a request's policies; 0 for what is no policy."""
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
