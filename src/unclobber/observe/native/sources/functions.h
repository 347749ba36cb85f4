// The calls of custom Functions, as unclobber/observe/hooks/functions.py observes them, without Python while there is
// nothing to be noted.
#pragma once
#include "common.h"

#include <c10/core/StorageImpl.h>

namespace unclobber::functions {

// Add the class `Backward` to the module.
void add_to(PyObject* module);

// observe_functions(parts): take over from Python what the calls need, by name. Returns what goes into torch's classes:
// the ctx's `__init__` and `__setattr__`, and the `__get__` of a Function's method. `StandIn` gets its
// methods here.
PyObject* observe(PyObject* module, PyObject* parts);

// functions_run(on): whether the native core observes calls from now on, or the functions in Python do. Returns what is called at
// the end.
PyObject* run(PyObject* module, PyObject* on);

// How many own a gradient that no other consumer waits for, and the base of one; -1 if unknown.
void learn(long owners, long of_base);

// times_handed(gradient): how often running backwards of this thread, which the core calls, were given it.
PyObject* times_handed(PyObject* module, PyObject* gradient);

// Whether an object is a running `forward`.
bool is_forward(PyObject* object);

// Whether an argument of a running `forward` lies in this storage. If one of them is no leaf, `computed` is set: its
// old values matter. The interpreter's lock is held.
bool follows(PyObject* forward, c10::StorageImpl* storage, bool* computed);

// Note a write to the storage, of which `follows` holds. `shifts`: as `FollowedWrite.shifts`.
void note(PyObject* forward, c10::StorageImpl* storage, PyObject* operation, bool shifts);

}  // namespace unclobber::functions
