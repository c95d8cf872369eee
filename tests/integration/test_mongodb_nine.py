"""Nine members: seven vote, two are spares that take over the vote of one that leaves."""

from pathlib import Path

from tests.support.mongodb import mongodb_cluster
from tests.support.servers import wait_for


def test_nine_members(tmp_path: Path, etcd_endpoint: str) -> None:
    with mongodb_cluster(tmp_path, etcd_endpoint) as cluster:
        # Nine mongods on few cores start slowly: elections are not what is tested here.
        daemons = cluster.start(9, election_timeout_ms=10000, heartbeat_ms=1000)
        cluster.wait_votes([1] * 7 + [0] * 2, 120)
        assert all(member["priority"] == member["votes"] for member in cluster.members().values())

        voter = next(d for d in daemons if d is not cluster.primary() and cluster.members()[d.address]["votes"])
        assert cluster.etcd.delete(f"mongodb/member/{voter.name}")
        wait_for(lambda: voter.address not in cluster.members(), what="the deregistered voter is removed")
        cluster.wait_votes([1] * 7 + [0])

        # Every version of the configuration differed in one vote at most: the primary's daemon counted its steps.
        steps = [line for daemon in daemons for line in daemon.log.splitlines() if "gives 127.0.0.1" in line]
        assert len(steps) >= 7
