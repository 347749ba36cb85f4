// Stacks as `unclobber.source.frames` keeps them: (code, lasti, code, lasti, ...), innermost first.
#pragma once
#include "common.h"

namespace unclobber::stacks {

// The innermost Python frame of this thread; empty where no Python runs.
Owned innermost();

// What a frame executes, and the offset of the instruction that it is at.
Owned code_of(PyObject* frame);
int lasti_of(PyObject* frame);

// The stack from `frame` on: its first 32 frames, and further down to the program's first one where all of
// those are a library's, which `deeper(frame, list)` sees to.
Owned from(PyObject* frame, PyObject* deeper);

}  // namespace unclobber::stacks
