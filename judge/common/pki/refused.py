"""Certificates that are refused although the authority signed them and they last: those of hosts that were removed.

A refusal is a name and a moment: whatever the authority issued to that name before it opens nothing any more. A host
that comes back under the name gets new certificates, and is let in with them. Judicators keep the list in the database
(judge/judicator/refused.py), the gates of etcd in etcd (judge/etcd/gate.py), the controller beside its authority, so
that it never takes an old certificate for a good one. Decision: docs/decisions/030-removed-hosts-are-refused.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

KEYS = "judicator/refused/"  # in etcd: one key per name, its value as `value` makes it
DOCUMENT = "refused"  # in the collection `meta`: {"_id": "refused", "names": [{"name", "before"}, …]}


def reason(refused: Mapping[str, float], name: str, issued: float) -> str:
    """The reason why this certificate opens nothing, or "". `refused` and `issued` are seconds since 1970."""
    before = refused.get(name)
    if before is None or issued >= before:
        return ""
    return f"'{name}' was removed from this cluster; a host that comes back gets new certificates from site.yml"


def value(before: float) -> str:
    """The value in etcd for a name; `before` in seconds since 1970."""
    return json.dumps({"before": before})


def listed(entries: Iterable[tuple[str, str]]) -> dict[str, float]:
    """The refusals out of etcd's (key below KEYS, value); what cannot be read refuses every certificate of its name."""
    result = {}
    for key, text in entries:
        try:
            result[key] = float(json.loads(text)["before"])
        except (ValueError, TypeError, KeyError):
            result[key] = float("inf")
    return result
