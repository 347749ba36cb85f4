#include "hooks.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <vector>

#include "backward.h"

namespace unclobber::hooks {

namespace {

// A class of what stands in for a hook.
struct Kind {
  PyObject* type = nullptr;
  PyObject* slowly = nullptr;  // its `__call__` in Python
};
Kind tensors, modules;  // with what is below under the interpreter's lock, and owned for the life of the process
PyObject* place = nullptr;
long of_tensor = -1, of_output = -1, of_input = -1;

PyObject* hook_of(PyObject* stand_in) {
  return Py_TYPE(place)->tp_descr_get(place, stand_in, reinterpret_cast<PyObject*>(Py_TYPE(stand_in)));
}

Owned stand_in_for(PyObject* hook, const Kind& kind) {
  auto* type = reinterpret_cast<PyTypeObject*>(kind.type);
  Owned made = must(type->tp_alloc(type, 0));
  must(Py_TYPE(place)->tp_descr_set(place, made.get(), hook));
  return made;
}

// Whether no other consumer waits for a gradient, without more looking: `gradients._shared`.
bool is_alone(PyObject* gradient, long owners) {
  if (!is_tensor(gradient)) return true;
  const at::Tensor& tensor = THPVariable_Unpack(gradient);
  return static_cast<long>(tensor.use_count()) <= owners && !tensor.is_view();
}

Owned call_slowly(const Kind& kind, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  std::vector<PyObject*> all{self};
  all.insert(all.end(), args, args + count + named);
  return must(PyObject_Vectorcall(kind.slowly, all.data(), static_cast<size_t>(count) + 1, names));
}

// `_WatchedHook.__call__`
PyObject* call_hook(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded(
      [&] {
        const bool usual = count == 1 && names == nullptr && (c10::GradMode::is_enabled() || is_alone(args[0], of_tensor));
        if (!usual) return call_slowly(tensors, self, args, count, names).release();
        Owned hook = must(hook_of(self));
        return must(PyObject_Vectorcall(hook.get(), args, 1, nullptr)).release();
      },
      static_cast<PyObject*>(nullptr));
}

// `_WatchedModuleHook.__call__`: of a module, its output's gradients or its input's and these, each as a tuple
PyObject* call_module_hook(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded(
      [&] {
        bool usual = (count == 2 || count == 3) && names == nullptr && PyTuple_CheckExact(args[1]);
        if (usual && !c10::GradMode::is_enabled()) {
          PyObject* const* first = &PyTuple_GET_ITEM(args[1], 0);
          const long owners = count == 2 ? of_output : of_input;
          usual = std::all_of(first, first + PyTuple_GET_SIZE(args[1]),
                              [=](PyObject* gradient) { return is_alone(gradient, owners); });
        }
        if (!usual) return call_slowly(modules, self, args, count, names).release();
        Owned hook = must(hook_of(self));
        return must(PyObject_Vectorcall(hook.get(), args, static_cast<size_t>(count), nullptr)).release();
      },
      static_cast<PyObject*>(nullptr));
}

// What the functions below are made of: the Patches, what Python would call, and torch's function.
bool is_active(PyObject* parts) {
  static PyObject* const name = PyUnicode_InternFromString("active");
  return must(PyObject_GetAttr(PyTuple_GET_ITEM(parts, 0), name)).get() == Py_True;
}
PyObject* slowly_of(PyObject* parts) { return PyTuple_GET_ITEM(parts, 1); }
PyObject* original_of(PyObject* parts) { return PyTuple_GET_ITEM(parts, 2); }

// Whether no class and no mode of the program sees a call with this tensor.
bool is_unseen(PyObject* tensor) {
  return (is_of(tensor, THPVariableClass) || is_of(tensor, ParameterClass)) && !at::impl::torch_function_mode_enabled();
}

PyObject* of_registration(PyObject* original, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded(
      [&] {
        backward::hook_registered();
        return must(PyObject_Vectorcall(original, args, static_cast<size_t>(count), names)).release();
      },
      static_cast<PyObject*>(nullptr));
}

PyObject* of_register_hook(PyObject* parts, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded(
      [&] {
        const Py_ssize_t given_by_name = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
        const bool fits = count + given_by_name == 2;  // else torch refuses, in words of its own
        if (!fits || given_by_name != 0 || !is_unseen(args[0]) || !is_active(parts)) {
          PyObject* run = fits ? slowly_of(parts) : original_of(parts);
          return must(PyObject_Vectorcall(run, args, static_cast<size_t>(count), names)).release();
        }
        Owned hook = stand_in_for(args[1], tensors);
        PyObject* given[] = {args[0], hook.get()};
        return must(PyObject_Vectorcall(original_of(parts), given, 2, nullptr)).release();
      },
      static_cast<PyObject*>(nullptr));
}

Owned all_stand_ins_for(PyObject* hooks) {
  Owned list = must(PySequence_List(hooks));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); i++) {
    must(PyList_SetItem(list.get(), i, stand_in_for(PyList_GET_ITEM(list.get(), i), modules).release()));
  }
  return list;
}

