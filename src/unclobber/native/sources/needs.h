#pragma once
#include "common.h"

namespace unclobber::needs {

// Add the class `Unpack` to the module.
void add_to(PyObject* module);

}  // namespace unclobber::needs
