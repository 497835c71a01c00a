"""One change at a time, stopped or failed at each of its calls: old or new, and never else.

The calls are counted, and the process killed or the call failed, by a shim under libc
(tests/support/fault_shim.c); tests/support/crash_rig.py makes the attempts, and
tests/support/power_cut.py says what a disk may hold after each.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crash_rig
import pytest
from crash_driver import keeps_attributes

Rig = Callable[..., Any]

MEMORY = Path("/dev/shm")  # what is synced there costs nothing
SHIM = Path(crash_rig.__file__).with_name("fault_shim.c")
REFUSED = "refused"
ACKNOWLEDGED = "acknowledged"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Ask with a job's fields; the answer is crash_rig's."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SHIM, "-ldl"],
        check=True,
    )
    environment = os.environ | {
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ASAN_OPTIONS": "",
    }
    home = tempfile.mkdtemp(dir=MEMORY if keeps_attributes(MEMORY) else None)
    with subprocess.Popen(
        [sys.executable, crash_rig.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:

        def ask(**job: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            directory = tempfile.mkdtemp(dir=home)
            process.stdin.write(json.dumps(job | {"directory": directory}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            shutil.rmtree(directory)
            return answer

        yield ask
        assert process.stdin is not None
        process.stdin.close()
    shutil.rmtree(home)


STOPPED = [("store", change) for change in crash_rig.CHANGES_BY_NAME]
STOPPED += [("tree", change) for change in crash_rig.OF_THE_TREE]


@pytest.mark.parametrize(("driver", "change"), STOPPED)
def test_change__killed_or_without_power_at_any_call__old_or_new_and_nothing_left(
    rig: Rig, driver: str, change: str
) -> None:
    answer = rig(do="stop", driver=driver, change=change)
    before, after = answer["before"], answer["after"]
    assert before["state"] != after["state"]
    reached = set()
    for attempt in answer["attempts"]:
        acknowledged = attempt["told"].get("outcome") == ACKNOWLEDGED
        for how, seen in attempt["seen"].items():
            where = f"{change}, call {attempt['call']}, {how}"
            assert seen["status"] == 0, where
            assert seen["leftovers"] == [], where
            assert seen["state"] in ([after["state"]] if acknowledged else states(answer)), where
            reached.add(seen["state"] == after["state"])
    assert reached == {False, True}  # the kill went from before the commit to behind it
    assert any(attempt["told"].get("outcome") for attempt in answer["attempts"])


def states(answer: Any) -> list[Any]:
    return [answer["before"]["state"], answer["after"]["state"]]


FAULTS = {
    "io-error": (crash_rig.FAIL_ONCE, errno.EIO, crash_rig.CHANGES | crash_rig.LOOKS),
    "disk-full": (crash_rig.FAIL_ONCE, errno.ENOSPC, crash_rig.CHANGES),
    "disk-stays-full": (crash_rig.FAIL_ON, errno.ENOSPC, crash_rig.CHANGES),
    "read-only-remount": (crash_rig.FAIL_ON, errno.EROFS, crash_rig.CHANGES),
    "short-write": (crash_rig.SHORTEN, 0, crash_rig.CHANGES),
}


FAILED = [("store", change) for change in ("put", "put-small", "complete", "delete")]
FAILED += [("tree", change) for change in ("put", "complete", "delete")]

MADE_ALL_THE_SAME = ("until a restart", "syncing the directory of")
"""A change that is refused with these words may be there: it was made, but not for certain."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("driver", "change"), FAILED)
def test_change__a_call_fails__refused_with_a_remedy_or_done_and_nothing_is_lost(
    rig: Rig, driver: str, change: str, fault: str
) -> None:
    action, error, classes = FAULTS[fault]
    how = {"action": action, "error": error, "classes": classes}
    answer = rig(do="fail", driver=driver, change=change, **how)
    assert answer["attempts"]
    for attempt in answer["attempts"]:
        told, seen = attempt["told"], attempt["seen"]
        where = f"{change}, {fault}, call {attempt['call']}: {told}"
        assert told["status"] == 0, where
        assert told["open_files"] == [], where
        assert seen["status"] == 0, where
        assert seen["leftovers"] == [], where
        if told["outcome"] == ACKNOWLEDGED:
            assert seen["state"] == answer["after"]["state"], where
        else:
            assert ";" in told["error"], where  # the cause, then the remedy
            made = any(words in told["error"] for words in MADE_ALL_THE_SAME)
            allowed = states(answer) if made else states(answer)[:1]
            assert seen["state"] in allowed, where
    if fault == "short-write":
        assert {attempt["told"]["outcome"] for attempt in answer["attempts"]} == {ACKNOWLEDGED}
