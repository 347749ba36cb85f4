// Whether backward may run unobserved: what `unclobber.hooks.pause.PauseInBackward.allowed` asks of each save.
#pragma once
#include "common.h"

namespace unclobber::saves {
class Queue;
}

namespace unclobber::pause {

// True or False; "hook" where a leaf has a hook; None where Python must look at each save. The interpreter's
// lock is held.
PyObject* can_pause_observation(saves::Queue& queue);

}  // namespace unclobber::pause
