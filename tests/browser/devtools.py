"""A headless Chromium over the DevTools protocol: as much of it as the tests need."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import LIMIT_S, wait_for

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
TROUBLE = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Audits.issueAdded")


class Tab:
    """One page: commands are answered in order, events are kept in `events`."""

    def __init__(self, url: str):
        import websocket

        self._socket = websocket.create_connection(url, timeout=LIMIT_S)
        self._number = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self._socket.close()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command. Raises AssertionError with what Chromium says against it."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self.events.append(message)

    def open(self, path: Path, *, width: int, scheme: str = "light") -> None:
        """Loads a file at a width and colour scheme, and waits until it is drawn."""
        self.events.clear()
        self.look(width=width, scheme=scheme)
        self.send("Page.navigate", url=path.resolve().as_uri())

        def loaded() -> bool:
            self.run("1")  # events come with answers
            return any(e["method"] == "Page.loadEventFired" for e in self.events)

        wait_for(loaded, f"{path} in the browser", lambda: str(self.trouble()))

    def look(self, *, width: int, scheme: str) -> None:
        """The width in CSS pixels and the reader's colour scheme."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, expression: str) -> Any:
        """The value of an expression on the page."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def trouble(self) -> list[dict[str, Any]]:
        """Everything that the page made Chromium complain about, and exceptions."""
        return [e for e in self.events if e["method"] in TROUBLE]

    def requests(self) -> list[str]:
        """The address of every request."""
        return [str(e["params"]["request"]["url"]) for e in self.events if e["method"] == "Network.requestWillBeSent"]


@contextmanager
def chromium(program: str, profile: Path) -> Iterator[Tab]:
    """A tab of a new browser with a profile of its own; both are gone afterwards."""
    log = profile / "stderr"
    with log.open("w") as output:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stdout=output, stderr=output
        )
    try:
        with closing(Tab(_page_address(profile / "DevToolsActivePort", process, log))) as tab:
            yield tab
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _page_address(written: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    """Where the first page listens, once Chromium has written its port."""

    def listed() -> list[str]:
        if not written.is_file() or "\n" not in written.read_text():
            return []
        port = written.read_text().split("\n")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=LIMIT_S) as answer:
            return [str(page["webSocketDebuggerUrl"]) for page in json.load(answer) if page["type"] == "page"]

    found: list[str] = wait_for(listed, "a page of Chromium", log.read_text, process)
    return found[0]
