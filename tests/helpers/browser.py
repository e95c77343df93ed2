"""A headless Chromium, driven through its DevTools protocol over two pipes, so no package and no port is needed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here (Debian: apt-get install chromium)")


class Browser:
    """A browser with one page. problems: errors and warnings of its console, and uncaught exceptions."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._received = b""
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self._note(answer)
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, address: str | Path) -> None:
        """Open a page and wait until it is loaded."""
        self._events.clear()
        self.call("Page.navigate", url=address.absolute().as_uri() if isinstance(address, Path) else address)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._note(self._next())

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true, asking after each frame."""
        frame = "new Promise(requestAnimationFrame)"
        self.run(f"(async () => {{ while (!({expression})) await {frame}; }})()")

    def press(self, *keys: str) -> None:
        """Press keys one after another, by their names in JavaScript."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def size(self, width: int, height: int = 900) -> None:
        """Set the size of the window in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._received += read
        message, self._received = self._received.split(b"\0", 1)
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _note(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        details = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(details["exceptionDetails"]))
            case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                self.problems.append(details["entry"]["text"])
            case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning", "assert"):
                self.problems.append(json.dumps(details["args"]))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it with the block."""
    assert PROGRAM is not None
    requests_end, requests = os.pipe()
    answers, answers_end = os.pipe()
    # The browser reads requests from descriptor 3 and writes answers to descriptor 4.
    shell = f'exec "$0" "$@" 3<&{requests_end} 4>&{answers_end}'
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-background-networking"]
        process = subprocess.Popen(
            ["bash", "-c", shell, PROGRAM, *options],
            pass_fds=(requests_end, answers_end),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        os.close(requests_end)
        os.close(answers_end)
        try:
            yield Browser(requests, answers)
        finally:
            os.close(requests)
            os.close(answers)
            process.terminate()
            process.communicate()  # until all processes of the browser have ended: they write into the profile
