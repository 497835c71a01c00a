"""A headless Chromium, steered by its DevTools protocol over a WebSocket.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

START_LIMIT_S = 60.0
ANSWER_LIMIT_S = 30.0

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--remote-debugging-port=0", "--window-size=1280,1000", "--hide-scrollbars"),
)


def chromium() -> str | None:
    """The browser on this host, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One tab. What the page logs as an error, or its policy blocks, is kept in `complaints`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []

    async def listen(self) -> None:
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(str(said["params"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        answer = self._answers[number]
        await self._socket.send_json({"id": number, "method": method, "params": params})
        said = await asyncio.wait_for(answer, ANSWER_LIMIT_S)
        assert "error" not in said, said
        return said["result"]

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression, or the promise it makes, comes to."""
        said = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait in the page, at each of its changes, until a JavaScript condition holds."""
        await self.value(
            "new Promise((done) => { const look = () => { if (!(" + condition + ")) return;"
            " seen.disconnect(); done(); };"
            " const seen = new MutationObserver(look);"
            " seen.observe(document, {subtree: true, childList: true, attributes: true,"
            " characterData: true}); look(); })"
        )

    async def screenshot(self, path: Path) -> None:
        said = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(said["data"]))


@asynccontextmanager
async def browser_page(directory: Path) -> AsyncIterator[Page]:
    """A browser of its own, its profile in `directory`, and one empty tab of it."""
    executable = chromium()
    assert executable is not None
    child = await asyncio.create_subprocess_exec(
        *(executable, *_FLAGS, f"--user-data-dir={directory / 'profile'}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stderr is not None
    try:
        async with asyncio.timeout(START_LIMIT_S):
            line = b""
            while not line.startswith(b"DevTools listening on ws://"):
                line = await child.stderr.readline()
                assert line, "the browser ended"
        drain = asyncio.create_task(child.stderr.read())
        address = line.decode().split("ws://")[1].split("/")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/json/list") as reply:
                (tab,) = [one for one in await reply.json() if one["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.create_task(page.listen())
                yield page
            await listening
    finally:
        child.kill()
        await child.wait()
    await drain