PyObject* of_module_hooks(PyObject* parts, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded(
      [&] {
        if (count != 4 || names != nullptr || !is_active(parts)) {
          return must(PyObject_Vectorcall(slowly_of(parts), args, static_cast<size_t>(count), names)).release();
        }
        Owned hooks = all_stand_ins_for(args[2]), pre_hooks = all_stand_ins_for(args[3]);
        PyObject* given[] = {args[0], args[1], hooks.get(), pre_hooks.get()};
        return must(PyObject_Vectorcall(original_of(parts), given, 4, nullptr)).release();
      },
      static_cast<PyObject*>(nullptr));
}

template <typename Function>
PyMethodDef method(const char* name, Function* function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL | METH_KEYWORDS, nullptr};
}
PyMethodDef call_hook_def = method("__call__", call_hook);
PyMethodDef call_module_hook_def = method("__call__", call_module_hook);
PyMethodDef of_registration_def = method("registering", of_registration);
PyMethodDef of_register_hook_def = method("register_hook", of_register_hook);
PyMethodDef of_module_hooks_def = method("__init__", of_module_hooks);

void take_over(Kind& kind, PyObject* type, PyMethodDef* call) {
  if (kind.type == type) return;
  Py_INCREF(type);
  kind = {type, must(PyObject_GetAttrString(type, "slowly")).release()};
  Owned method = must(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type), call));
  must(PyObject_SetAttrString(type, "__call__", method.get()));
}

PyObject* stand_in(PyMethodDef* method, PyObject* arguments) {
  PyObject *patches, *wrap, *original;
  if (!PyArg_ParseTuple(arguments, "OOO", &patches, &wrap, &original)) throw python_error();
  Owned slowly = must(PyObject_CallOneArg(wrap, original));
  Owned parts = must(PyTuple_Pack(3, patches, slowly.get(), original));
  return must(PyCFunction_New(method, parts.get())).release();
}

}  // namespace

PyObject* watch(PyObject*, PyObject* arguments) {
  PyObject *of_tensors, *of_modules, *held_by;
  if (!PyArg_ParseTuple(arguments, "OOO", &of_tensors, &of_modules, &held_by)) throw python_error();
  Owned old(std::exchange(place, Py_NewRef(held_by)));
  take_over(tensors, of_tensors, &call_hook_def);
  take_over(modules, of_modules, &call_module_hook_def);
  return Py_NewRef(Py_None);
}

void learn(long tensor, long output, long input) { of_tensor = tensor, of_output = output, of_input = input; }

PyObject* registering(PyObject*, PyObject* original) {
  return must(PyCFunction_New(&of_registration_def, original)).release();
}

PyObject* register_hook(PyObject*, PyObject* arguments) { return stand_in(&of_register_hook_def, arguments); }

PyObject* module_hooks(PyObject*, PyObject* arguments) { return stand_in(&of_module_hooks_def, arguments); }

}  // namespace unclobber::hooks
