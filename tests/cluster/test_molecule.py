"""The molecule scenarios, as `molecule test` runs them: bare hosts become a cluster, and nothing of it is left."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from lab import cluster
from tests.support.lab import lab_marks

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / ".config/molecule/config.yml"
STEPS = ["destroy", "create", "syntax", "prepare", "check", "verify", "converge", "idempotence", "verify", "destroy"]
PATIENCE = 3600  # seconds; six minutes on an idle machine, far longer beside other tests
# Words that only somebody who changes the deployment may see, and has to mend.
NOISE = re.compile(r"\[DEPRECATION|\[WARNING|^WARNING", re.MULTILINE)

pytestmark = lab_marks()


def molecule(scenario: str, home: Path) -> str:
    """Run a scenario from begin to end in a lab of its own, and return what it said."""
    lab = f"m{uuid.uuid4().hex[:8]}"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JUDGE_MOLECULE_LAB": lab,
        "ANSIBLE_HOME": str(home),  # molecule keeps the state of each scenario there
        "MOLECULE_COMMAND_BORDERS": "0",
        "MOLECULE_GLOB": "molecule/*/molecule.yml",  # as the Makefile
        "NO_COLOR": "1",
    }
    command = ["molecule", "--base-config", str(BASE), "test", "--scenario-name", scenario]
    try:
        completed = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert completed.returncode == 0, completed.stdout
    finally:  # molecule destroys it when a step fails, but not when it is interrupted
        for name in (lab, f"{lab}1"):
            cluster.down(name)
    return completed.stdout


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("scenario", ["default", "single-host"])
def test_scenario(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = molecule(scenario, tmp_path / "home")
    actions = re.findall(rf"\[{scenario} > (\w+)\] Executed: Successful", output)
    with capsys.disabled():
        steps = re.findall(r"^ *([\d.]+ s)  playbook (.*)$", output, re.MULTILINE)
        print(f"\nmolecule {scenario}: " + ", ".join(f"{playbook} {lasted}" for lasted, playbook in steps))
    assert actions == STEPS
    assert not NOISE.search(output), output
