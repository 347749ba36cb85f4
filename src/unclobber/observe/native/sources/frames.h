/* Frames of this thread, read from the interpreter itself: C, for its own headers are no C++. */
#pragma once
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  PyObject *code; /* borrowed: alive as long as the frame runs */
  int at;         /* the offset of its instruction, -1 before the first */
} unclobber_frame;

/* Write the innermost `most` frames of a thread to `out`, innermost first, and return how many they are.
   `more` becomes whether there are others below. Only for the calling thread, which needs no lock for it. */
int unclobber_walk(PyThreadState *thread, unclobber_frame *out, int most, int *more);

#ifdef __cplusplus
}
#endif
