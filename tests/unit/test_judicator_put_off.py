"""Loops of a judicator wait for a database that is away, and for nothing else."""

import logging

import pytest
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError, ServerSelectionTimeoutError

from judge.judicator.loops import put_off


@pytest.mark.parametrize("fault", [AutoReconnect("gone"), ServerSelectionTimeoutError("nobody there")])
def test_a_database_that_is_away_is_waited_for(fault: PyMongoError, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), put_off("figures"):
        raise fault
    assert caplog.messages == [f"put off: figures; the database does not answer: {fault}"]


@pytest.mark.parametrize("fault", [OperationFailure("no such operator", code=2), ValueError("a fault of ours")])
def test_a_fault_is_none_of_that(fault: Exception) -> None:
    with pytest.raises(type(fault)), put_off("figures"):
        raise fault
