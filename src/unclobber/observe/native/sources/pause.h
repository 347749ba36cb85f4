// Whether backward may run unobserved: the check of each save in `unclobber.observe.hooks.pause.PauseInBackward.allowed`.
#pragma once
#include "common.h"

namespace unclobber::saves {
class Queue;
}

namespace unclobber::pause {

// True or False; "hook" if a leaf has a hook; None if Python must inspect each save. The interpreter's
// lock is held.
PyObject* can_pause_observation(saves::Queue& queue);

}  // namespace unclobber::pause
