from __future__ import annotations

import itertools
import math
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from gateway.errors import BusyError, ClientError, GatewayError, S3Code
from gateway.rdma.sessions import (
    TRANSITIONS,
    Effect,
    Event,
    Session,
    SessionTable,
    State,
)

TIMEOUT_S = 10.0


def table(max_sessions: int = 4, max_sessions_per_key: int = 3) -> SessionTable[str]:
    ids = (f"{number:032x}" for number in itertools.count(1))
    return SessionTable(max_sessions, max_sessions_per_key, TIMEOUT_S, new_id=lambda: next(ids))


def offered(sessions: SessionTable[str], owner: str = "AK", now_s: float = 0.0) -> Session[str]:
    session = sessions.admit(owner)
    sessions.offer(session, "order", now_s)
    return session


def refusal(call) -> tuple[S3Code, str]:
    with pytest.raises(GatewayError) as caught:
        call()
    return caught.value.code, caught.value.message


def test_transitions__every_path__closes_once_and_only_from_closing_forgets():
    for (state, event), (after, effects) in TRANSITIONS.items():
        enters_closing = after is State.CLOSING and state is not State.CLOSING
        assert (Effect.CLOSE in effects) == enters_closing, (state, event)
        assert (Effect.FORGET in effects) == (event is Event.CLOSED), (state, event)
        assert after is State.CLOSING or state is not State.CLOSING, "nothing leaves CLOSING"


@pytest.mark.parametrize("state", State)
def test_transitions__what_peers_and_operators_do__is_answered_in_every_state(state):
    for event in (Event.READY, Event.CANCEL, Event.STOP):
        assert (state, event) in TRANSITIONS


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(State, Event) if pair not in TRANSITIONS]
)
def test_apply__impossible_event__is_a_bug_and_changes_nothing(state, event):
    sessions = table()
    session = sessions.admit("AK")
    session.state = state
    with pytest.raises(ValueError, match="can't happen"):
        sessions.apply(session, event)
    assert session.state is state


def test_admit__cap_reached__busy_names_the_setting():
    sessions = table(max_sessions=2, max_sessions_per_key=2)
    sessions.admit("A")
    sessions.admit("B")
    code, text = refusal(lambda: sessions.admit("C"))
    assert code is S3Code.SLOW_DOWN
    assert "rdma.max_sessions)" in text


def test_admit__one_key_at_its_cap__others_still_get_in():
    sessions = table(max_sessions=4, max_sessions_per_key=2)
    sessions.admit("greedy")
    sessions.admit("greedy")
    code, text = refusal(lambda: sessions.admit("greedy"))
    assert code is S3Code.SLOW_DOWN
    assert "rdma.max_sessions_per_key" in text
    assert sessions.admit("modest").owner == "modest"


def test_admit__after_a_session_is_gone__its_place_is_free():
    sessions = table(max_sessions=1, max_sessions_per_key=1)
    session = sessions.admit("A")
    sessions.apply(session, Event.END)
    with pytest.raises(BusyError):
        sessions.admit("A")  # its lane is not back yet
    sessions.apply(session, Event.CLOSED)
    sessions.admit("A")


def test_admit__id_source_repeats__is_a_bug():
    sessions = SessionTable[str](4, 4, TIMEOUT_S, new_id=lambda: "0" * 32)
    sessions.admit("A")
    with pytest.raises(ValueError, match="repeats"):
        sessions.admit("A")


@pytest.mark.parametrize("case", ["unknown", "opening", "other owner", "expired", "over"])
def test_claim__no_session_for_this_peer__one_404_text_for_all(case):
    sessions = table()
    session = sessions.admit("AK")
    owner, session_id, now_s = "AK", session.id, 0.0
    match case:
        case "unknown":
            session_id = "f" * 32
        case "other owner":
            sessions.offer(session, "order", 0.0)
            owner = "OTHER"
        case "expired":
            sessions.offer(session, "order", 0.0)
            now_s = TIMEOUT_S
        case "over":
            sessions.offer(session, "order", 0.0)
            sessions.apply(session, Event.CANCEL)
    code, text = refusal(lambda: sessions.claim(session_id, owner, now_s))
    assert code is S3Code.NO_SUCH_RDMA_SESSION
    assert text == S3Code.NO_SUCH_RDMA_SESSION.message


def test_claim__in_time__moves_and_has_no_deadline_of_the_offer():
    sessions = table()
    session = offered(sessions, now_s=5.0)
    assert sessions.next_deadline_s() == 15.0
    assert sessions.claim(session.id, "AK", 14.9) is session
    assert session.state is State.MOVING
    assert sessions.next_deadline_s() == math.inf


