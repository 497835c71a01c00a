"""The upstream driver, named in the settings: its extra is needed by nobody else."""

import sys
from dataclasses import replace

import pytest

from gateway.app.errors import StartError
from gateway.app.storages import open_storage
from gateway.config import Config, StorageConfig, UpstreamConfig
from gateway.storage.upstream.storage import UpstreamStorage

CONFIG = replace(
    Config(),
    storage=StorageConfig(driver="upstream"),
    upstream=UpstreamConfig(endpoint="http://ceph:80"),
)


def test_open_storage__upstream__says_where_it_is() -> None:
    storage, state = open_storage(CONFIG)
    assert isinstance(storage, UpstreamStorage)
    assert state == "upstream http://ceph:80"


def test_open_storage__extra_is_not_installed__says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("gateway.storage.upstream")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    for name in [name for name in sys.modules if name.startswith("aiobotocore.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StartError, match=r"\[upstream\]"):
        open_storage(CONFIG)
