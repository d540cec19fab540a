/* The kernel's compiled body: what crosses between Python and C, here and in `_python_*.h`. The work
 * itself is in the other headers, which know nothing of Python, and runs without the interpreter's
 * lock. */
#include "_python.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "TFRecord is little endian, and so must the processor be"
#endif

#include "_csv.h"
#include "_python_encode.h"
#include "_python_examples.h"
#include "_python_files.h"
#include "_python_text.h"

/* What is wrong with the record at `at`: an index into `DAMAGES`; its end goes to `end`. */
static const char *const DAMAGES[] = {"", "truncated", "length checksum", "length",
                                      "data checksum"};

static int check_record(const uint8_t *data, int64_t size, int64_t at, int64_t *end) {
    uint32_t stored;
    if (size - at < 12)
        return 1;
    memcpy(&stored, data + at + 8, 4);
    if (crc_masked(data + at, 8) != stored)
        return 2;
    uint64_t length = load64(data + at);
    if (length > INT64_MAX)
        return 3;
    if (size - at < FRAME_BYTES || length > (uint64_t)(size - at - FRAME_BYTES))
        return 1;
    memcpy(&stored, data + at + 12 + length, 4);
    if (crc_masked(data + at + 12, length) != stored)
        return 4;
    *end = at + FRAME_BYTES + (int64_t)length;
    return 0;
}

static PyObject *native_scan(PyObject *module, PyObject *args) {
    Py_buffer buffer;
    Offsets ends = {NULL, 0, 0};
    int damage = 0, out_of_memory = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*", &buffer))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t at = 0; at < buffer.len && !out_of_memory;) {
        damage = check_record(buffer.buf, buffer.len, at, &at);
        if (damage)
            break;
        out_of_memory = offsets_push(&ends, at);
    }
    Py_END_ALLOW_THREADS
    PyObject *array = out_of_memory ? PyErr_NoMemory() : offsets_object(&ends);
    free(ends.items);
    PyBuffer_Release(&buffer);
    return array ? Py_BuildValue("(Ns)", array, DAMAGES[damage]) : NULL;
}

static PyObject *csv_result(const CsvWalk *walk, PyObject *rows, int64_t room) {
    if (walk->out_of_memory)
        return PyErr_NoMemory();
    return Py_BuildValue("(OLLNNLLLL)", rows, (long long)room, (long long)walk->rows,
                         offsets_object(&walk->stray), PyBool_FromLong(walk->quoted),
                         (long long)walk->row_start, (long long)walk->row_line,
                         (long long)walk->open, (long long)walk->blank);
}

/* Three arrays of `room` offsets each, one after the other in a buffer of the caller's: memory
 * that its allocator has at hand is far cheaper than fresh memory. */
static PyObject *split_into(const Py_buffer *buffer, const CsvRules *rules, PyObject *allocate) {
    CsvWalk walk = {0};
    Py_buffer out;
    int64_t room, size;
    Py_BEGIN_ALLOW_THREADS
    room = csv_max_rows(buffer->buf, buffer->len);
    Py_END_ALLOW_THREADS
    if (__builtin_mul_overflow(room, 3 * (int64_t)sizeof(int64_t), &size))
        return PyErr_NoMemory();
    PyObject *rows = allocate_output(allocate, size, &out);
    if (!rows)
        return NULL;
    if ((uintptr_t)out.buf % sizeof(int64_t) == 0) {
        walk.starts = out.buf;
        walk.ends = walk.starts + room;
        walk.lines = walk.ends + room;
        Py_BEGIN_ALLOW_THREADS
        csv_split(&walk, rules, buffer->buf, buffer->len);
        Py_END_ALLOW_THREADS
    } else {
        walk.out_of_memory = 1;
    }
    PyBuffer_Release(&out);
    PyObject *result = csv_result(&walk, rows, room);
    free(walk.stray.items);
    Py_DECREF(rows);
    return result;
}

static PyObject *native_split_csv(PyObject *module, PyObject *args) {
    Py_buffer buffer;
    CsvRules rules;
    PyObject *allocate;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*iiippO", &buffer, &rules.delimiter, &rules.quote,
                          &rules.escape, &rules.single, &rules.final, &allocate))
        return NULL;
    PyObject *result = split_into(&buffer, &rules, allocate);
    PyBuffer_Release(&buffer);
    return result;
}

/* by_table: as on a processor without the instruction. */
static PyObject *native_masked_crc32c(PyObject *module, PyObject *args) {
    Py_buffer buffer;
    uint32_t state = ~(uint32_t)0;
    int by_table;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*p", &buffer, &by_table))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    state = (by_table ? crc_update_table : crc_update)(state, buffer.buf, (size_t)buffer.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(crc_mask(state));
}

/* Unmasked; `value` is the checksum of what came before the data. */
static PyObject *native_crc32c(PyObject *module, PyObject *args) {
    Py_buffer buffer;
    unsigned long value;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*k", &buffer, &value))
        return NULL;
    uint32_t state = ~(uint32_t)value;
    Py_BEGIN_ALLOW_THREADS
    state = crc_update(state, buffer.buf, (size_t)buffer.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(~state & 0xffffffffu);
}

static PyMethodDef METHODS[] = {
    {"encode", native_encode, METH_VARARGS, NULL},
    {"scan", native_scan, METH_VARARGS, NULL},
    {"survey_examples", native_survey_examples, METH_VARARGS, NULL},
    {"find_feature", native_find_feature, METH_VARARGS, NULL},
    {"decode_examples", native_decode_examples, METH_VARARGS, NULL},
    {"split_csv", native_split_csv, METH_VARARGS, NULL},
    {"read_files", native_read_files, METH_VARARGS, NULL},
    {"masked_crc32c", native_masked_crc32c, METH_VARARGS, NULL},
    {"crc32c", native_crc32c, METH_VARARGS, NULL},
    {"text_facts", native_text_facts, METH_VARARGS, NULL},
    {"text_to_int64", native_text_to_int64, METH_VARARGS, NULL},
    {"text_to_float64", native_text_to_float64, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_native", "The kernel's compiled body.", 0, METHODS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    crc_init();
    return PyModule_Create(&MODULE);
}
