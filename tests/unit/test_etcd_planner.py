"""The membership planner: rules by name, properties over all situations, and a model cluster that crashes anywhere."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.etcd import planner
from judge.etcd.planner import (
    Add,
    Decide,
    Discard,
    EntryMode,
    FullMember,
    Gone,
    ListedMember,
    MemberDisk,
    MemberRecord,
    NoQuorum,
    PeerAddress,
    Promote,
    Quorum,
    Refuse,
    Remove,
    Silent,
    Situation,
    StartData,
    StartExisting,
    StartNew,
    Wait,
    plan,
)
from tests.support.examples import at_least

ME, MINE, TOKEN, CLUSTER, ID = "m1", "http://m1:2380", "token-one", 7, 11
LISTED = (PeerAddress("m1", MINE), PeerAddress("m2", "http://m2:2380"), PeerAddress("m3", "http://m3:2380"))
M2 = ListedMember(22, "m2", ("http://m2:2380",), published=True)
M3 = ListedMember(33, "m3", ("http://m3:2380",), published=True)
JOIN = MemberRecord(TOKEN, ME, MINE, EntryMode.JOIN)
INIT = MemberRecord(TOKEN, ME, MINE, EntryMode.INITIALISE, LISTED)
ALONE = dataclasses.replace(INIT, initial=(PeerAddress(ME, MINE),))
WITH_ID = dataclasses.replace(JOIN, member_id=ID, cluster_id=CLUSTER)
STARTED = dataclasses.replace(WITH_ID, started=True)
SILENT = Silent(found=True, reason="none of m2, m3 answers")
NOBODY = Silent(found=False, reason="no other member is known")
DATA = MemberDisk(True, ID, CLUSTER, STARTED)


def me(**changes):
    return ListedMember(**{"id": ID, "name": ME, "peer_urls": (MINE,), "published": True, **changes})


ADDED = me(name="", learner=True, published=False)
JOINED = (LISTED[1], LISTED[2], LISTED[0])
EMPTY = MemberDisk()


def situation(observation, disk=EMPTY, **changes):
    return Situation(
        **{
            "name": ME, "peer": MINE, "token": TOKEN, "bootstrap": "join", "listed": LISTED, "registered": True,
            "disk": disk, "seen": observation, **changes,
        }
    )  # fmt: skip


def quorum(*members, cluster=CLUSTER):
    return Quorum(cluster, members)


RULES = [
    # -- an empty disk, and nobody to ask
    ("told to initialise", situation(SILENT, bootstrap="initialise"), Decide(INIT)),
    ("decided to initialise", situation(SILENT, MemberDisk(record=INIT)), StartNew(LISTED)),
    ("awaited by peers", situation(NoQuorum("x"), MemberDisk(record=INIT)), StartNew(LISTED)),
    ("told to initialise but others run", situation(NoQuorum("x"), bootstrap="initialise"), Wait),
    ("told to join, silence", situation(SILENT), Wait),
    ("told to join, nobody known", situation(NOBODY), Wait),
    ("decided to join, silence", situation(NOBODY, MemberDisk(record=JOIN), bootstrap="initialise"), Wait),
    ("alone, when-alone", situation(NOBODY, bootstrap="when-alone"), Decide(ALONE)),
    ("not alone, when-alone", situation(SILENT, bootstrap="when-alone"), Wait),
    ("initialise without a list", situation(NOBODY, bootstrap="initialise", listed=()), Decide(ALONE)),
    ("initialise, not on the list", situation(NOBODY, bootstrap="initialise", listed=LISTED[1:]), Refuse),
    ("lost disk, silence", situation(SILENT, MemberDisk(record=STARTED), bootstrap="initialise"), Wait),
    ("lost disk, nobody known", situation(NOBODY, MemberDisk(record=STARTED), bootstrap="initialise"), Refuse),
    ("lost disk, no quorum", situation(NoQuorum("x"), MemberDisk(record=STARTED), bootstrap="initialise"), Wait),
    # -- an empty disk, and a quorum
    ("first decides to join", situation(quorum(M2, M3)), Decide(JOIN)),
    ("then adds itself", situation(quorum(M2, M3), MemberDisk(record=JOIN)), Add()),
    ("told to initialise, cluster is there", situation(quorum(M2, M3), bootstrap="initialise"), Decide(JOIN)),
    ("awaited initial member", situation(quorum(M2, M3, me(published=False)), bootstrap="initialise"), Decide(INIT)),
    ("awaited and decided", situation(quorum(M2, M3, me(published=False)), MemberDisk(record=INIT)), StartNew(LISTED)),
    ("awaited, told to join", situation(quorum(M2, M3, me(published=False))), Remove),
    ("wiped, config still says initialise", situation(quorum(M2, M3, me()), bootstrap="initialise"), Remove),
    ("wiped, known", situation(quorum(M2, M3, me()), MemberDisk(record=STARTED)), Remove),
    ("wiped, removed", situation(quorum(M2, M3), MemberDisk(record=STARTED)), Decide(JOIN)),
    ("added, not started", situation(quorum(M2, M3, ADDED), MemberDisk(record=WITH_ID)), StartExisting(JOINED)),
    ("added by nobody knows whom", situation(quorum(M2, M3, ADDED), MemberDisk(record=JOIN)), Remove),
    ("learner that ran and lost its disk", situation(quorum(M2, M3, ADDED), MemberDisk(record=STARTED)), Remove),
    ("another joins", situation(quorum(M2, dataclasses.replace(M3, learner=True)), MemberDisk(record=JOIN)), Wait),
    ("my name elsewhere", situation(quorum(M2, me(peer_urls=("http://x:1",))), MemberDisk(record=JOIN)), Refuse),
    ("my address under another name", situation(quorum(M2, me(name="m9")), MemberDisk(record=JOIN)), Refuse),
    ("my identity is alive", situation(quorum(M2, M3, me(answers=True)), MemberDisk(record=JOIN)), Refuse),
    # -- data
    ("data, silence", situation(SILENT, DATA), StartData()),
    ("data, no quorum", situation(NoQuorum("x"), DATA), StartData()),
    ("data, member", situation(quorum(M2, M3, me()), DATA), StartData()),
    ("data, learner", situation(quorum(M2, M3, me(learner=True)), DATA), StartData()),
    ("data, removed, registered", situation(quorum(M2, M3), DATA), Discard),
    ("data, removed, not registered", situation(quorum(M2, M3), DATA, registered=False), Refuse),
    ("data of another cluster", situation(quorum(M2, me(), cluster=8), DATA), Refuse),
    ("data, alive elsewhere", situation(quorum(M2, M3, me(answers=True)), DATA), Refuse),
    ("data without a record", situation(SILENT, MemberDisk(True, ID, CLUSTER)), Refuse),
    ("unreadable data", situation(SILENT, MemberDisk(True, 0, 0, STARTED)), Refuse),
    ("swapped data", situation(SILENT, MemberDisk(True, 99, CLUSTER, STARTED)), Refuse),
    ("another token", situation(SILENT, DATA, token="other-token"), Refuse),
    ("another name", situation(SILENT, DATA, name="m2"), Refuse),
    ("left for good", situation(quorum(M2), MemberDisk(record=dataclasses.replace(STARTED, left=True))), Refuse),
    # -- running
    ("running voter", situation(quorum(M2, M3, me()), DATA, running=True), FullMember),
    ("running learner", situation(quorum(M2, M3, me(learner=True)), DATA, running=True), Promote(ID)),
    ("running, removed", situation(quorum(M2, M3), DATA, running=True), Gone),
    ("running, silence", situation(SILENT, DATA, running=True), Wait),
]


@pytest.mark.parametrize(("now", "step"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_rule(now, step):
    result = plan(now)
    assert isinstance(result, step) if isinstance(step, type) else result == step


def test_unnamed_member_gets_a_name_in_the_initial_cluster():
    unnamed = ListedMember(0xAB, "", ("http://m4:2380",), published=False)
    step = plan(situation(quorum(M2, unnamed, ADDED), MemberDisk(record=WITH_ID)))
    assert isinstance(step, StartExisting)
    assert PeerAddress("ab", "http://m4:2380") in step.initial


IDS = st.sampled_from([0, ID, 22, 33])
PEERS = st.sampled_from([MINE, "http://m2:2380", "http://m3:2380"])
NAMES = st.sampled_from(["", "m1", "m2", "m3"])
RECORDS = st.none() | st.builds(
    MemberRecord,
    token=st.sampled_from([TOKEN, "other-token"]),
    name=st.sampled_from(["m1", "m2"]),
    peer=st.just(MINE),
    decision=st.sampled_from(EntryMode),
    initial=st.just(LISTED),
    member_id=IDS,
    cluster_id=st.sampled_from([0, CLUSTER]),
    started=st.booleans(),
    left=st.booleans(),
)
DISKS = st.builds(MemberDisk, st.booleans(), IDS, st.sampled_from([0, CLUSTER, 8]), RECORDS)
MEMBERS = st.builds(
    ListedMember, IDS.filter(bool), NAMES, PEERS.map(lambda url: (url,)), st.booleans(), st.booleans(), st.booleans()
)
SEEN = (
    st.builds(Silent, st.booleans(), st.just("silence"))
    | st.builds(NoQuorum, st.just("no quorum"))
    | st.builds(
        Quorum,
        st.sampled_from([CLUSTER, 8]),
        st.lists(MEMBERS, max_size=4, unique_by=(lambda m: m.id, lambda m: m.peer_urls)).map(tuple),
    )
)
SITUATIONS = st.builds(
    Situation,
    name=st.just(ME),
    peer=st.just(MINE),
    token=st.just(TOKEN),
    bootstrap=st.sampled_from(["initialise", "join", "when-alone"]),
    listed=st.sampled_from([LISTED, LISTED[1:], ()]),
    registered=st.booleans(),
    disk=DISKS,
    seen=SEEN,
    running=st.booleans(),
)


@settings(max_examples=at_least(600))
@given(SITUATIONS)
def test_no_step_is_ever_unsafe(now):
    step = plan(now)
    record = now.disk.record
    if isinstance(step, Wait | Refuse | Discard | Remove | Gone | FullMember):
        assert step.why
    if record is not None and (record.token != now.token or record.name != now.name or record.left):
        assert isinstance(step, Refuse)
    if now.disk.data:
        # data is run, put aside after a quorum declared it dead, or refused: nothing else is ever done with it
        assert isinstance(step, StartData | Discard | Refuse | Promote | Gone | FullMember | Wait)
    if not isinstance(now.seen, Quorum):
        assert isinstance(step, Wait | Refuse | Decide | StartNew | StartData)
    if isinstance(step, StartNew):
        assert record is not None and record.decision is EntryMode.INITIALISE and not record.member_id
    if isinstance(step, Decide) and step.record.decision is EntryMode.INITIALISE:
        assert record is None
        assert now.bootstrap == "initialise" or (now.bootstrap == "when-alone" and now.seen == Silent(False, "silence"))
    if isinstance(step, StartExisting):
        assert record is not None and not record.started and not now.disk.data
        assert isinstance(now.seen, Quorum)
        assert any(m.id == record.member_id and m.learner and MINE in m.peer_urls for m in now.seen.members)
    if isinstance(step, Add):
        assert isinstance(now.seen, Quorum)
        assert not any(MINE in m.peer_urls or m.name == ME or m.learner for m in now.seen.members)
    if isinstance(step, Remove):
        assert isinstance(now.seen, Quorum)
        (member,) = [m for m in now.seen.members if m.id == step.member_id]
        assert member.peer_urls == (MINE,) and member.name in ("", ME) and not member.answers and not now.disk.data
    if isinstance(step, Discard):
        assert isinstance(now.seen, Quorum) and now.seen.cluster_id == now.disk.cluster_id
        assert not any(m.id == now.disk.member_id for m in now.seen.members)


class Model:
    """m1's disk and the cluster of m2 and m3, with the effects of each step; a crash loses nothing but the process."""

    def __init__(self, disk, members):
        self.disk = disk
        self.members = list(members)
        self.running = False
        self.used: set[int] = set()
        self.next_id = 100

    def see(self):
        return situation(quorum(*self.members), self.disk, running=self.running, bootstrap="initialise")

    def carry_out(self, step, crash):
        """`crash` 0: before the step, 1: in its middle, 2: after it, 3: not at all."""
        if crash == 0:
            return self.restart()
        match step:
            case Decide(record):
                self.disk = dataclasses.replace(self.disk, record=record)
            case Discard():
                self.disk = MemberDisk(record=self.disk.record)
            case Remove(member_id):
                self.members = [m for m in self.members if m.id != member_id]
            case Add():
                self.next_id += 1
                self.members.append(ListedMember(self.next_id, "", (MINE,), published=False, learner=True))
                if crash != 1:
                    record = dataclasses.replace(self.disk.record, member_id=self.next_id, cluster_id=CLUSTER)
                    self.disk = dataclasses.replace(self.disk, record=record)
            case StartExisting():
                record = dataclasses.replace(self.disk.record, started=True)
                assert record.member_id not in self.used, "an identity was used with two disks"
                self.used.add(record.member_id)
                self.disk = MemberDisk(record=record)
                if crash != 1:
                    self.disk = MemberDisk(True, record.member_id, CLUSTER, record)
                    self.publish()
                    self.running = True
            case StartData():
                self.running = True
                self.publish()
            case Promote(member_id):
                self.members = [dataclasses.replace(m, learner=False) if m.id == member_id else m for m in self.members]
            case _:
                raise AssertionError(step)
        return self.restart() if crash != 3 else None

    def publish(self):
        self.members = [
            dataclasses.replace(m, name=ME, published=True) if m.id == self.disk.member_id else m for m in self.members
        ]

    def restart(self):
        self.running = False


@settings(max_examples=at_least(300))
@given(
    st.sampled_from([
        (MemberDisk(), (M2, M3)),
        (MemberDisk(), (M2, M3, me())),
        (MemberDisk(record=STARTED), (M2, M3, me())),
        (MemberDisk(record=WITH_ID), (M2, M3, ADDED)),
        (DATA, (M2, M3)),
        (DATA, (M2, M3, me(learner=True))),
    ]),
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.booleans(), max_size=12),
)  # fmt: skip
def test_joining_ends_whatever_is_interrupted(start, crashes, wipes):
    model = Model(*start)
    crashes, wipes = list(crashes), list(wipes)
    for _ in range(60):
        step = plan(model.see())
        if isinstance(step, FullMember):
            break
        model.carry_out(step, crashes.pop() if crashes else 3)
        if wipes and wipes.pop() and not model.running:
            model.disk = MemberDisk(record=model.disk.record)
    own = [m for m in model.members if MINE in m.peer_urls]
    assert isinstance(step, FullMember)
    assert len(own) == 1 and not own[0].learner and own[0].id == model.disk.member_id


def test_every_step_has_a_class_of_its_own():
    kinds = {type(plan(rule[1])) for rule in RULES}
    assert kinds == set(planner.Step.__args__)
