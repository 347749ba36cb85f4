#pragma once
#include "common.h"

namespace unclobber::unpack {

// Add the class `Unpack` to the module.
void add_to(PyObject* module);

}  // namespace unclobber::unpack
