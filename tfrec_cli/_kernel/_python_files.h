/* Paths in; out, the bytes of the files. */
#ifndef TFREC_PYTHON_FILES_H
#define TFREC_PYTHON_FILES_H

#include "_files.h"
#include "_python.h"

/* Whether `count` sizes are none below zero and within `room` together. */
static int sizes_fit(const int64_t *sizes, Py_ssize_t count, int64_t room) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > room)
            return 0;
        room -= sizes[i];
    }
    return 1;
}

/* The paths in a tuple of bytes, to be freed; NULL with an exception where one is none. */
static const char **paths_of(PyObject *tuple, Py_ssize_t count) {
    const char **paths = PyMem_Calloc((size_t)count + 1, sizeof *paths);
    if (!paths)
        return (const char **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        char *path;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &path, NULL)) {
            PyMem_Free(paths);
            return NULL;
        }
        paths[i] = path;
    }
    return paths;
}

static PyObject *read_all(PyObject *tuple, const Py_buffer *sizes, int whole, Py_buffer *data,
                          Py_buffer *facts) {
    Py_ssize_t count = PyTuple_Size(tuple);
    const int64_t *size = sizes->buf;
    if (!holds(view(sizes), count, 8) || !holds(view(facts), count, sizeof(FileFacts)) ||
        !sizes_fit(size, count, data->len)) {
        PyErr_SetString(PyExc_ValueError, "files: the buffers are too small");
        return NULL;
    }
    const char **paths = paths_of(tuple, count);
    if (!paths)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    uint8_t *into = data->buf;
    for (Py_ssize_t i = 0; i < count; into += size[i++])
        read_one(paths[i], into, size[i], whole, (FileFacts *)facts->buf + i);
    Py_END_ALLOW_THREADS
    PyMem_Free(paths);
    Py_RETURN_NONE;
}

/* Arguments: paths, the bytes of each, whether these are all it must have; then what is filled. */
static PyObject *native_read_files(PyObject *module, PyObject *args) {
    PyObject *paths;
    Py_buffer sizes, data, facts;
    int whole;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!y*pw*w*", &PyTuple_Type, &paths, &sizes, &whole, &data, &facts))
        return NULL;
    PyObject *result = read_all(paths, &sizes, whole, &data, &facts);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&data);
    PyBuffer_Release(&facts);
    return result;
}

#endif
