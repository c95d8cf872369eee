from dmoj.graders.interactive import InteractiveGrader
from dmoj.result import CheckerResult


class Grader(InteractiveGrader):
    def interact(self, case, interactor):
        secret = int(case.input_data())
        for count in range(1, 21):
            guess = interactor.readint(1, 1000)
            if guess == secret:
                interactor.writeln("OK")
                return CheckerResult(True, case.points if count <= 10 else case.points / 2, f"{count} guesses")
            interactor.writeln("LOWER" if guess > secret else "HIGHER")
        return False
