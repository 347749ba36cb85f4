/* The interpreter's frames, without a PyFrameObject for each: those are made by PyThreadState_GetFrame and take
   ten times as long. What their layout is differs from one minor version of Python to the next. */
#define Py_BUILD_CORE 1
#include "frames.h"

#include <internal/pycore_frame.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030F0000
#error "the frames of this version of Python are not known"
#endif

static _PyInterpreterFrame *innermost(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#else
  return thread->cframe->current_frame;
#endif
}

static PyCodeObject *code_of(_PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030E0000
  return _PyFrame_GetCode(frame);
#elif PY_VERSION_HEX >= 0x030D0000
  return (PyCodeObject *)frame->f_executable;
#else
  return frame->f_code;
#endif
}

/* C's own frames, in which no Python code runs. */
static int is_of_c(_PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030E0000
  return frame->owner >= FRAME_OWNED_BY_INTERPRETER;
#elif PY_VERSION_HEX >= 0x030C0000
  return frame->owner == FRAME_OWNED_BY_CSTACK;
#else
  return 0;
#endif
}

/* Those, and frames of functions that have not begun. */
static int is_none(_PyInterpreterFrame *frame) { return is_of_c(frame) || _PyFrame_IsIncomplete(frame); }

static const void *place_of(_PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return frame->instr_ptr;
#else
  return frame->prev_instr;
#endif
}

int unclobber_walk(PyThreadState *thread, unclobber_frame *out, int most, int *more) {
  _PyInterpreterFrame *frame = thread == NULL ? NULL : innermost(thread);
  int count = 0;
  *more = 0;
  for (; frame != NULL; frame = frame->previous) {
    if (is_none(frame)) continue;
    if (count == most) {
      *more = 1;
      break;
    }
    out[count].code = (PyObject *)code_of(frame);
    out[count].place = place_of(frame);
    count++;
  }
  return count;
}

/* Of places alone: each lies in its code object. */
static void add(unclobber_hash *hash, const void *place) {
  hash->one = (hash->one + (uintptr_t)place) * 0x9E3779B97F4A7C15u;
  hash->other = (hash->other ^ (uintptr_t)place) * 0xD6E8FEB86659FD93u;
}

static const unclobber_hash kNone = {1, 1};

unclobber_hash unclobber_hash_of(const unclobber_frame *frames, int count) {
  unclobber_hash hash = kNone;
  for (int i = 0; i < count; i++) add(&hash, frames[i].place);
  return hash;
}

unclobber_hash unclobber_peek(PyThreadState *thread, int most, int *more) {
  _PyInterpreterFrame *frame = thread == NULL ? NULL : innermost(thread);
  unclobber_hash hash = kNone;
  *more = 0;
  for (; frame != NULL; frame = frame->previous) {
    if (is_of_c(frame)) continue;
    if (most-- == 0) {
      *more = 1;
      break;
    }
    add(&hash, place_of(frame));
  }
  return hash;
}

int unclobber_at(const unclobber_frame *frame) {
  const ptrdiff_t at = (const char *)frame->place - (const char *)_PyCode_CODE((PyCodeObject *)frame->code);
  return at < 0 ? -1 : (int)at;
}

int unclobber_place_of(PyObject *code, const char *name) {
  PyObject *names = ((PyCodeObject *)code)->co_localsplusnames;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name) == 0) return (int)i;
  }
  return -1;
}

static PyObject *local_at(_PyInterpreterFrame *frame, int place) {
  if (place < 0) return NULL;
#if PY_VERSION_HEX >= 0x030E0000
  if (PyStackRef_IsNull(frame->localsplus[place])) return NULL;
  PyObject *value = PyStackRef_AsPyObjectBorrow(frame->localsplus[place]);
#else
  PyObject *value = frame->localsplus[place];
#endif
  return value != NULL && PyCell_Check(value) ? PyCell_GET(value) : value;
}

int unclobber_find(PyThreadState *thread, PyObject *const *codes, const int *places, int count, int most,
                   PyObject **value) {
  _PyInterpreterFrame *frame = thread == NULL ? NULL : innermost(thread);
  *value = NULL;
  for (; frame != NULL && most > 0; frame = frame->previous) {
    if (is_none(frame)) continue;
    PyObject *code = (PyObject *)code_of(frame);
    for (int i = 0; i < count; i++) {
      if (codes[i] != code) continue;
      *value = local_at(frame, places[i]);
      return i;
    }
    most--;
  }
  return -1;
}
