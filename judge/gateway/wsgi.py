"""The module that uWSGI loads, in each worker after the fork; the daemon names the config in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from judge import config
from judge.daemon import log, tracing
from judge.daemon.heap import keep_loaded
from judge.gateway.app import create_app
from judge.gateway.uwsgi import CONFIG_ENV, STDERR_ENV

_settings = config.load(config.GatewayConfig, Path(os.environ[CONFIG_ENV]))
# Straight into the daemon's log: through uWSGI's output the front would read each line, and write it again.
_stderr = os.fdopen(int(os.environ[STDERR_ENV]), "w", encoding="utf-8", errors="backslashreplace", closefd=False)
log.setup(_settings.log_level, journal="JOURNAL_STREAM" in os.environ, form=_settings.log_format, to=_stderr)
tracing.setup("gateway", _settings.name, _settings.otlp)
application = create_app(_settings)
keep_loaded()
