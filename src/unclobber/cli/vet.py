"""``unclobber vet``: trains a module in the ways in which people train, and says in which it can't be."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

import click

from ..model import Report, UnclobberError
from ..model.text import plural
from ..repair import with_candidates
from ..report import FORMATS, options_for, text_of, to_json
from ._delivery import Delivery
from ._errors import UsageError
from ._options import JOBS_OPTION, OUTPUT_OPTION, a_file, choices, format_of
from ._output import OutputFile, json_text
from ._progress import program_progress
from ._terminal import COMMAND
from ._torch import require_torch

if TYPE_CHECKING:
    from ..model import Finding
    from ..vetting import Target, Vetting

_MOST_STORIES = 8


@click.command(
    context_settings=COMMAND,
    epilog="""
    \b
    Examples:
      unclobber vet model.py:make_model
      unclobber vet 'package.model:Net(64, depth=2)' --inputs inputs.py:make_inputs
      unclobber vet package.model:Net --config net.json --way leaf --way lora
      unclobber vet hf:blip timm:resnet18 --format json --output vet.json

    A factory may return (module, inputs). Inputs are a dict of keyword arguments, a tuple, or one value; a
    function of --inputs that takes a parameter gets the module. Inputs that nobody gives are guessed from the
    module's configuration, layers and signature. A module of hf: and timm: is tiny and random, and nothing is
    downloaded.

    Each way is run plain and under guard, from the same seeds, in a process of its own with one thread. It is
    a fault if torch refuses it for an in-place operation or a freed graph, or if the gradients differ in one
    bit. A way that fails for other reasons is not applicable.

    Exit code: 0 no fault, 1 faults, 2 wrong use, a module that can't be trained at all, or a fault of
    unclobber itself.
    """,
)
@click.option("--config", metavar="FILE", shell_complete=a_file, help="JSON file with TARGET's arguments.")
@click.option(
    "--inputs", metavar="FILE.py:FUNCTION", shell_complete=a_file, help="Function that makes the inputs."
)
@click.option("--way", "chosen", metavar="NAME", multiple=True, help="Try only this way; all by default.")
@click.option("--list", "list_ways", is_flag=True, help="List the ways, and run nothing.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=120.0,
    metavar="S",
    help="Seconds for each way (120).",
)
@JOBS_OPTION
@format_of(FORMATS)
@OUTPUT_OPTION
@click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=choices(("hf:", "timm:")))
def command(
    *,
    config: str | None,
    inputs: str | None,
    chosen: tuple[str, ...],
    list_ways: bool,
    timeout: float,
    jobs: int,
    format_: str,
    output: OutputFile | None,
    targets: tuple[str, ...],
) -> int:
    """Train a module in the ways in which people train, and explain those in which it can't be trained.

    TARGET is `package.module:Class`, `script.py:make_model`, `hf:TYPE` (a model type of Transformers) or
    `timm:NAME`.
    """
    # Before torch is imported: pools of threads would forbid forks, and each way has one core.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if not targets and not list_ways:
        raise UsageError("no module named", "Name one: `unclobber vet model.py:make_model`.")
    if list_ways and format_ != "text":
        raise UsageError("--list is for the text format", f"Leave --format {format_} out.")
    if len(targets) > 1 and (config or inputs):
        raise UsageError("--config and --inputs are for one target", "Name one target.")
    require_torch()
    import torch

    from ..vetting import Target, Vetting, checked_ways, run_ways, ways

    if list_ways:
        formatter = click.get_current_context().make_formatter()
        formatter.write_dl([*checked_ways(ways).items()])
        Delivery("text", output, of_program=False).send(lambda _: formatter.getvalue())
        return 0
    names = tuple(checked_ways(chosen or ways))
    # Results must not depend on the number of cores, and a pool of threads would forbid forks.
    torch.set_num_threads(1)
    vettings: list[Vetting] = []
    built = [Target(target, config, inputs) for target in targets]
    # Not the spinner of `said`: its thread would forbid forks.
    with program_progress() as show:
        for target in built:
            step = _step(show, target.name, len(names))
            step("loaded", 0)
            try:
                # What the module's code prints is no part of a report.
                with contextlib.redirect_stdout(sys.stderr):
                    case = target.load()
                results = run_ways(target, case, names, jobs=jobs, limit=timeout, on_step=step)
                vettings.append(_check_trained(Vetting(target.name, results)))
            except UnclobberError as error:
                vettings.append(Vetting(target.name, (), str(error)))
        problems = [vetting.problem for vetting in vettings if vetting.problem]
        if len(problems) == len(vettings):
            raise UnclobberError("; ".join(problems))
        findings = _proved(vettings, built, timeout, show)
    code = 2 if problems else int(any(vetting.faults for vetting in vettings))
    report = _report(findings, vettings, targets, code)
    delivery = Delivery(format_, output, of_program=False)
    delivery.send(lambda stream: _rendered(report, vettings, format_, stream))
    if problems:
        raise UnclobberError("; ".join(problems))
    return code


def _step(show: Callable[[str], None], target: str, count: int) -> Callable[[str, int], None]:
    """Return a function that shows a way of a target and the number of those done."""

    def step(way: str, done: int) -> None:
        show(f"{target}: {way} ({done} of {count} done)")

    return step


def _proved(
    vettings: list[Vetting], targets: list[Target], timeout: float, show: Callable[[str], None]
) -> tuple[Finding, ...]:
    """Return the findings with edits that `fix` has proved, where the module's file may be written."""
    from ..repair import Project, Runner, fix
    from ..vetting import with_proofs

    with contextlib.ExitStack() as stack:

        @functools.cache
        def runner() -> Runner:
            return stack.enter_context(Runner(timeout))

        def prove(path: str, text: str, words: tuple[str, ...]) -> tuple[Finding, ...]:
            """Return the findings of a program, with proved edits in the project of a file."""
            project = Project.of(path)
            if not (os.access(path, os.W_OK) and project.owns(path)):
                return ()
            program = runner().file("way.py")
            with open(program, "w", encoding="utf-8") as file:
                file.write(text)
            rounds = fix(
                program,
                words,
                runner=runner(),
                fix_all=True,
                progress=lambda step: show(f"{words[1]}: {step}"),
                root=project.root,
            )
            return rounds.report(()).findings

        return with_proofs(vettings, targets, prove)


