"""A certificate authority of the test's own, and what it issued for a gateway."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Authority:
    """Writes PEM files into a directory, each in one step, as a good renewal does.

    Attributes:
        bundle: the authority's own certificate: what clients are told to trust.
        certificate: the gateway's, with its key.
    """

    directory: Path
    issuer: trustme.CA = field(default_factory=trustme.CA)

    @property
    def bundle(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def certificate(self) -> Path:
        return self.directory / "gateway.pem"

    def issue(self) -> None:
        """A new certificate for 127.0.0.1, in place of the last one."""
        self.issuer.cert_pem.write_to_path(str(self.bundle))
        issued = self.issuer.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
        fresh = self.certificate.with_suffix(".new")
        issued.write_to_path(str(fresh))
        os.replace(fresh, self.certificate)
