"""Signature Version 4 with botocore's signer and botocore's credentials chain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from gateway.client.errors import CredentialsError

DEFAULT_REGION = "us-east-1"

_UNSIGNED = Config(s3={"payload_signing_enabled": False})


class Signer:
    """Signs requests for one region; the secret never leaves botocore's object."""

    def __init__(self, credentials: Credentials, region: str) -> None:
        self._credentials = credentials
        self.region = region

    async def sign(
        self, method: str, url: str, headers: Mapping[str, str], payload: bytes | None
    ) -> dict[str, str]:
        """The headers to send: those given, all of them signed, and the signature's own.

        `url` is absolute and percent-encoded, exactly as it will stand on the wire. `payload` is
        hashed into the signature; None signs ``UNSIGNED-PAYLOAD``.

        Raises:
            CredentialsError: they could not be refreshed.
        """
        request = AWSRequest(method=method, url=url, headers=dict(headers), data=payload or b"")
        if payload is None:
            request.context["client_config"] = _UNSIGNED
        S3SigV4Auth(await self._frozen(), "s3", self.region).add_auth(request)
        return dict(request.headers.items())

    async def _frozen(self) -> object:
        try:
            if isinstance(self._credentials, RefreshableCredentials):
                # A refresh may ask an identity service over the network.
                return await asyncio.to_thread(self._credentials.get_frozen_credentials)
            return self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise CredentialsError(f"the credentials could not be refreshed: {error}") from error


def load_signer(credentials: Credentials | None, region: str | None, profile: str | None) -> Signer:
    """A signer from what the caller gave, else from botocore's chain. May block: files, network.

    Raises:
        CredentialsError: nothing in the chain, or an unreadable configuration.
    """
    try:
        session = Session(profile=profile)
        found = credentials or session.get_credentials()
        region = region or session.get_config_variable("region") or DEFAULT_REGION
    except BotoCoreError as error:
        raise CredentialsError(f"the AWS configuration can't be used: {error}") from error
    if found is None:
        raise CredentialsError(
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile "
            "of ~/.aws/credentials with --profile"
        )
    return Signer(found, region)
