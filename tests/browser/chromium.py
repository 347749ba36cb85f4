"""A headless Chromium over its DevTools protocol: sizes, schemes, keys, and what a page complains of.

``python tests/browser/chromium.py PAGE.html…`` writes pictures beside the pages: all widths, both schemes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

WIDTHS = (400, 800, 1600)
"""A telephone, a part of a window, a whole screen."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found() -> str | None:
    """The browser that is installed here."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one tab; used from one thread."""

    def __init__(self, executable: str) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [executable, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
             f"--user-data-dir={self._folder.name}", "about:blank"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._loop = asyncio.new_event_loop()
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        assert self._process.stderr is not None
        address = next(
            match[1]
            for line in self._process.stderr
            if (match := re.search(r"DevTools listening on (ws://\S+)", line))
        )
        self._socket = self._loop.run_until_complete(self._connected(address))
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(10)
        self._process.stderr.close()
        self._loop.close()
        self._folder.cleanup()

    def call(self, method: str, **params: Any) -> Any:
        """What one command of the protocol answers; events that arrive meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._loop.run_until_complete(self._write(json.dumps(message)))
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        text = self._loop.run_until_complete(asyncio.wait_for(self._read(), 30))
        answer = json.loads(text)
        if "method" in answer:
            self.events.append((answer["method"], answer["params"]))
        return answer

    @staticmethod
    async def _connected(address: str) -> WebSocketClientConnection:
        return await websocket_connect(address, max_message_size=2**28)

    async def _write(self, text: str) -> None:
        await self._socket.write_message(text)

    async def _read(self) -> Any:
        return await self._socket.read_message()

    def open(self, page: Path, *, width: int, dark: bool) -> None:
        """Load a page anew in a window of this width, in the light or the dark scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(name == "Page.loadEventFired" for name, _ in self.events):
            self._next()

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript, which the page's own policy doesn't hinder."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        code = {"Tab": 9, "ArrowRight": 39, "ArrowLeft": 37}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def complaints(self) -> list[str]:
        """What stands in the console, and what the page has asked for beside itself."""
        told = []
        for name, event in self.events:
            if name in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                told.append(f"{name}: {json.dumps(event)[:300]}")
            if name == "Network.requestWillBeSent" and event["documentURL"] != event["request"]["url"]:
                told.append(f"request: {event['request']['url']}")
        return told

    def picture(self, width: int) -> bytes:
        """The whole page that is open, as PNG."""
        height = self.ask("document.documentElement.scrollHeight")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def main(pages: list[str]) -> None:
    """Write ``page-400-light.png`` and so on for each page."""
    executable = found()
    if executable is None:
        sys.exit(f"there is no Chromium here: {', '.join(NAMES)}")
    browser = Chromium(executable)
    for page in map(Path, pages):
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                browser.open(page.resolve(), width=width, dark=scheme == "dark")
                picture = page.with_name(f"{page.stem}-{width}-{scheme}.png")
                picture.write_bytes(browser.picture(width))
                print(picture)
    browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