@pytest.mark.parametrize("committing", [False, True])
def test_claim__second_ready__409(committing):
    sessions = table()
    session = offered(sessions)
    sessions.claim(session.id, "AK", 0.0)
    if committing:
        sessions.apply(session, Event.ARRIVED)
    code, _ = refusal(lambda: sessions.claim(session.id, "AK", 0.0))
    assert code is S3Code.RDMA_SESSION_CLAIMED
    code, _ = refusal(lambda: sessions.claim(session.id, "OTHER", 0.0))
    assert code is S3Code.NO_SUCH_RDMA_SESSION  # no oracle for another key


def test_expired__only_offers_past_their_deadline():
    sessions = table()
    first, second = offered(sessions, now_s=0.0), offered(sessions, now_s=3.0)
    sessions.admit("AK")
    assert sessions.expired(9.9) == ()
    assert sessions.expired(10.0) == (first,)
    assert set(sessions.expired(13.0)) == {first, second}


def test_stop__admits_and_offers_no_more():
    sessions = table()
    opening = sessions.admit("AK")
    assert sessions.stop() == (opening,)
    with pytest.raises(BusyError, match="shutting down"):
        sessions.admit("AK")
    with pytest.raises(BusyError, match="shutting down"):
        sessions.offer(opening, "order", 0.0)


def test_owned__another_keys_session__is_none():
    sessions = table()
    session = offered(sessions)
    assert sessions.owned(session.id, "AK") is session
    assert sessions.owned(session.id, "OTHER") is None
    assert sessions.owned("f" * 32, "AK") is None


class Traffic(RuleBasedStateMachine):
    """Any order of events: caps hold, a lane has one owner, and at the end all is free."""

    sessions = Bundle("sessions")
    owners = st.sampled_from(["A", "B", "C"])

    def __init__(self):
        super().__init__()
        self.table = table(max_sessions=5, max_sessions_per_key=2)
        self.now_s = 0.0
        self.lanes: dict[str, int] = {}  # session id -> lane, while it is lent
        self.free = list(range(100))
        self.live: dict[str, Session[str]] = {}

    def apply(self, session: Session[str], event: Event) -> tuple[Effect, ...]:
        effects = self.table.apply(session, event)
        if Effect.CLOSE in effects:
            self.free.append(self.lanes.pop(session.id))  # KeyError: given back twice
        if Effect.FORGET in effects:
            del self.live[session.id]
        return effects

    @rule(target=sessions, owner=owners)
    def prepare(self, owner):
        try:
            session = self.table.admit(owner)
        except BusyError:
            mine = [s for s in self.live.values() if s.owner == owner]
            assert len(self.live) == 5 or len(mine) == 2
            return multiple()
        self.lanes[session.id] = self.free.pop()
        self.live[session.id] = session
        return session

    @rule(session=sessions)
    def offer(self, session):
        if session.id in self.live and session.state is State.OPENING:
            self.table.offer(session, "order", self.now_s)

    @rule(session=sessions, owner=owners)
    def ready(self, session, owner):
        before, due = session.state, session.deadline_s <= self.now_s
        known = session.id in self.live and owner == session.owner and not due
        try:
            self.table.claim(session.id, owner, self.now_s)
        except ClientError as error:
            claimed = error.code is S3Code.RDMA_SESSION_CLAIMED
            assert claimed == (known and before in (State.MOVING, State.COMMITTING))
        else:
            assert known
            assert before is State.PREPARED

    @rule(session=sessions, owner=owners)
    def cancel(self, session, owner):
        found = self.table.owned(session.id, owner)
        if found is not None:
            self.apply(found, Event.CANCEL)

    @rule(session=sessions)
    def arrive(self, session):
        if session.id in self.live and session.state is State.MOVING:
            self.apply(session, Event.ARRIVED)

    @rule(session=sessions)
    def end(self, session):
        if session.state in (State.OPENING, State.MOVING, State.COMMITTING):
            self.apply(session, Event.END)

    @rule(session=consumes(sessions))
    def close(self, session):
        if session.id in self.live and session.state is State.CLOSING:
            self.apply(session, Event.CLOSED)

    @rule(passed_s=st.floats(0.1, 20))
    def tick(self, passed_s):
        self.now_s += passed_s
        for session in self.table.expired(self.now_s):
            assert session.state is State.PREPARED
            self.apply(session, Event.EXPIRE)

    @invariant()
    def bounded_and_consistent(self):
        assert len(self.table) == len(self.live) <= 5
        assert sum(self.table.census().values()) == len(self.live)
        assert len(set(self.lanes.values()) | set(self.free)) == 100
        assert len(self.lanes) + len(self.free) == 100

    def teardown(self):
        for session in self.table.stop():
            self.apply(session, Event.STOP)
            if session.state in (State.OPENING, State.MOVING, State.COMMITTING):
                self.apply(session, Event.END)
            self.apply(session, Event.CLOSED)
        assert len(self.table) == 0
        assert not self.lanes
        assert self.table.next_deadline_s() == math.inf


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
