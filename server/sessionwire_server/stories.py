"""What the simulated agent of the demo works on: tasks, and what it thinks, does and says.

Plain data for `workload`; nothing here happened. Braces are filled in from a story's own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["STORIES", "Scout", "Step", "Story"]


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the agent: what it thinks, what it says, and the tools it then uses.

    Attributes:
        tools: name and main argument of each tool.
    """

    intent: str
    thought: str
    says: str
    tools: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Scout:
    """A sub-agent: what it is sent for, what it looks at, and what it brings back."""

    task: str
    looks: tuple[tuple[str, str], ...]
    report: str


@dataclass(frozen=True, slots=True)
class Story:
    """One task from the user's message to the answer.

    Attributes:
        title, asks: what it is called, and the user's message.
        files: what is changed.
        steps: reading, looking closer, changing.
        scouts: sub-agents that go out after the first step.
        question: what is asked of the user after that.
        choices: what may be chosen, each with what the agent then says.
        plan: its summary and its text, which is shown before the last step.
        answer: what it says in the end.
    """

    title: str
    asks: str
    files: tuple[str, ...]
    steps: tuple[Step, Step, Step]
    scouts: tuple[Scout, ...]
    question: str
    plan: tuple[str, str]
    answer: str
    choices: Mapping[str, str] = field(default_factory=dict[str, str])


