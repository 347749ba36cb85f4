// Check of `unclobber.observe.hooks.batch_norm`, which runs in each training step of each batch norm module.
#pragma once
#include "common.h"

namespace unclobber::batch_norm {

// batch_norm_can_pause(module, input, classes, statistics, replaceable): replaces `_can_pause` there, same result.
PyObject* can_pause(PyObject* module, PyObject* arguments);

}  // namespace unclobber::batch_norm
