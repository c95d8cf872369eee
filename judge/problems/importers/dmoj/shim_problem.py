"""The names that graders for DMOJ's judge import as dmoj.problem. Goes into converted packages."""


class TestCase:
    """One test, as far as a grader is told of it here."""

    def __init__(self, input_data: bytes, answer: bytes, points: float) -> None:
        self._given, self._answer, self.points = input_data, answer, points

    def input_data(self) -> bytes:
        """The input."""
        return self._given

    def output_data(self) -> bytes:
        """The answer."""
        return self._answer

    def free_data(self) -> None:
        """Nothing is kept."""
