"""A member's look at its cluster before it decides: servers' answers become the planner's `Situation`."""

from __future__ import annotations

from judge.common.errors import UnavailableError
from judge.config import EtcdClient, EtcdConfig
from judge.etcd.client import Etcd, EtcdMember, MemberList
from judge.etcd.discovery import Discovered, find_others, host_port
from judge.etcd.planner import ClusterView, ListedMember, MemberDisk, NoQuorum, PeerAddress, Quorum, Silent, Situation

_SECONDS_EACH = 1.0  # the longest answer of one member
_SECONDS_ACT = 5.0  # the longest change of the membership


def client_of(config: EtcdConfig, endpoints: list[str] | tuple[str, ...]) -> Etcd:
    """A client of these members with this member's certificate, with time enough to change the membership."""
    return _client(config, endpoints, max(_SECONDS_ACT, _SECONDS_EACH * len(endpoints)))


def _client(config: EtcdConfig, endpoints: list[str] | tuple[str, ...], timeout: float) -> Etcd:
    return Etcd(EtcdClient(endpoints=list(endpoints), tls=config.tls, timeout=timeout))


def endpoints(config: EtcdConfig, *, running: bool) -> tuple[tuple[str, ...], Discovered]:
    """The servers to ask: the others, and this host's own while it runs."""
    discovered = find_others(config)
    own_endpoint = (host_port(config.client),) if running else ()
    return (*discovered.others, *own_endpoint), discovered


def observe(config: EtcdConfig, disk: MemberDisk, *, running: bool) -> Situation:
    """Look once; takes some seconds at most and never raises UnavailableError."""
    addresses, discovered = endpoints(config, running=running)
    listed_members = tuple(PeerAddress(peer.name, peer.peer) for peer in config.cluster.members)
    return Situation(
        name=config.name,
        peer=config.peer,
        token=config.cluster.token,
        bootstrap=config.cluster.bootstrap,
        listed=listed_members,
        registered=config.cluster.dns is not None or any(peer.name == config.name for peer in listed_members),
        disk=disk,
        seen=_look(config, addresses, discovered, running=running),
        running=running,
    )


def _look(config: EtcdConfig, addresses: tuple[str, ...], discovered: Discovered, *, running: bool) -> ClusterView:
    maybe_others = bool(discovered.others or discovered.failed)
    if not addresses:
        return Silent(maybe_others, discovered.failed or "no other member is known")
    with _client(config, addresses, max(2.0, _SECONDS_EACH * len(addresses))) as etcd:
        answering = [status.endpoint for status in etcd.status() if not status.error]
        if not answering:
            return Silent(maybe_others, discovered.failed or f"none of {', '.join(addresses)} answers")
        try:
            cluster = etcd.cluster()
        except UnavailableError:
            return NoQuorum(f"there is no quorum behind {', '.join(answering)}")
    return Quorum(cluster.id, tuple(_listed(config, member, running=running) for member in cluster.members))


def _listed(config: EtcdConfig, member: EtcdMember, *, running: bool) -> ListedMember:
    """One entry; an identity that could be mine is asked whether a server stands behind it."""
    is_own = config.peer in member.peer_urls or member.name == config.name
    answers = False
    if is_own and member.client_urls and not running:
        urls = [host_port(url) for url in member.client_urls]
        with _client(config, urls, max(2.0, _SECONDS_EACH * len(urls))) as etcd:
            answers = any(status.member_id == member.id for status in etcd.status())
    return ListedMember(member.id, member.name, member.peer_urls, bool(member.client_urls), member.learner, answers)


def alone(cluster: MemberList, member_id: int) -> bool:
    """Return whether the cluster would have no voter left without this member; pure."""
    return not any(member.id != member_id and not member.learner for member in cluster.members)
