from __future__ import annotations

import pytest

from gateway.auth.policy import authorise
from gateway.auth.principal import Principal
from gateway.errors import ClientError, S3Code


@pytest.mark.parametrize(("bucket", "key"), [(None, None), ("b", None), ("b", "k")])
def test_authorise__anonymous__is_denied(bucket: str | None, key: str | None) -> None:
    with pytest.raises(ClientError) as caught:
        authorise(Principal(None), "s3:GetObject", bucket, key)

    assert caught.value.code is S3Code.ACCESS_DENIED
    assert "s3:GetObject" in caught.value.message


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:DeleteBucket"])
def test_authorise__configured_key__may_do_everything(action: str) -> None:
    authorise(Principal("AKID"), action, "b", "k")
