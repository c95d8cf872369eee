"""Programs that playbooks run: the offline bundle, and recovery from one judicator."""
