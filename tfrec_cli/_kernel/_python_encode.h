/* Columns of features in, framed records out. */
#ifndef TFREC_PYTHON_ENCODE_H
#define TFREC_PYTHON_ENCODE_H

#include "_encode.h"
#include "_python.h"

/* A column and the Python buffers its pointers lead into, in the order of the arguments. */
enum { VALIDITY, LIST_OFFSETS, VALUE_OFFSETS, VALUES, BUFFERS };
typedef struct {
    Column column;
    Py_buffer buffers[BUFFERS];
    int is_parsed;
} Input;

/* Whether all that the column's lengths promise lies within its buffers. Where there are no rows
 * there may be no buffers either. */
static int is_sound(const Column *column) {
    int64_t rows, items;
    if (column->offset < 0 || column->length < 0 || column->item_offset < 0 ||
        column->item_length < 0 || column->list_size < 0 ||
        __builtin_add_overflow(column->offset, column->length, &rows))
        return 0;
    if (column->length == 0)
        return 1;
    if (column->validity.data && !holds(column->validity, rows / 8 + (rows % 8 > 0), 1))
        return 0;
    items = rows;
    if (column->nesting == LIST_OF_OFFSETS &&
        !holds(column->list_offsets, rows + 1, column->list_width))
        return 0;
    if (column->nesting != SCALAR &&
        __builtin_add_overflow(column->item_offset, column->item_length, &items))
        return 0;
    if (column->nesting == LIST_OF_FIXED_SIZE) {
        int64_t product;
        if (__builtin_mul_overflow(rows, column->list_size, &product))
            return 0;
    }
    if (items == 0)
        return 1;
    if (column->kind == KIND_BYTES)
        return holds(column->value_offsets, items + 1, column->value_width);
    return holds(column->values, items, column->kind == KIND_FLOAT ? 4 : 8);
}

static int parse_column(PyObject *tuple, Input *input) {
    Column *column = &input->column;
    int kind, nesting;
    Py_ssize_t key_size, offset, length, list_size, item_offset, item_length;
    const char *key;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a column is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(tuple, "y#iiz*nnz*innnz*iz*", &key, &key_size, &kind, &nesting,
                          &input->buffers[VALIDITY], &offset, &length,
                          &input->buffers[LIST_OFFSETS], &column->list_width, &list_size,
                          &item_offset, &item_length, &input->buffers[VALUE_OFFSETS],
                          &column->value_width, &input->buffers[VALUES]))
        return -1;
    input->is_parsed = 1;
    column->kind = (enum Kind)kind;
    column->nesting = (enum Nesting)nesting;
    column->key = (const uint8_t *)key;
    column->key_size = key_size;
    column->offset = offset;
    column->length = length;
    column->list_size = list_size;
    column->item_offset = item_offset;
    column->item_length = item_length;
    column->validity = view(&input->buffers[VALIDITY]);
    column->list_offsets = view(&input->buffers[LIST_OFFSETS]);
    column->value_offsets = view(&input->buffers[VALUE_OFFSETS]);
    column->values = view(&input->buffers[VALUES]);
    if (kind < KIND_BYTES || kind > KIND_INT64 || nesting < SCALAR ||
        nesting > LIST_OF_FIXED_SIZE || (column->list_width != 4 && column->list_width != 8) ||
        (column->value_width != 4 && column->value_width != 8) || !is_sound(column)) {
        PyErr_Format(PyExc_ValueError, "column of key %R: its buffers are too small",
                     PyTuple_GetItem(tuple, 0));
        return -1;
    }
    column_prepare(column);
    return 0;
}

/* Columns apart from their buffers: the hot loop walks over `columns` alone. */
typedef struct {
    Input *inputs;
    Column *columns;
    int count;
} Table;

static void table_free(Table *table) {
    for (int c = 0; table->inputs && c < table->count; c++)
        for (int b = 0; table->inputs[c].is_parsed && b < BUFFERS; b++)
            PyBuffer_Release(&table->inputs[c].buffers[b]);
    PyMem_Free(table->inputs);
    PyMem_Free(table->columns);
}