def _check_trained(vetting: Vetting) -> Vetting:
    """Return the results; raise an UnclobberError if the module can't even be trained the plain way."""
    for result in vetting.results:
        # Any other way may lack what it needs, but a module that never trains is a wrong target.
        if result.way == "plain" and result.verdict == "not applicable":
            raise UnclobberError(f"{vetting.name} can't be trained at all: {result.reason}")
    return vetting


def _report(
    findings: tuple[Finding, ...], vettings: list[Vetting], targets: tuple[str, ...], code: int
) -> Report:
    """Return the findings of all modules as a report with candidate edits, and the faults as notices."""
    import torch

    report = Report(
        "clean",
        findings,
        torch_version=str(torch.__version__),
        command=("vet", *targets),
        exit_code=code,
        notices=tuple(
            f"{vetting.name}: {result.way}: {result.verdict}: {result.row()[2]}"
            for vetting in vettings
            for result in vetting.faults
            # A fault with findings needs no sentence, because they explain it.
            if not result.findings
        ),
    )
    return with_candidates(report.judged(failed=False), every=True)


def _rendered(report: Report, vettings: list[Vetting], format_: str, stream: TextIO | None) -> str:
    """Return the report in a format: as text the stories and then the table, as JSON with the ways."""
    from ..vetting import Vetting

    options = options_for(stream)
    # Its keys are those of every report, and one more: a reader of reports needs to learn nothing.
    if format_ == "json":
        document = to_json(report) | {"vetted": [vetting.to_dict() for vetting in vettings]}
        return json_text(document)
    if format_ != "text":
        return f"{FORMATS[format_](report, options)}\n"
    # What backward would refuse next is a consequence of what it refused; JSON has it.
    own_findings = [finding for finding in report.findings if not finding.ahead]
    parts = [text_of(finding, options) for finding in own_findings[:_MOST_STORIES]]
    if left := own_findings[_MOST_STORIES:]:
        parts.append(f"{plural(len(left), 'more finding')}: --format json")
    counts = "; ".join(f"{vetting.name}: {_counted(vetting)}" for vetting in vettings)
    # One line for `grep` comes last, as in other reports.
    return "\n\n".join([*parts, Vetting.table(vettings), f"SUMMARY: {counts}"]) + "\n"


def _counted(vetting: Vetting) -> str:
    if vetting.problem:
        return "not built"
    late = sum(result.verdict == "time limit" for result in vetting.results)
    faults = f"{len(vetting.faults)} of {plural(len(vetting.results), 'way')} with a fault"
    return f"{faults}, {plural(late, 'way')} without an answer in time" if late else faults
