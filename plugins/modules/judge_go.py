#!/usr/bin/python
"""Go's standard library, compiled once per host and not once per submission (docs/languages.md)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_go
short_description: Compile Go's standard library where Go is installed
description:
  - Go 1.20 and later come without it. What was compiled is noted below V(GOROOT/pkg), with Go's version, so that it is
    done once, and again after an upgrade of Go.
  - Where there is no Go, or an older one, nothing is done.
options:
  go:
    description: The go program.
    type: path
    default: /usr/bin/go
author: [judge]
"""

EXAMPLES = r"""
- name: Go's standard library is compiled
  judge_go:
"""

RETURN = r"""
version:
  description: What `go version` says; empty where there is none.
  type: str
  returned: success
"""

import os
import pathlib
import re
import tempfile

from ansible.module_utils.basic import AnsibleModule

_MARK = "pkg/judge-standard-library"
_WITHOUT = (1, 20)  # the first release that comes without it
_SETTINGS = {
    "GODEBUG": "installgoroot=all",
    "GO111MODULE": "off",
    "CGO_ENABLED": "0",
    "GOFLAGS": "",
    "GOTOOLCHAIN": "local",
}


def needs(version: str) -> bool:
    """Whether the Go that says this of itself comes without a compiled standard library."""
    found = re.search(r"\bgo(\d+)\.(\d+)", version)
    return found is None or (int(found[1]), int(found[2])) >= _WITHOUT


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(argument_spec={"go": {"type": "path", "default": "/usr/bin/go"}}, supports_check_mode=True)
    go = module.params["go"]
    if not os.access(go, os.X_OK):
        module.exit_json(changed=False, version="")
    with tempfile.TemporaryDirectory() as cache:
        settings = {**_SETTINGS, "GOCACHE": cache, "HOME": cache}
        version = module.run_command([go, "version"], check_rc=True, environ_update=settings)[1].strip()
        root = module.run_command([go, "env", "GOROOT"], check_rc=True, environ_update=settings)[1].strip()
        mark = pathlib.Path(root, _MARK)
        done = not needs(version) or (mark.is_file() and mark.read_text(encoding="utf-8") == version)
        if not done and not module.check_mode:
            code, _, err = module.run_command([go, "install", "std"], environ_update=settings)
            if code != 0:
                last = " | ".join(err.strip().splitlines()[-3:])
                module.fail_json(msg=f"Go's standard library could not be compiled: {last}; see docs/languages.md")
            mark.write_text(version, encoding="utf-8")
    module.exit_json(changed=not done, version=version)


if __name__ == "__main__":
    main()
