"""The help that a report prints, done as it says: the program then trains with guard's gradients.

Only the help that names a copy (``use `x.clone()` …``) is carried out here, by putting the copy into the line
that saved. ``repair/`` runs the edits, and test_guarded.py runs the help that names guard.
"""

import contextlib
import io
import re
import warnings

import pytest
from test_guarded import differences

import unclobber
from programs.running import find_cases, gradients

ONCE = {"UC102/library_op_hides_mutation"}
"""A process can register its operators only once."""
_OTHER_HELP = """
UC101/classifier_leading_relu UC101/gan_discriminator_step_too_early UC101/gan_inplace_dropout
UC101/kv_cache_teacher_forcing UC101/relu_then_inplace_dropout UC101/replica_buffer_sync
UC101/sac_policy_loss_early UC101/sigmoid_recursion_buffer UC101/spectral_power_iteration
UC101/speech_pos_conv UC101/srgan_critic_step UC101/swiglu_backward_reuse UC102/a_write_to_what_data_gave
UC102/batch_norm_s_statistics UC102/data_other UC102/data_other_then_a_write_to_what_it_was
UC102/ema_weights_swapped_in_by_data UC102/eval_graph_then_train_forward
UC102/evicted_rows_reset_through_data UC102/fused_adam UC102/fused_sgd
UC102/hidden_write_version_preserved UC102/line_search_vector_aliases_params
UC102/parameters_that_alias_a_vector UC102/reference_class_subtracted_in_place
UC102/set__with_the_counter_kept UC102/the_last_of_several
"""
OTHER_HELP = frozenset(_OTHER_HELP.split())
"""Their help names no copy: a step later, a module without `inplace`, a new tensor."""
CASES = [c for c in find_cases() if c.name.startswith(("UC101/", "UC102/")) and c.name not in ONCE]


def run(text: str, path: str, context) -> tuple[dict, list[unclobber.Finding]]:
    """The gradients that a program prints in a context, and the findings there."""
    out, found = io.StringIO(), []
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with context as session:
                exec(compile(text, path, "exec", dont_inherit=True), {"__name__": "__main__"})
            found = list(getattr(session, "report", session).findings)
        except unclobber.InplaceError as error:
            found = [error.finding]
    return gradients(out.getvalue()), found


def with_the_copy(text: str, finding: unclobber.Finding) -> str | None:
    """The program with the copy that the help names; None if it names none."""
    named = [re.search(r"use `(.+)\.clone\(\)`", fix.title) for fix in finding.fixes]
    copied = next((match[1] for match in named if match is not None), None)
    if copied is None or finding.saved is None or finding.saved.site is None:
        return None
    lines = text.split("\n")
    at = finding.saved.site.line - 1
    # A result is in the line as it is; an operand is a name there.
    operand = re.compile(rf"(?<![\w.]){re.escape(copied)}(?![\w.(]|\s*=[^=])")
    assert operand.search(lines[at]), (copied, lines[at])
    lines[at] = operand.sub(f"{copied}.clone()", lines[at])
    return "\n".join(lines)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_copy_cures(case):
    """Torch no longer refuses, and the gradients are those of guard."""
    _, (finding, *_) = run(case.text, str(case.path), unclobber.watch())
    cured = with_the_copy(case.text, finding)
    assert (cured is None) == (case.name in OTHER_HELP)
    if cured is None:
        return
    guarded, _ = run(case.text, str(case.path), unclobber.guard())
    found, again = run(cured, str(case.path), unclobber.watch())
    assert again == []
    assert differences(found, guarded) == []


def test_a_copy_of_what_is_read_later_is_none(tmp_path):
    """``exp`` saved its result, and that is still overwritten: the comparison above would fail."""
    text = "import torch\nw = torch.ones(3, requires_grad=True)\ny = w.exp()\ny *= 2\ny.sum().backward()\n"
    path = tmp_path / "program.py"
    path.write_text(text)
    _, (finding,) = run(text, str(path), unclobber.watch())
    assert with_the_copy(text, finding).split("\n")[2] == "y = w.exp().clone()"
    _, again = run(text.replace("y.sum()", "y.clone().sum()"), str(path), unclobber.watch())
    assert [one.code for one in again] == ["UC101"]
