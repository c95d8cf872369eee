#!/usr/bin/env python3
"""Ansible runs this for the hosts: names, groups and addresses as the cloud has them now.

The command below is for Terraform; any one will do that prints
{"j1": {"groups": ["judicators"], "public": "203.0.113.11", "private": "198.51.100.11"}, ...}
A name is for ever, so give a machine that replaces another one the same name.
"""

import json
import subprocess
import sys

COMMAND = ["terraform", "output", "-json", "judge"]

hosts = json.loads(subprocess.run(COMMAND, check=True, capture_output=True, text=True).stdout)
inventory = {"_meta": {"hostvars": {}}}
for name, host in hosts.items():
    # Ansible comes from outside, hosts reach each other inside.
    inventory["_meta"]["hostvars"][name] = {"ansible_host": host["public"], "judge_address": host["private"]}
    for group in host["groups"]:
        inventory.setdefault(group, {"hosts": []})["hosts"].append(name)
sys.stdout.write(json.dumps(inventory))