static int table_parse(PyObject *list, Table *table) {
    Py_ssize_t count = PyList_Size(list);
    if (count < 0)
        return -1;
    if (count > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "too many columns");
        return -1;
    }
    table->inputs = PyMem_Calloc((size_t)count + 1, sizeof *table->inputs);
    table->columns = PyMem_Calloc((size_t)count + 1, sizeof *table->columns);
    if (!table->inputs || !table->columns) {
        PyErr_NoMemory();
        return -1;
    }
    for (; table->count < (int)count; table->count++) {
        Input *input = &table->inputs[table->count];
        if (parse_column(PyList_GetItem(list, table->count), input)) {
            table->count += input->is_parsed; /* so that its buffers are released */
            return -1;
        }
        table->columns[table->count] = input->column;
    }
    return 0;
}

static void raise_limit(int64_t number, int64_t size, int64_t limit) {
    PyObject *module = PyImport_ImportModule("tfrec_cli._kernel.model");
    PyObject *type = module ? PyObject_GetAttrString(module, "RecordSizeError") : NULL;
    PyObject *error = type ? PyObject_CallFunction(type, "LLL", (long long)number,
                                                   (long long)size, (long long)limit)
                           : NULL;
    if (error)
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    Py_XDECREF(type);
    Py_XDECREF(module);
}

static void raise_failure(const Failure *failure, const Table *table, int64_t limit) {
    switch (failure->fault) {
    case FAULT_ROW:
        PyErr_Format(PyExc_IndexError, "row %lld is not in the columns",
                     (long long)failure->number);
        break;
    case FAULT_LIMIT:
        raise_limit(failure->number, failure->size, limit);
        break;
    case FAULT_OFFSETS: {
        const Column *column = &table->columns[failure->number];
        PyObject *key =
            PyBytes_FromStringAndSize((const char *)column->key, (Py_ssize_t)column->key_size);
        if (key)
            PyErr_Format(PyExc_ValueError, "column of key %R: offsets outside its buffers", key);
        Py_XDECREF(key);
        break;
    }
    default:
        PyErr_NoMemory();
    }
}

static PyObject *encode_table(const Table *table, const Rows *rows, int64_t limit, int64_t *ends,
                              PyObject *allocate) {
    Failure failure = {FAULT_NONE, 0, 0};
    int64_t total;
    Py_buffer out;
    Py_BEGIN_ALLOW_THREADS
    total = measure(table->columns, table->count, rows, limit, ends, &failure);
    Py_END_ALLOW_THREADS
    if (total < 0) {
        raise_failure(&failure, table, limit);
        return NULL;
    }
    if (total > PY_SSIZE_T_MAX - OUTPUT_SLACK)
        return PyErr_NoMemory();
    PyObject *object = allocate_output(allocate, total + OUTPUT_SLACK, &out);
    if (!object)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    write_records(table->columns, table->count, rows, ends, out.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&out);
    PyObject *result = Py_BuildValue("(OL)", object, (long long)total);
    Py_DECREF(object);
    return result;
}

static PyObject *native_encode(PyObject *module, PyObject *args) {
    PyObject *list, *allocate;
    Py_ssize_t start;
    long long limit;
    Py_buffer index, ends;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!nz*w*LO", &PyList_Type, &list, &start, &index, &ends, &limit,
                          &allocate))
        return NULL;
    Table table = {NULL, NULL, 0};
    PyObject *result = NULL;
    Rows rows = {start, index.buf, ends.len / 8};
    if (index.buf && index.len != ends.len)
        PyErr_SetString(PyExc_ValueError, "rows and ends differ in length");
    else if ((uintptr_t)ends.buf % sizeof(int64_t) != 0)
        PyErr_SetString(PyExc_ValueError, "ends is not aligned");
    else if (!table_parse(list, &table))
        result = encode_table(&table, &rows, limit, ends.buf, allocate);
    table_free(&table);
    PyBuffer_Release(&index);
    PyBuffer_Release(&ends);
    return result;
}

#endif
