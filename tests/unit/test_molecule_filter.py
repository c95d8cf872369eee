"""The filter with which molecule's verify step reads the table of ports in docs/deploy.md."""

import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule/shared/filter"))

from documented import documented_ports  # noqa: E402 - Ansible's plug-ins are no package

PAGE = (ROOT / "docs/deploy.md").read_text()
GROUPS = ["judicators", "executors", "gateways"]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["judicators"], ["tcp/22", "tcp/2379", "tcp/2380", "tcp/27017", "tcp/7400"]),
        (["executors"], ["tcp/22", "tcp/2379 on loopback"]),
        (["gateways"], ["tcp/22", "tcp/2379 on loopback", "tcp/443", "tcp/80", "tcp/8080 on loopback"]),
        ([], ["tcp/22"]),
    ],
)
def test_each_kind_of_host(groups: list[str], expected: list[str]) -> None:
    assert documented_ports(PAGE, groups) == expected


@given(st.sets(st.sampled_from(GROUPS)))
def test_a_host_in_several_groups_has_the_ports_of_each_and_each_port_once(groups: set[str]) -> None:
    ports = documented_ports(PAGE, groups)
    numbers = [port.removesuffix(" on loopback") for port in ports]
    assert len(set(numbers)) == len(numbers)
    single = {port.removesuffix(" on loopback") for group in groups for port in documented_ports(PAGE, [group])}
    assert set(numbers) == single | {"tcp/22"}
    assert ("tcp/2379" in ports) == ("judicators" in groups)  # a member's port is no loopback port


def test_a_page_without_the_table_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="no table of ports"):
        documented_ports("## Ports\n\nnone\n\n## Users\n\n| 22 | | a | all | SSH |\n", ["judicators"])
