"""Makes the pictures of the README: the first page and the page of a message of the demo, as small PNG files.

make screenshots
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IMAGES = ROOT / "docs" / "images"
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))
VIEW = {"width": 1200, "height": 860}
PAGES = {"site-home": "index.html", "site-message": "reg-default/messagegroups/shop.orders.kafka/shop.orders.OrderPlaced.html"}


def main() -> None:
    """Write the demo, and photograph it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        prepare = [str(BIN / "python"), str(HERE / "prepare.py"), folder, "demo"]
        subprocess.run(prepare, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        where = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=where, args=arguments)
        page = browser.new_page(viewport=VIEW)
        IMAGES.mkdir(exist_ok=True)
        for name, path in PAGES.items():
            page.goto(f"file://{folder}/sites/demo/{path}")
            page.evaluate("document.activeElement.blur()")
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(64, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
