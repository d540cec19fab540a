/* Text cells in; out, what they look like, or the numbers that they are. */
#ifndef TFREC_PYTHON_TEXT_H
#define TFREC_PYTHON_TEXT_H

#include "_python.h"
#include "_text.h"

/* Text cells, and the Python buffers their pointers lead into. */
typedef struct {
    Cells cells;
    Py_buffer validity, offsets, data;
} TextInput;

static void text_free(TextInput *input) {
    PyBuffer_Release(&input->validity);
    PyBuffer_Release(&input->offsets);
    PyBuffer_Release(&input->data);
}

/* Arguments: validity, offsets, bytes of an offset, data, offset, count; then what is to be filled. */
static int text_parse(PyObject *args, TextInput *input, Py_buffer *out, int64_t out_width) {
    Py_ssize_t offset, count;
    Cells *cells = &input->cells;
    if (!PyArg_ParseTuple(args, "z*z*iz*nnw*", &input->validity, &input->offsets, &cells->width,
                          &input->data, &offset, &count, out))
        return -1;
    cells->validity = view(&input->validity);
    cells->offsets = view(&input->offsets);
    cells->data = view(&input->data);
    cells->offset = offset;
    cells->count = count;
    if (cells_are_sound(cells) && holds(view(out), out_width ? count : 1,
                                        out_width ? out_width : (int64_t)sizeof(TextFacts)))
        return 0;
    PyErr_SetString(PyExc_ValueError, "cells: the buffers are too small");
    text_free(input);
    PyBuffer_Release(out);
    return -1;
}

static PyObject *text_result(TextInput *input, Py_buffer *out, int status) {
    text_free(input);
    PyBuffer_Release(out);
    if (status < 0) {
        PyErr_SetString(PyExc_ValueError, "cells: offsets outside the data");
        return NULL;
    }
    return PyBool_FromLong(status == 0);
}

static PyObject *native_text_facts(PyObject *module, PyObject *args) {
    TextInput input = {0};
    TextFacts facts;
    Py_buffer out;
    int status;
    (void)module;
    if (text_parse(args, &input, &out, 0))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = text_facts(&input.cells, &facts);
    Py_END_ALLOW_THREADS
    memcpy(out.buf, &facts, sizeof facts);
    return text_result(&input, &out, status);
}

static PyObject *convert_text(PyObject *args, int (*convert)(const Cells *, uint8_t *)) {
    TextInput input = {0};
    Py_buffer out;
    int status;
    if (text_parse(args, &input, &out, 8))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = convert(&input.cells, out.buf);
    Py_END_ALLOW_THREADS
    return text_result(&input, &out, status);
}

static PyObject *native_text_to_int64(PyObject *module, PyObject *args) {
    (void)module;
    return convert_text(args, text_to_int64);
}

static PyObject *native_text_to_float64(PyObject *module, PyObject *args) {
    (void)module;
    return convert_text(args, text_to_float64);
}

#endif
