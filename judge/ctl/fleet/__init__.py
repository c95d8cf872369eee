"""judgectl's commands for hosts: inventories, SSH, units, logs."""
