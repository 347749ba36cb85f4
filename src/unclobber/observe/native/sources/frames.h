/* Frames of this thread, read from the interpreter itself: C, for its own headers are no C++. */
#pragma once
#include <Python.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  PyObject *code;    /* borrowed: alive as long as the frame runs */
  const void *place; /* of its instruction, in `code` */
} unclobber_frame;

/* The offset of a frame's instruction, -1 before the first. */
int unclobber_at(const unclobber_frame *frame);

/* Write the innermost `most` frames of a thread to `out`, innermost first, and return how many they are.
   `more` becomes whether there are others below. Only for the calling thread, which needs no lock for it. */
int unclobber_walk(PyThreadState *thread, unclobber_frame *out, int most, int *more);

/* A number of 128 bits for a stack: two distinct ones that share it are not to be expected in a lifetime. */
typedef struct {
  uint64_t one, other;
} unclobber_hash;

/* The number of so many frames. */
unclobber_hash unclobber_hash_of(const unclobber_frame *frames, int count);

/* The number of the innermost `most` frames, with those of functions that have not begun: no code object is read, for
   they are far apart in memory. A stack that `unclobber_walk` has given before has none of them. */
unclobber_hash unclobber_peek(PyThreadState *thread, int most, int *more);

/* The place of a local variable among those of a code object's frames; -1 if it has none of that name. */
int unclobber_place_of(PyObject *code, const char *name);

/* Find the innermost of a thread's `most` newest frames that runs one of `count` codes, and return which; -1 if none
   does. `value` becomes the variable at `places[which]`, borrowed, or NULL. Only for the calling thread. */
int unclobber_find(PyThreadState *thread, PyObject *const *codes, const int *places, int count, int most,
                   PyObject **value);

#ifdef __cplusplus
}
#endif
