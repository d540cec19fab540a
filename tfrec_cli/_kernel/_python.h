/* Python, by its stable interface, and what all that crosses to it needs. */
#ifndef TFREC_PYTHON_H
#define TFREC_PYTHON_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_encode.h"
#include "_offsets.h"

static Bytes view(const Py_buffer *buffer) {
    return (Bytes){buffer->buf, buffer->buf ? (int64_t)buffer->len : 0};
}

/* Whether `count` items of `width` bytes each lie within `bytes`. */
static int holds(Bytes bytes, int64_t count, int64_t width) {
    return count >= 0 && bytes.size / width >= count;
}

/* A buffer of `size` bytes from the caller's allocator, open for writing in `out`. */
static PyObject *allocate_output(PyObject *allocate, int64_t size, Py_buffer *out) {
    PyObject *object = PyObject_CallFunction(allocate, "L", (long long)size);
    if (!object)
        return NULL;
    if (PyObject_GetBuffer(object, out, PyBUF_WRITABLE)) {
        Py_DECREF(object);
        return NULL;
    }
    if (out->len < size) {
        PyErr_SetString(PyExc_ValueError, "the allocated buffer is too small");
        PyBuffer_Release(out);
        Py_DECREF(object);
        return NULL;
    }
    return object;
}

static PyObject *offsets_object(const Offsets *offsets) {
    return PyByteArray_FromStringAndSize((const char *)offsets->items,
                                         (Py_ssize_t)(offsets->count * sizeof(int64_t)));
}

/* Append and give up one's own reference; NULL stands for an error that is set already. */
static int list_append(PyObject *list, PyObject *item) {
    int fault = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return fault;
}

#endif
