#pragma once
#include "common.h"

namespace unclobber::saves {

// Add the class `Pack` to the module.
void add_to(PyObject* module);

}  // namespace unclobber::saves
