"""Access control lists between two names of one owner."""

import pytest

from gateway.storage.upstream.acls import Owner
from gateway.wire.grants import NO_GRANTS, Grant, Group, Permission

OWNER = Owner("a" * 64, "upstream-id")
LISTS = [
    (),
    NO_GRANTS,
    (
        Grant(Group.ALL_USERS, Permission.READ),
        Grant("a" * 64, Permission.FULL_CONTROL),
        Grant("b" * 64, Permission.WRITE_ACP),
    ),
]


@pytest.mark.parametrize("grants", LISTS)
def test_document__any_list__read_back_the_same(grants: tuple[Grant, ...]) -> None:
    assert OWNER.read(OWNER.document(grants)) == grants


def test_document__owner__goes_by_the_upstream_s_name() -> None:
    document = OWNER.document(LISTS[2])
    assert document["Owner"] == {"ID": "upstream-id"}
    named = [grant["Grantee"].get("ID") for grant in document["Grants"]]
    assert named == [None, "upstream-id", "b" * 64]


def test_headers__of_a_list__one_for_each_permission() -> None:
    assert OWNER.headers(()) == {}
    assert OWNER.headers(LISTS[2]) == {
        "GrantRead": f'uri="{Group.ALL_USERS.value}"',
        "GrantFullControl": 'id="upstream-id"',
        "GrantWriteACP": f'id="{"b" * 64}"',
    }
