"""The screens that pages are looked at on, and where the pictures of them go."""

from __future__ import annotations

import os
from pathlib import Path

SHOTS = Path(os.environ.get("UI_SCREENSHOTS", Path(__file__).parents[2] / "ui-screenshots"))
MODES = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}
