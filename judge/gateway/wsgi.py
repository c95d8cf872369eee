"""The module that uWSGI loads, in each worker after the fork; the daemon names the config in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from judge import config, log, tracing
from judge.gateway.app import create_app
from judge.gateway.uwsgi import CONFIG_ENV
from judge.heap import keep_loaded

_settings = config.load(config.GatewayConfig, Path(os.environ[CONFIG_ENV]))
log.setup(_settings.log_level)
tracing.setup("gateway", _settings.name, _settings.otlp)
application = create_app(_settings)
keep_loaded()
