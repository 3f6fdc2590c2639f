"""The replay page in a real browser: it opens without a complaint, and its hands work."""

import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backflip.geometry import Plane, Sphere
from backflip.view import Curve, Forces, Part, Scene, save_scene

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = """--headless --no-sandbox --no-first-run --disable-background-networking --disable-component-update
--disable-sync --disable-quic --use-angle=swiftshader --enable-unsafe-swiftshader --window-size=480,320
--remote-debugging-pipe"""
PATIENCE = 90
"""[s] for one answer: software draws the picture, on a machine that may be busy."""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


class Visit:
    """A page in Chromium, spoken to by its DevTools protocol over two pipes."""

    def __init__(self, to: int, back: int) -> None:
        self.to, self.back, self.heard, self.count, self.session = to, back, b"", 0, {}
        self.complaints: list[dict] = []

    def ask(self, method: str, **params: Any) -> dict:
        """Call a method of the protocol; complaints that come in between are kept."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params, **self.session}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            loud = answer.get("method") in (
                "Runtime.exceptionThrown",
                "Log.entryAdded",
                "Runtime.consoleAPICalled",
            )
            self.complaints += [answer["params"]] if loud else []
        return answer["result"]

    def _next(self) -> dict:
        while b"\0" not in self.heard:
            assert select.select([self.back], [], [], PATIENCE)[0], "Chromium does not answer"
            self.heard += os.read(self.back, 1 << 20)
        text, _, self.heard = self.heard.partition(b"\0")
        return json.loads(text)

    def tell(self, script: str) -> Any:
        """What a script in the page comes to, once it is settled."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")


@contextmanager
def visiting(path: Path) -> Iterator[Visit]:
    """Chromium with the page open and its first picture drawn."""
    down, to = os.pipe()
    back, up = os.pipe()
    command = [str(CHROMIUM), *FLAGS.split(), f"--user-data-dir={path.parent / 'profile'}"]
    # Chromium listens at 3 and speaks at 4
    launch = ["bash", "-c", f'exec "$@" 3<&{down} 4>&{up}', "bash", *command]
    browser = subprocess.Popen(launch, pass_fds=(down, up), stderr=subprocess.DEVNULL)
    try:
        visit = Visit(to, back)
        target = visit.ask("Target.createTarget", url="about:blank")
        session = visit.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        visit.session = {"sessionId": session["sessionId"]}
        for domain in ("Runtime", "Log", "Page"):
            visit.ask(f"{domain}.enable")
        visit.ask("Page.navigate", url=path.as_uri())
        visit.tell(
            "new Promise((done) => document.readyState === 'complete' ? done() : window.onload = done)"
        )
        visit.tell("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        yield visit
    finally:
        browser.kill()
        browser.wait()
        for pipe in (down, to, back, up):
            os.close(pipe)


def march(forces: bool) -> Scene:
    """Two balls, side by side, that go far along x; the ground carries the first."""
    T = 101
    p_WB = np.tile([[0.0, 0.0, 0.1], [0.0, 0.3, 0.1]], (T, 1, 1))
    p_WB[..., 0] = np.linspace(0, 10, T)[:, None]
    parts = (Part(Plane, (0, 0, 0)), Part(Sphere, (0.1, 0, 0), 0), Part(Sphere, (0.1, 0, 0), 1))
    weight = Forces(np.tile([[[0.0, 0.0, 10.0]]], (T, 1, 1)), p_WB[:, :1] - [0, 0, 0.1])
    times = np.linspace(0, 2, T)
    return Scene(parts, p_WB, np.tile(np.eye(3), (T, 2, 1, 1)), times, weight if forces else None)


def test_a_page_with_everything_opens_and_plays(tmp_path) -> None:
    curve = Curve({"gradient": [10.0, float("nan"), 0.01], "random": [10.0, 9.0]})
    with visiting(save_scene(tmp_path / "march.html", march(forces=True), curve=curve)) as page:
        for box in ("follow", "forces", "curve"):
            assert page.tell(f"by_id('{box}').checked && by_id('{box}').offsetParent !== null"), box
        assert "arrows: 10 N = 0.2 m" in page.tell("by_id('facts').textContent")
        assert page.tell("arrows.children.filter((arrow) => arrow.visible).length") == 1
        assert page.tell("document.querySelectorAll('#panel path[stroke-width]').length") == 2
        assert page.tell("by_id('time').value = 0; by_id('time').dispatchEvent(new Event('input')); now") == 0
        page.tell("by_id('play').click(); new Promise((done) => setTimeout(done, 500))")
        assert page.tell("now") > 0
        page.tell("by_id('curve').click()")
        assert page.tell("by_id('panel').hidden")
    assert page.complaints == []


def test_a_page_without_forces_and_curve_offers_neither(tmp_path) -> None:
    with visiting(save_scene(tmp_path / "march.html", march(forces=False))) as page:
        shown = "['follow', 'forces', 'curve', 'panel'].filter((id) => by_id(id).checkVisibility())"
        assert page.tell(shown) == ["follow"]
    assert page.complaints == []
