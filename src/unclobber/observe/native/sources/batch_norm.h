// Check of `unclobber.observe.hooks.batch_norm`, which runs in each training step of each batch norm module.
#pragma once
#include "common.h"

namespace unclobber::batch_norm {

// batch_norm_rests(module, input, classes, statistics, replaceable): replaces `_rests` there, same result.
PyObject* rests(PyObject* module, PyObject* arguments);

}  // namespace unclobber::batch_norm
