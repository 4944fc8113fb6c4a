"""What the pages share: templates, style, and the headers that let a browser run and load nothing else."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spark_jobs.checks.formatting import milliseconds, precise, printable, visible

_TEMPLATES = Path(__file__).parent / "templates"


def _hash(text: str) -> str:
    """The source of a content security policy that allows exactly this style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE = (_TEMPLATES / "style.css").read_text()
_SCRIPT = (_TEMPLATES / "copy.js").read_text()


def policy(form: bool = False, script: bool = False) -> str:
    """The content security policy of a page.

    Names and texts on the pages are untrusted, so no script but our own runs and nothing is loaded. Airflow's own pages may
    show them in a frame (an external view does), other sites may not.

    Args:
        form: whether the page has a form.
        script: whether it has the script that copies a text.
    """
    allowed = [f"style-src {_hash(_STYLE)}", *([f"script-src {_hash(_SCRIPT)}"] if script else [])]
    target = "'self'" if form else "'none'"
    return "; ".join(
        ["default-src 'none'", *allowed, "base-uri 'none'", f"form-action {target}", "frame-ancestors 'self'"]
    )


POLICY = "Content-Security-Policy"
HEADERS = {
    POLICY: policy(),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
_environment.globals["style"] = Markup(_STYLE)  # noqa: S704 - a file of this folder
_environment.globals["script"] = Markup(_SCRIPT)  # noqa: S704 - a file of this folder
_environment.filters |= {"shown": printable, "visible": visible, "ms": milliseconds, "time": precise}


def render(template: str, **context: Any) -> str:
    """A page of a template."""
    return _environment.get_template(template).render(**context)
