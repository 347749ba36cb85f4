// The extension module: compiled by `unclobber build-native` for one build of torch and of Python.
#include "backward.h"
#include "batch_norm.h"
#include "engine.h"
#include "functions.h"
#include "handed.h"
#include "hooks.h"
#include "journal.h"
#include "notes.h"
#include "pack.h"
#include "queue.h"
#include "records.h"
#include "stacks.h"
#include "steps.h"
#include "unpack.h"
#include "views.h"
#include "writes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <link.h>

namespace {

using namespace unclobber;

PyObject* setup(PyObject*, PyObject* arguments) {
  PyObject *saved_tensor, *is_library, *ours, *callers;
  if (!PyArg_ParseTuple(arguments, "OOUO", &saved_tensor, &is_library, &ours, &callers)) throw python_error();
  records::learn(saved_tensor);
  saves::learn_callers(callers);
  stacks::learn(is_library, ours);
  return Py_NewRef(Py_None);
}

PyObject* newest(PyObject*, PyObject*) {
  stacks::Operation* operation = stacks::newest();
  if (operation == nullptr) return must(Py_BuildValue("(i())", -1)).release();
  return must(Py_BuildValue("(KO)", static_cast<unsigned long long>(operation->node), operation->tuple())).release();
}

PyObject* loads(PyObject*, PyObject*) {
  unsigned long long adds = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* to) {
        *static_cast<unsigned long long*>(to) = library->dlpi_adds;
        return 1;  // each library has the same count
      },
      &adds);
  return must(PyLong_FromUnsignedLongLong(adds)).release();
}

PyObject* is_resizable(PyObject*, PyObject* tensor) {
  return PyBool_FromLong(THPVariable_Unpack(tensor).storage().unsafeGetStorageImpl()->resizable());
}

PyObject* forget_steps(PyObject*, PyObject*) {
  steps::forget();
  return Py_NewRef(Py_None);
}

PyObject* forget(PyObject*, PyObject*) {
  notes::forget();
  steps::forget();
  views::forget();
  stacks::sweep(true);
  drop_now();
  return Py_NewRef(Py_None);
}

PyObject* known(PyObject*, PyObject*) {
  return must(Py_BuildValue("(nn)", static_cast<Py_ssize_t>(stacks::known()), static_cast<Py_ssize_t>(notes::known())))
      .release();
}

