"""A cluster that is taken away and formed anew knows which hosts were removed before. Not in every `make test`."""

from collections.abc import Iterator

import pytest

from tests.cluster.test_verbs import Stolen
from tests.support.lab import Site, bare_hosts, bundle, lab_marks

pytestmark = lab_marks(1800)


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    work = tmp_path_factory.mktemp("site")
    with bare_hosts(("j1", "e1", "g1"), work, software=bundle()) as hosts:
        yield Site(hosts.lab, work)


def test_certificates_of_a_removed_host_stay_refused_after_a_reset(site: Site) -> None:
    site.site().check()
    stolen = Stolen(site, "e1", site.work / "e1", judicators=("j1",))
    stolen.open_what_they_should()
    site.play("playbooks/remove.yml", "-e", "judge_remove=e1", "-e", "confirm=e1").check()
    stolen.open_nothing()
    site.play("playbooks/reset.yml", "-e", "confirm=judge").check()
    formed = site.site().check()
    assert "Old certificates of removed hosts are refused" in " ".join(formed.changed_on("j1"))
    stolen.open_nothing()
    assert site.site("--check").check().changed == set()
