"""A storage's log of writes stays short however long the program runs."""

from unclobber.observe.record import TracedName, WriteEvent
from unclobber.observe.record._write_event import folded

# not the same text: code objects of equal text and line are equal, whatever their file
LINE, OTHER = (compile("1", "a.py", "eval"), 0), (compile("2", "b.py", "eval"), 0)


def event(serial, stack=LINE, operation="add_", region=None):
    made = WriteEvent(operation, stack, None, bumps=True, version=serial)
    made.last = serial
    made.region = region
    return made


def told(events):
    return [(e.stack, e.operation, e.last, e.count) for e in events]


def test_equal_writes_become_one():
    """The first of them has the number of all, and of the last."""
    assert told(folded([event(n) for n in range(5)], 0)) == [(LINE, "add_", 4, 5)]


def test_other_lines_operations_and_regions_stay_apart():
    """Each is told, in the order of their first."""
    log = [event(0), event(1, OTHER), event(2, operation="mul_"), event(3, region="r"), event(4, OTHER)]
    assert told(folded(log, 0)) == [
        (LINE, "add_", 0, 1),
        (OTHER, "add_", 4, 2),
        (LINE, "mul_", 2, 1),
        (LINE, "add_", 3, 1),
    ]


def test_what_no_live_save_saw_is_dropped():
    """Writes before the oldest live save are nobody's."""
    assert told(folded([event(0, OTHER), event(1), event(2), event(3)], 2)) == [(LINE, "add_", 3, 2)]


def test_a_span_that_reaches_a_live_save_stays():
    """A folded entry counts by its last write."""
    once = folded([event(0), event(5)], 0)
    assert told(folded(once, 3)) == [(LINE, "add_", 5, 2)]


def test_folding_twice_adds_up():
    """Numbers are kept when a folded log grows and is folded again."""
    once = folded([event(0), event(1)], 0)
    assert told(folded([*once, event(2), event(3, OTHER)], 0)) == [
        (LINE, "add_", 2, 3),
        (OTHER, "add_", 3, 1),
    ]


def test_a_line_that_is_compiled_anew_is_the_same_line():
    """Other code objects, equal but for the file they are of."""
    again, elsewhere = (compile("1", name, "eval") for name in ("a.py", "c.py"))
    assert again is not LINE[0]
    log = [event(0), event(1, (again, 0)), event(2, (elsewhere, 0)), event(3)]
    assert [(e.last, e.count) for e in folded(log, 0)] == [(3, 3), (2, 1)]


def test_lines_of_one_compiled_graph_stay_apart():
    """All are seen at one stack, that of the graph's run."""
    log = [event(n, operation=TracedName("add_", traced)) for n, traced in enumerate((LINE, OTHER, LINE))]
    assert [(e.last, e.count) for e in folded(log, 0)] == [(2, 2), (1, 1)]
