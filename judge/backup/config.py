"""The config of a host's backups, backup.yml (role judge_backup)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from judge.backup import retention
from judge.config.sections import LogFormat, Model, Name


class KeepSection(Model):
    """The numbers of backups that stay in the directory (retention.Keep)."""

    last: int = Field(default=2, ge=1, le=1000)
    daily: int = Field(default=7, ge=0, le=1000)
    weekly: int = Field(default=4, ge=0, le=1000)
    monthly: int = Field(default=6, ge=0, le=1000)

    def rule(self) -> retention.Keep:
        return retention.Keep(self.last, self.daily, self.weekly, self.monthly)


class BackupConfig(Model):
    """backup.yml: what is backed up, and where to. The database is reached as this host's judicator reaches it."""

    name: Name
    cluster: str
    judicator: Path
    directory: Path
    host_key: Path
    keep: KeepSection = KeepSection()
    log_format: LogFormat = "text"
