"""32 clients on 50 keys of a real gateway: no torn read, no lost update, no 5xx.

`make linearizability` runs a hundred thousand operations; here it is a bounded number of them.
"""

from pathlib import Path

from gateway_process import gateway_process
from mixed_load import WEIGHTS, mixed_load

OPERATIONS = 4_000


async def test_mixed_operations__32_clients_on_50_keys__every_history_can_be_explained(
    tmp_path: Path,
) -> None:
    with gateway_process(tmp_path, "--rdma-fabric", "off") as process:
        outcome = await mixed_load(process, operations=OPERATIONS)
    assert outcome.operations == OPERATIONS
    assert outcome.wrong == []
    assert outcome.broken_keys() == []
    assert len(outcome.histories) == 50
    noted = sum(map(len, outcome.histories.values()))
    assert noted > OPERATIONS * (1 + WEIGHTS["copy"] / 200)  # a copy is noted at both keys
