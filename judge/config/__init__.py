"""One pydantic model per config file; unknown keys, wrong types, impossible timings are errors with file and line.

`services` and `boot` have the models, `sections` what they are made of; `reading` reads a file, `rendering` all files
of a host, fills in templates, and checks what no file shows alone.
"""

from judge.config.boot import MODELS, BootConfig, BootService
from judge.config.reading import dump, load, parse_text, print_origins
from judge.config.sections import CheckSettings, Daemon, EtcdClient, Model, MongodbClient, Name, Port, Tls, Url, fault
from judge.config.services import (
    EtcdCluster,
    EtcdConfig,
    EtcdPeer,
    ExecutorConfig,
    GatewayConfig,
    JudicatorConfig,
    MongodbConfig,
    OidcProvider,
    Public,
    SubmissionLimits,
    WebhookSettings,
)