PyObject* learn(PyObject*, PyObject* counts) {
  long known[5];  // by a tensor's hook, a Function, a module's output, its input, and as the base of a view
  for (int i = 0; i < 5; i++) {
    Owned one = must(PySequence_GetItem(counts, i));
    known[i] = one.get() == Py_None ? -1 : PyLong_AsLong(one.get());
  }
  functions::learn(known[1], known[4]);
  hooks::learn(known[0], known[2], known[3]);
  return Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"setup", entry<setup>, METH_VARARGS, "setup(SavedTensor, is_library, ours, callers)"},
    {"hook", entry<engine::hook>, METH_O, "hook(on): whether torch's engine asks ours; False where it can't be"},
    {"enter", entry<engine::enter>, METH_VARARGS, "enter(queue, sees): this thread saves for it from now on"},
    {"leave", entry<engine::leave>, METH_O, "leave(queue): no more"},
    {"is_innermost", entry<engine::is_innermost>, METH_O, "is_innermost(queue): whether this thread saves for it"},
    {"pushes", entry<engine::pushes>, METH_NOARGS, "pushes(): the program is about to push hooks in this thread"},
    {"of_program", entry<stacks::of_program>, METH_NOARGS, "of_program(): the stack outside of this package"},
    {"newest", entry<newest>, METH_NOARGS, "newest(): the number of the node after this thread's last save, its stack"},
    {"show", entry<saves::show>, METH_VARARGS, "show(key, on): whether an array shows the memory of this storage"},
    {"mark", entry<notes::mark>, METH_VARARGS, "mark(mark, call): which backward asks from now on, and runs in this thread"},
    {"note_of", entry<notes::note_of>, METH_O, "note_of(node): (stack, mark) of who asked last, or None"},
    {"listen", entry<writes::listen>, METH_VARARGS, "listen(listeners, told, settle): who is told of writes"},
    {"register_kernel", entry<writes::register_kernel>, METH_VARARGS,
     "register_kernel(name, overload, packet, written, plain, of_elements, bumps[, ran_dormant]): a Kernel"},
    {"batch_norm_can_pause", entry<batch_norm::can_pause>, METH_VARARGS,
     "batch_norm_can_pause(module, input, classes, statistics, replaceable)"},
    {"saved_tensors", entry<handed::saved_tensors>, METH_VARARGS,
     "saved_tensors(getter, ctx): what torch's getter gives, the program's own tensors where they are the same"},
    {"observe_backward", entry<backward::observe>, METH_VARARGS,
     "observe_backward(calls, marker, call, mark, this_thread, may_pause, of_engines_thread): what these work on"},
    {"backward_begin", entry<backward::begin>, METH_O, "backward_begin(call): the BackwardCall; None for torch's own"},
    {"backward_end", entry<backward::end>, METH_VARARGS, "backward_end(running, call): it has ended"},
    {"backward_started_at", entry<notes::started_at>, METH_O, "backward_started_at(node): the last two marks"},
    {"hook_known", entry<backward::hook_known>, METH_O, "hook_known(known): whether Python may run in backward"},
    {"engine_run", entry<backward::engine_run>, METH_VARARGS,
     "engine_run(call, observer, engine, original, slowly): what is called in place of torch's call of the engine"},
    {"watch_hooks", entry<hooks::watch>, METH_VARARGS, "watch_hooks(tensors, modules, place): the classes of stand-ins"},
    {"registering", entry<hooks::registering>, METH_O, "registering(original): it, noted as a hook's registration"},
    {"register_hook", entry<hooks::register_hook>, METH_VARARGS,
     "register_hook(patches, wrap, original): what is called in place of Tensor.register_hook"},
    {"module_hooks", entry<hooks::module_hooks>, METH_VARARGS,
     "module_hooks(patches, wrap, original): what is called in place of BackwardHook.__init__"},
    {"step_hooks", entry<steps::hooks>, METH_VARARGS, "step_hooks(pending, anything_alive): (before, after) of a step"},
    {"steps", entry<steps::all>, METH_NOARGS, "steps(): the last step of each optimizer that went unobserved"},
    {"forget_steps", entry<forget_steps>, METH_NOARGS, "forget_steps(): no step went unobserved"},
    {"observe_functions", entry<functions::observe>, METH_O, "observe_functions(parts): (__init__, __setattr__, __get__)"},
    {"functions_run", entry<functions::run>, METH_O, "functions_run(on): whether calls of Functions are observed here"},
    {"learn", entry<learn>, METH_O, "learn(counts): `gradients.Counts`, with None for an unknown one"},
    {"times_handed", entry<functions::times_handed>, METH_O,
     "times_handed(gradient): how often running backwards of Functions were given it"},
    {"view_write", entry<views::last>, METH_O, "view_write(view): (operation, stack) of the last write it missed, or None"},
    {"loads", entry<loads>, METH_NOARGS, "loads(): how many shared libraries this process has ever loaded"},
    {"is_resizable", entry<is_resizable>, METH_O, "is_resizable(tensor): whether nobody lent its storage the memory"},
    {"forget", entry<forget>, METH_NOARGS, "forget(): all notes, and stacks that nobody uses"},
    {"known", entry<known>, METH_NOARGS, "known(): how many stacks and notes are kept"},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_unclobber_native", nullptr, -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__unclobber_native() {
  return guarded(
      [] {
        Owned module = must(PyModule_Create(&definition));
        take_lock_around_forks();
        saves::learn_parts();
        pack::add_to(module.get());
        unpack::add_to(module.get());
        queue::add_to(module.get());
        writes::add_to(module.get());
        functions::add_to(module.get());
        return module.release();
      },
      static_cast<PyObject*>(nullptr));
}
