#pragma once
#include "common.h"

namespace unclobber::pack {

// Add the class `Pack` to the module.
void add_to(PyObject* module);

}  // namespace unclobber::pack
