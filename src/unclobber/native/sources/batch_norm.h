// What `unclobber.hooks.batch_norm` asks in each training step of each such module.
#pragma once
#include "common.h"

namespace unclobber::batch_norm {

// batch_norm_rests(module, input, classes, statistics, replaceable): as `_rests` there, which it stands for.
PyObject* rests(PyObject* module, PyObject* arguments);

}  // namespace unclobber::batch_norm