STORIES: Final = (
    Story(
        title="Fix the flaky upload test",
        asks="test_upload_resumes fails about once in twenty runs on CI. Please find out why and"
        " fix the cause, not the test.",
        files=("upload/session.py", "upload/retry.py", "tests/test_upload.py"),
        steps=(
            Step(
                "Reading the failing test",
                "The test fails only sometimes, so something in it depends on timing or on order."
                " First I want to see the test itself and the code that resumes an upload, before I"
                " believe any theory. A race between the retry timer and the acknowledgement would"
                " fit, but so would a clock that jumps.",
                "I will read the test and the code it covers, and send someone to look for other"
                " tests that share the fixture.",
                (("view", "tests/test_upload.py"), ("grep", "resume_from")),
            ),
            Step(
                "Reproducing the failure",
                "The fixture starts the retry timer before the server has its port. If the first"
                " attempt comes before the listener, the offset is taken from the wrong response."
                " Running the test many times with a shuffled order should show it.",
                "The timer is started before the listener is ready. Let me see whether that really"
                " makes it fail.",
                (("bash", "pytest tests/test_upload.py -k resumes --count 200 -q"),),
            ),
            Step(
                "Fixing the order",
                "Nine failures in two hundred runs, all with offset zero. So the acknowledgement of"
                " an attempt that was given up is taken for the one that counts. The attempt needs"
                " a number, and an answer to an older one must be dropped.",
                "Reproduced: a late answer to an abandoned attempt resets the offset. I will number"
                " the attempts and ignore answers to old ones.",
                (
                    ("edit", "upload/session.py"),
                    ("edit", "upload/retry.py"),
                    ("bash", "pytest tests/test_upload.py -k resumes --count 1000 -q"),
                ),
            ),
        ),
        scouts=(
            Scout(
                "Find every user of the upload fixture",
                (("grep", "upload_server"), ("view", "tests/conftest.py")),
                "Three tests use the fixture; only test_upload_resumes restarts the server while a"
                " retry is pending.",
            ),
            Scout(
                "Look for the change that introduced it",
                (("bash", "git log --oneline -15 -- upload/retry.py"),),
                "The timer was moved before the listener when the retry policy became"
                " configurable.",
            ),
        ),
        question="Which side shall hold the fix?",
        choices={
            "Only the client": "Then the server stays as it is, and the client drops late answers.",
            "Client and server": "Then both number the attempts, and each drops what is late.",
        },
        plan=(
            "Number the attempts and drop late answers",
            "# Plan\n"
            "\n"
            "1. Give every attempt a number in upload/session.py.\n"
            "2. Send it along and compare it in upload/retry.py.\n"
            "3. Run the test a thousand times.",
        ),
        answer="The cause was a late answer. When an attempt was given up, its response could still"
        " arrive and reset the offset to zero, so the next attempt began anew. Attempts are"
        " numbered now and an answer to an older one is dropped. A thousand runs pass; the test"
        " itself is unchanged.",
    ),
    Story(
        title="Make the report page load faster",
        asks="The monthly report takes eight seconds for our largest customer. Can you get it below"
        " one second without changing what it shows?",
        files=("reports/monthly.py", "reports/queries.sql", "tests/test_reports.py"),
        steps=(
            Step(
                "Measuring before changing",
                "Eight seconds may be one slow query or a thousand fast ones. Guessing is cheap and"
                " usually wrong, so a profile comes first. The largest customer has four hundred"
                " thousand rows, which is not much for a database.",
                "First a profile of the page with the large data set.",
                (("bash", "python -m reports.profile --customer large"),),
            ),
            Step(
                "Reading the queries",
                "The profile shows one query per line item: twelve thousand of them, each under a"
                " millisecond. That is a loop that asks for the tax rate of each item although"
                " there are only nine rates.",
                "It is the number of queries: one for each line item. I will look at how the rates"
                " are read.",
                (("view", "reports/monthly.py"), ("view", "reports/queries.sql")),
            ),
            Step(
                "Joining instead of looping",
                "A join with the rates gives the same rows in one query. Rounding must stay where"
                " it is, per item and not on the sum, or the totals differ by cents.",
                "I will join the rates and keep the rounding per item, then compare the page byte"
                " by byte with the old one.",
                (
                    ("edit", "reports/queries.sql"),
                    ("edit", "reports/monthly.py"),
                    ("bash", "python -m reports.compare --customer large --old main"),
                ),
            ),
        ),
        scouts=(
            Scout(
                "Check the indexes of the tables involved",
                (("bash", "psql -c '\\d line_items'"), ("grep", "CREATE INDEX")),
                "The join column of line_items has an index; tax_rates is small enough for none.",
            ),
            Scout(
                "Find other pages with the same loop",
                (("grep", "rate_for("), ("view", "reports/yearly.py")),
                "The yearly report has the same loop; nothing else calls rate_for.",
            ),
        ),
        question="Shall I look at the yearly report as well?",
        choices={
            "Only the monthly one": "Then I leave the yearly report alone and say what I see.",
            "Both": "Then I do the monthly report first and use the same query for the yearly one.",
        },
        plan=(
            "Join the rates in one query",
            "# Plan\n"
            "\n"
            "1. Join tax_rates in reports/queries.sql.\n"
            "2. Drop the loop in reports/monthly.py, keep the rounding.\n"
            "3. Compare the page with the old one, byte by byte.",
        ),
        answer="The page asked the database once for every line item. It is one query now, and the"
        " report for the largest customer takes 0.4 seconds instead of 8.1. The output is the same,"
        " byte for byte. The yearly report has the same loop; I left it alone, say so if you want"
        " it changed as well.",
    ),
    Story(
        title="Rotate the signing keys",
        asks="Our tokens are all signed with one key from 2021. Please let the service take several"
        " keys, so that we can rotate them without logging everybody out.",
        files=("auth/tokens.py", "auth/keys.py", "tests/test_tokens.py"),
        steps=(
            Step(
                "Finding where keys are used",
                "Rotation means that old tokens stay valid until they expire, so verification needs"
                " all keys while signing needs the newest. The token header can carry a key id, but"
                " tokens without one exist already and must keep working.",
                "I will look at how tokens are signed and checked today.",
                (("view", "auth/tokens.py"), ("grep", "SIGNING_KEY")),
            ),
            Step(
                "Adding a key ring",
                "A ring with an id per key: the first signs, all of them verify. A token without an"
                " id is tried against the oldest key only, so that nobody can choose which key"
                " checks a forged one.",
                "A small ring of keys does it: the first signs, all verify, and tokens without a"
                " key id go to the oldest.",
                (("create", "auth/keys.py"), ("edit", "auth/tokens.py")),
            ),
            Step(
                "Testing the rotation",
                "The interesting cases are a token signed before the rotation, one signed after it,"
                " one with an unknown id, and one whose key was retired. Each needs a test that"
                " fails without the change.",
                "Now the tests: before and after a rotation, unknown ids, retired keys.",
                (("edit", "tests/test_tokens.py"), ("bash", "pytest tests/test_tokens.py -q")),
            ),
        ),
        scouts=(
            Scout(
                "List what else reads the signing key",
                (("grep", "SIGNING_KEY"), ("view", "deploy/values.yaml")),
                "Only auth/tokens.py and the deployment values read it; the worker does not.",
            ),
            Scout(
                "Check how long tokens live",
                (("grep", "expires_in"),),
                "Access tokens live for an hour, refresh tokens for thirty days.",
            ),
        ),
        question="How long must an old key stay valid?",
        choices={
            "Thirty days": "Thirty days then, the life of a refresh token.",
            "One hour": "One hour then; refresh tokens from before will ask for a new login.",
        },
        plan=(
            "A ring of keys, the first of which signs",
            "# Plan\n"
            "\n"
            "1. Test tokens from before and after a rotation.\n"
            "2. Test unknown ids and retired keys.\n"
            "3. Run the whole suite of the tokens.",
        ),
        answer="The service takes a list of keys now. The first one signs, all of them verify, and"
        " the key id is in the token's header. Tokens from before carry none and are checked with"
        " the oldest key, so nobody is logged out. Keep a retired key in the list for thirty days,"
        " the life of a refresh token, then drop it.",
    ),
)
