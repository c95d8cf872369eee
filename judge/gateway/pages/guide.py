"""The help page, which everybody may read: submitting, verdicts, languages, limits, the command line."""

from __future__ import annotations

import contextlib
from typing import Any

from flask import g, render_template

from judge.common.errors import JudgeError
from judge.gateway import asking, auth
from judge.gateway.api import handlers as api
from judge.gateway.pages.table import page, services
from judge.languages.table import load_table
from judge.model import messages as m


@page("/help", name="help", role="none")
def guide() -> Any:
    """Strangers cost the cluster nothing: they read of all languages, others of those that executors offer."""
    principal = None
    with contextlib.suppress(JudgeError):
        principal = services.identities.by_session()
    asking.begin(principal or auth.NOBODY)
    offered: set[str] = set()
    if principal is not None:
        g.principal = principal
        with contextlib.suppress(JudgeError):
            offered = {language.name for language in api.languages(services.cluster)}
    rows = [row for row in load_table(None).values() if not offered or row.name in offered]
    return render_template(
        "help.html", verdicts=m.Verdict, languages=rows, offered=bool(offered), limits=services.config.limits,
        run=m.Limits(),
    )  # fmt: skip
