"""What one certificate may have under way at a judicator."""

import pytest

from judge.common.errors import UnavailableError
from judge.rpc.quotas import REPORT_BYTES, Quotas


def test_the_body_of_a_request_counts_only_until_it_is_read() -> None:
    quotas = Quotas()
    for _ in range(3):
        with quotas.body("e1", 4 * REPORT_BYTES):
            with pytest.raises(UnavailableError), quotas.body("e1", 1):
                pass
            with quotas.body("e2", 1):
                pass
