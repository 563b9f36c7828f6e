"""`python -m benchmarks`: run the cells, print the table, write it to `benchmarks/out/`.

Exit codes: 0 measured, 1 something failed or did not arrive, 2 usage, 3 the machine is busy.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine
from benchmarks.cells import CELLS, METRICS, Cell, smoke
from benchmarks.contenders import CONTENDERS, PEERS
from benchmarks.native import OUT, CompilerMissing
from benchmarks.profile import ProfilerMissing
from benchmarks.report import Table, as_json, as_markdown, tabulate
from benchmarks.runner import Measurement, Plan, measure

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    cells = ", ".join(cell.name for cell in CELLS)
    parser.add_argument("--cells", default="", help=f"comma-separated, default all: {cells}")
    contenders = ", ".join(CONTENDERS)
    parser.add_argument("--contenders", default="", help=f"comma-separated, all: {contenders}")
    parser.add_argument("--reps", type=int, default=5, help="repetitions (5)")
    parser.add_argument("--smoke", action="store_true", help="seconds only: does it work at all?")
    parser.add_argument("--profile", action="store_true", help="record stacks with py-spy")
    parser.add_argument("--port", type=int, default=0, help="of the servers (any free one)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the report")
    parser.add_argument("--wait-s", type=float, default=60, help="for another benchmark's end (60)")
    return parser


def _chosen(parser: argparse.ArgumentParser, given: str, known: Sequence[str]) -> list[str]:
    names = [name for name in given.split(",") if name] or list(known)
    for name in names:
        if name not in known:
            parser.error(f"unknown: {name} (known: {', '.join(known)})")
    return names


def _say(cells: Sequence[Cell], m: Measurement) -> None:
    where = f"[{m.rep}] {m.cell:15} {m.contender:8}"
    if m.figures is None:
        print(where, "failed:", m.error, file=sys.stderr, flush=True)
        return
    figures = m.figures
    metrics = next(cell.metrics for cell in cells if cell.name == m.cell)
    shown = [f"{METRICS[k].title} {METRICS[k].of(figures):,.{METRICS[k].digits}f}" for k in metrics]
    busy = figures["cpu_s"]["generator"] / figures["seconds"] if "seconds" in figures else 0
    late = figures["expected"] - figures["delivered_all"]
    rest = [f"generator {busy:.0%}" if busy else "", f"MISSING {late}" if late else ""]
    rest += [figures["complaints"]]
    print(where, "  ".join([*shown, *filter(None, rest)]), file=sys.stderr, flush=True)


def _write(out: Path, tables: Sequence[Table], measurements: Sequence[Measurement]) -> str:
    about = machine.describe()
    text = as_markdown(tables, about)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.md").write_text(text)
    (out / "results.json").write_text(json.dumps(as_json(tables, measurements, about), indent=1))
    return text


def _plan(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Plan:
    names = _chosen(parser, options.cells, [cell.name for cell in CELLS])
    who = set(_chosen(parser, options.contenders, list(CONTENDERS)))
    if options.smoke and not options.contenders:
        who -= {peer.name for peer in PEERS}
    for name in sorted(who):
        if needed := CONTENDERS[name].missing():
            print(f"benchmarks: {name} is left out, it needs {needed}", file=sys.stderr)
            who.discard(name)
    return Plan(
        cells=[smoke(cell) if options.smoke else cell for cell in CELLS if cell.name in names],
        contenders=frozenset(who),
        reps=1 if options.smoke else options.reps,
        port=options.port,
        share_servers=options.smoke,
        profile=options.profile,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. What is measured when it is interrupted is
    still written."""
    parser = _parser()
    options = parser.parse_args(arguments)
    plan = _plan(parser, options)
    measurements: list[Measurement] = []

    def done(measurement: Measurement) -> None:
        measurements.append(measurement)
        _say(plan.cells, measurement)

    interrupted = False
    # So that the servers are ended on a SIGTERM too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with machine.one(options.wait_s):
            measure(plan, done)
    except (machine.BenchmarkBusy, CompilerMissing, ProfilerMissing) as exc:
        print(f"benchmarks: {exc}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        interrupted = True
    tables = [tabulate(cell, measurements) for cell in plan.cells]
    print(_write(options.out, tables, measurements))
    sound = all(row.arrived == 1 and not row.errors for table in tables for row in table.rows)
    return 0 if sound and not interrupted else 1


if __name__ == "__main__":
    sys.exit(main())
