"""Headless Chromium, for the tests of the pages and for the pictures of them (scripts/make-pictures)."""

from __future__ import annotations

import base64
import functools
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.support.servers import wait_for

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]  # fmt: skip


_INTO_EDITOR = """
const editor = arguments[0].nextElementSibling?.CodeMirror;
editor?.setValue(arguments[1]);
return Boolean(editor);
"""
_LISTEN = Path(__file__).with_name("walk.js").read_text(encoding="utf-8")
_AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@functools.cache
def _axe() -> str:
    # The package's own code drives another browser; what is wanted of it is the script that it brings along.
    package = importlib.util.find_spec("axe_playwright_python")
    assert package is not None and package.origin is not None, "make setup-test installs axe"
    return (Path(package.origin).parent / "axe.min.js").read_text(encoding="utf-8")


class Chrome:
    """One browser with a profile of its own, at one gateway."""

    def __init__(self, base: str, directory: Path, **look: Any) -> None:
        self.base = base
        self.shots = directory / "screenshots"
        self.width = look.get("width", 1280)
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in [*FLAGS, f"--user-data-dir={directory / 'profile'}", f"--window-size={self.width},900"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        if not look.get("javascript", True):
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        self.look(width=self.width, dark=look.get("dark", False))

    def look(self, *, width: int = 1280, dark: bool = False) -> None:
        """Be a screen of this width, of somebody who likes it light or dark."""
        self.width = width
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)

    def go(self, path: str) -> None:
        """Load a page."""
        self.driver.get(self.base + path)

    def one(self, selector: str) -> WebElement:
        """The first element that a CSS selector finds."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """All elements that a CSS selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        """What a person reads there, on one line; while one page takes another one's place, what is on the next."""

        def read() -> list[str]:
            try:
                return [str(self.one(selector).text)]
            except (NoSuchElementException, StaleElementReferenceException):
                return []

        return " ".join(wait_for(read, what=f"a page with '{selector}'")[0].split())

    def fill(self, **fields: str) -> None:
        """Type into fields and choose in lists, by their names."""
        for name, value in fields.items():
            field = self.one(f"main [name={name}]:not([type=hidden])")
            # The editor stands in the field's place, and closes brackets that somebody types.
            if self.driver.execute_script(_INTO_EDITOR, field, value):
                continue
            if field.tag_name == "select":
                next(one for one in Select(field).options if one.get_property("value") == value).click()
            else:
                if name != "file":
                    field.clear()
                field.send_keys(value)

    def press(self, words: str, inside: str = "main") -> None:
        """Press the button with these words."""
        for button in self.one(inside).find_elements(By.CSS_SELECTOR, "button"):
            if button.text == words:
                button.click()
                return
        raise AssertionError(f"there is no button '{words}' in: {self.text(inside)}")

    def sees(self, words: str, selector: str = "main", timeout: float = 20.0) -> None:
        """Wait until these words are on the page."""
        seen = [""]

        def there() -> bool:
            try:
                seen.append(self.text(selector))
            except WebDriverException:
                return False  # the page is being replaced
            return words in seen[-1]

        try:
            wait_for(there, timeout=timeout)
        except AssertionError:
            raise AssertionError(f"'{words}' is not on the page, which says: {seen[-1][:600]}") from None

    def login(self, token: str) -> None:
        """Log in."""
        self._login(token=token)

    def enter(self, user: str, password: str) -> None:
        """Log in by name and password."""
        self._login(user=user, password=password)

    def _login(self, **fields: str) -> None:
        self.go("/login")
        self.fill(**fields)
        self.press("Log in")
        self.sees("Log out", ".top")

    def picture(self, most: int) -> bytes:
        """The page from its top on as a PNG, so many pixels of it at most."""
        page = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(page["height"], most), "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(shot["data"])

    def shot(self, name: str) -> None:
        """Save the whole page as a picture, also to $JUDGE_SCREENSHOTS when it is set."""
        data = self.picture(3000)
        for directory in filter(None, [self.shots, os.environ.get("JUDGE_SCREENSHOTS")]):
            Path(directory).mkdir(parents=True, exist_ok=True)
            (Path(directory) / f"{name}.png").write_bytes(data)

    def barriers(self, *rules: str) -> list[str]:
        """What axe finds against WCAG 2.2 AA on the page: rule, what is wrong, and where; by these rules or all."""
        wanted = {"type": "rule", "values": list(rules)} if rules else _AXE_TAGS
        script = "axe.run(document, {runOnly: arguments[0], resultTypes: ['violations']}).then(arguments[1])"
        if not self.driver.execute_script("return Boolean(window.axe)"):
            script = f"{_axe()};{script}"
        found = self.driver.execute_async_script(script, wanted)
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def walk(self) -> list[str]:
        """What is wrong for whoever walks through the page by the tabulator: each control in its turn, seen to have it.

        A ring, and a field's edge, stands out where it differs from what is around by 3 to 1 (WCAG 1.4.11); nothing may
        cut a ring off.
        """
        count = self.driver.execute_script(_LISTEN)
        # Escape lets an editor give the next tabulator away; elsewhere it does nothing.
        ActionChains(self.driver).send_keys((Keys.ESCAPE + Keys.TAB) * (count + 3)).perform()
        return [str(one) for one in self.driver.execute_script("return window.walked()")]

    def complaints(self) -> list[str]:
        """What the console complained of since the last call: policy violations, script errors, failed loads."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(entry["message"]) for entry in entries if entry["level"] in {"WARNING", "SEVERE"}]
