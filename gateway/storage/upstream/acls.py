"""Access control lists both ways: an owner's name here and upstream differ, all else is the same.

An account or group that the service doesn't know, it refuses.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectAcl.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.storage.upstream.values import Parameters
from gateway.wire.grants import (
    Grant,
    Grants,
    Group,
    Permission,
    effective_grants,
    stored_grants,
)

_HEADERS = {
    Permission.FULL_CONTROL: "GrantFullControl",
    Permission.READ: "GrantRead",
    Permission.WRITE: "GrantWrite",
    Permission.READ_ACP: "GrantReadACP",
    Permission.WRITE_ACP: "GrantWriteACP",
}


@dataclass(frozen=True, slots=True)
class Owner:
    """One account by both of its names: `here` is the gateway's id of it, never ""."""

    here: str
    upstream: str

    def document(self, grants: Grants) -> Parameters:
        """A stored list as AccessControlPolicy."""
        given = [
            {"Grantee": self._grantee(grant), "Permission": grant.permission.value}
            for grant in effective_grants(grants, self.here)
        ]
        return {"Owner": {"ID": self.upstream}, "Grants": given}

    def headers(self, grants: Grants) -> Parameters:
        """A stored list as the grant parameters of a PUT; nothing for what is the default."""
        if not grants:
            return {}
        found: dict[str, list[str]] = {}
        for grant in effective_grants(grants, self.here):
            grantee = self._grantee(grant)
            named = f'uri="{grantee["URI"]}"' if "URI" in grantee else f'id="{grantee["ID"]}"'
            found.setdefault(_HEADERS[grant.permission], []).append(named)
        return {name: ", ".join(named) for name, named in found.items()}

    def read(self, reply: Mapping[str, Any]) -> Grants:
        """A reply's list, as it is stored. A grantee known by e-mail only is left out."""
        grants = [
            Grant(grantee, Permission(grant["Permission"]))
            for grant in reply.get("Grants", ())
            if (grantee := self._read_grantee(grant["Grantee"])) is not None
        ]
        return stored_grants(tuple(grants), self.here)

    def _grantee(self, grant: Grant) -> dict[str, str]:
        if isinstance(grant.grantee, Group):
            return {"Type": "Group", "URI": grant.grantee.value}
        name = self.upstream if grant.grantee in ("", self.here) else grant.grantee
        return {"Type": "CanonicalUser", "ID": name}

    def _read_grantee(self, grantee: Mapping[str, str]) -> str | Group | None:
        if "URI" in grantee:
            return Group(grantee["URI"])
        name = grantee.get("ID")
        return self.here if name == self.upstream else name
