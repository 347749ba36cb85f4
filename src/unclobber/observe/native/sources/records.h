// The attributes of `unclobber.observe.record.SavedTensor`, read and written where the object keeps them.
#pragma once
#include "common.h"

namespace unclobber::records {

enum Slot { kAlias, kBase, kCopied, kEntry, kHeld, kItself, kOrigin, kRequiresGrad, kStack, kVersion, kSlots };

// Take over the class; raises TypeError unless each of the names above is one of its `__slots__`.
void learn(PyObject* saved_tensor);

// A new object of it, nothing set. Raises RuntimeError before `learn`.
Owned make();

// Whether it is one of its class or of a class below, which keep the same attributes in the same places.
bool is_record(PyObject* object);

// Whether it is one of its class itself: a save that torch would check.
bool is_checked(PyObject* object);

void set(PyObject* record, Slot slot, Owned value);

// Borrowed; raises AttributeError where it is not set.
PyObject* get(PyObject* record, Slot slot);

}  // namespace unclobber::records
