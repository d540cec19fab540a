/* Records in; out, what features they hold, or columns of some of them. */
#ifndef TFREC_PYTHON_EXAMPLES_H
#define TFREC_PYTHON_EXAMPLES_H

#include "_decode.h"
#include "_examples.h"
#include "_python.h"
#include "_survey.h"

/* Records back to back in `buffer`, and where each ends, in the order of the arguments. */
typedef struct {
    Py_buffer buffer, ends;
    int64_t count;
} Frames;

static void frames_free(Frames *frames) {
    PyBuffer_Release(&frames->buffer);
    PyBuffer_Release(&frames->ends);
}

/* Whether every record has room for its frame and lies within the buffer. */
static int frames_are_sound(Frames *frames) {
    const int64_t *ends = frames->ends.buf;
    int64_t start = 0;
    frames->count = (int64_t)(frames->ends.len / (Py_ssize_t)sizeof(int64_t));
    if ((uintptr_t)ends % sizeof(int64_t) != 0)
        return 0;
    for (int64_t i = 0; i < frames->count; start = ends[i++])
        if (ends[i] > frames->buffer.len || ends[i] - start < FRAME_BYTES || ends[i] < start)
            return 0;
    return 1;
}

static PyObject *survey_result(const Survey *survey) {
    PyObject *keys = PyList_New(0);
    PyObject *facts =
        PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(survey->count * sizeof(Facts)));
    for (int64_t s = 0; keys && facts && s < survey->count; s++) {
        const Slot *slot = &survey->slots[s];
        Py_ssize_t size = (Py_ssize_t)(slot->key.end - slot->key.at);
        PyObject *key = PyBytes_FromStringAndSize((const char *)slot->key.at, size);
        memcpy(PyByteArray_AsString(facts) + s * (int64_t)sizeof(Facts), &slot->facts,
               sizeof(Facts));
        if (!key || PyList_Append(keys, key))
            Py_CLEAR(keys);
        Py_XDECREF(key);
    }
    PyObject *invalid = keys && facts ? offsets_object(&survey->invalid) : NULL;
    if (invalid)
        return Py_BuildValue("(NNNLL)", keys, facts, invalid, (long long)survey->sequences,
                             (long long)survey->first_sequence);
    Py_XDECREF(keys);
    Py_XDECREF(facts);
    return NULL;
}

static PyObject *native_survey_examples(PyObject *module, PyObject *args) {
    Frames frames;
    Survey survey = {0};
    int out_of_memory;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*", &frames.buffer, &frames.ends))
        return NULL;
    if (frames_are_sound(&frames)) {
        Py_BEGIN_ALLOW_THREADS
        out_of_memory = survey_run(&survey, frames.buffer.buf, frames.ends.buf, frames.count);
        Py_END_ALLOW_THREADS
        result = out_of_memory ? PyErr_NoMemory() : survey_result(&survey);
        survey_free(&survey);
    } else {
        PyErr_SetString(PyExc_ValueError, "ends do not fit the buffer");
    }
    frames_free(&frames);
    return result;
}

static PyObject *native_find_feature(PyObject *module, PyObject *args) {
    Frames frames;
    const char *key;
    Py_ssize_t key_size;
    int out_of_memory;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y#", &frames.buffer, &frames.ends, &key, &key_size))
        return NULL;
    if (frames_are_sound(&frames)) {
        Part part = {(const uint8_t *)key, (const uint8_t *)key + key_size};
        result = PyByteArray_FromStringAndSize(
            NULL, (Py_ssize_t)(frames.count * 3 * (int64_t)sizeof(int64_t)));
        if (result) {
            int64_t *found = (int64_t *)(void *)PyByteArray_AsString(result);
            Py_BEGIN_ALLOW_THREADS
            out_of_memory =
                find_entries(frames.buffer.buf, frames.ends.buf, frames.count, part, found);
            Py_END_ALLOW_THREADS
            if (out_of_memory) {
                Py_CLEAR(result);
                PyErr_NoMemory();
            }
        }
    } else {
        PyErr_SetString(PyExc_ValueError, "ends do not fit the buffer");
    }
    frames_free(&frames);
    return result;
}

/* The features asked for, each with the buffers that it is written to: validity, and values of
 * numbers or else offsets. The decoder's targets point into them. */
typedef struct {
    Py_buffer *buffers; /* two for each of the `parsed` features */
    int64_t parsed;
    Decoder decoder;
} Decoding;

static void decoding_free(Decoding *decoding) {
    for (int64_t b = 0; b < 2 * decoding->parsed; b++)
        PyBuffer_Release(&decoding->buffers[b]);
    PyMem_Free(decoding->buffers);
    decoder_free(&decoding->decoder);
}

/* Point a target to its buffers; whether they are large enough. */
static int target_prepare(Target *target, const Py_buffer *validity, const Py_buffer *table,
                          int64_t rows) {
    int is_table = target->is_list || target->kind == FOUND_BYTES;
    int64_t places = is_table ? rows + 1 : rows, width = is_table ? 4 : item_width(target);
    if (target->kind < FOUND_BYTES || target->kind > FOUND_INT64 ||
        !holds(view(validity), rows / 8 + (rows % 8 > 0), 1) ||
        !holds(view(table), places, width) || (uintptr_t)table->buf % sizeof(int64_t) != 0)
        return 0;
    target->validity = validity->buf;
    target->values = table->buf;
    target->offsets = table->buf;
    if (is_table)
        target->offsets[0] = 0;
    return 1;
}

/* Parse the features asked for: tuples of key, kind, is_list, validity, values or offsets. */
static int decoding_parse(Decoding *decoding, PyObject *list) {
    Decoder *decoder = &decoding->decoder;
    Py_ssize_t count = PyList_Size(list), key_size;
    const char *key;
    decoder->room = count + 64;
    decoder->targets = calloc((size_t)decoder->room, sizeof *decoder->targets);
    decoding->buffers = PyMem_Calloc((size_t)(2 * count + 1), sizeof *decoding->buffers);
    if (!decoder->targets || !decoding->buffers) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t t = 0; t < count; t++) {
        Target *target = &decoder->targets[t];
        Py_buffer *buffers = decoding->buffers + 2 * t;
        PyObject *tuple = PyList_GetItem(list, t);
        if (!PyTuple_Check(tuple)) {
            PyErr_SetString(PyExc_TypeError, "a feature is a tuple");
            return -1;
        }
        if (!PyArg_ParseTuple(tuple, "y#ipw*w*", &key, &key_size, &target->kind, &target->is_list,
                              buffers, buffers + 1))
            return -1;
        decoding->parsed++;
        target->key = (Part){(const uint8_t *)key, (const uint8_t *)key + key_size};
        target->seen = target->first = -1;
        target->faults = (CellFaults){0, -1, -1, 0, -1, -1};
        if (!target_prepare(target, buffers, buffers + 1, decoder->rows)) {
            PyErr_SetString(PyExc_ValueError, "a feature's buffers are too small");
            return -1;
        }
        target->copied = decoder->rows;
        decoder->lists += target->is_list;
        decoder->wanted = decoder->count = t + 1;
    }
    return 0;
}

/* The items of a list of numbers, in a buffer of the caller's. */
static PyObject *decoded_numbers(const Target *target, PyObject *allocate) {
    Py_buffer out;
    int64_t size = target->count * item_width(target);
    PyObject *object = allocate_output(allocate, size + 1, &out);
    if (!object)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (size)
        memcpy(out.buf, target->items, (size_t)size);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&out);
    return object;
}

/* The bytes of a column's values; `ends` has their sizes, and then where each ends. */
static PyObject *decoded_bytes(const Decoding *decoding, const Target *target, int32_t *ends,
                               int64_t size, PyObject *allocate) {
    const Decoder *decoder = &decoding->decoder;
    int64_t count = target->is_list ? target->count : decoder->rows, total;
    Py_buffer out;
    Py_BEGIN_ALLOW_THREADS
    total = bytes_ends(ends, count);
    Py_END_ALLOW_THREADS
    PyObject *object = allocate_output(allocate, total + DECODE_SLACK, &out);
    if (!object)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    bytes_gather(decoder, target, ends, size, out.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&out);
    return object;
}

/* The same for lists of bytes: a tuple of where each value ends, and the bytes. */
static PyObject *decoded_bytes_list(const Decoding *decoding, const Target *target, int64_t size,
                                    PyObject *allocate) {
    const Bit *bits = (const Bit *)(const void *)target->items;
    Py_buffer out;
    PyObject *data = NULL;
    PyObject *ends = allocate_output(allocate, 4 * (target->count + 1), &out);
    if (!ends)
        return NULL;
    if ((uintptr_t)out.buf % sizeof(int32_t) == 0) {
        int32_t *sizes = out.buf;
        for (int64_t i = 0; i < target->count; i++)
            sizes[i + 1] = (int32_t)bits[i].size;
        data = decoded_bytes(decoding, target, sizes, size, allocate);
    } else {
        PyErr_SetString(PyExc_ValueError, "the allocated buffer is not aligned");
    }
    PyBuffer_Release(&out);
    if (data)
        return Py_BuildValue("(NN)", ends, data);
    Py_DECREF(ends);
    return NULL;
}

/* How many cells have a value, how many items there are, and the buffers not known beforehand. */
static PyObject *decoded_column(const Decoding *decoding, const Target *target, int64_t size,
                                PyObject *allocate) {
    PyObject *rest;
    if (target->kind == FOUND_BYTES && target->is_list)
        rest = decoded_bytes_list(decoding, target, size, allocate);
    else if (target->kind == FOUND_BYTES)
        rest = decoded_bytes(decoding, target, target->offsets, size, allocate);
    else if (target->is_list)
        rest = decoded_numbers(target, allocate);
    else
        rest = Py_BuildValue("");
    return rest ? Py_BuildValue("(LLN)", (long long)target->valid, (long long)target->count, rest)
                : NULL;
}

static PyObject *decoding_result(const Decoding *decoding, int64_t size, PyObject *allocate) {
    const Decoder *decoder = &decoding->decoder;
    PyObject *columns = PyList_New(0), *unknown = PyList_New(0);
    PyObject *faults = PyByteArray_FromStringAndSize(
        NULL, (Py_ssize_t)(decoder->wanted * (int64_t)sizeof(CellFaults)));
    PyObject *invalid = offsets_object(&decoder->invalid);
    int failed = !columns || !unknown || !faults || !invalid;
    for (int64_t t = 0; t < decoder->count && !failed; t++) {
        const Target *target = &decoder->targets[t];
        Py_ssize_t key_size = (Py_ssize_t)(target->key.end - target->key.at);
        if (t < decoder->wanted) {
            memcpy(PyByteArray_AsString(faults) + t * (int64_t)sizeof(CellFaults), &target->faults,
                   sizeof(CellFaults));
            failed = list_append(columns, decoded_column(decoding, target, size, allocate));
        } else if (target->first >= 0) {
            failed = list_append(unknown, Py_BuildValue("(y#L)", target->key.at, key_size,
                                                        (long long)target->first));
        }
    }
    if (!failed)
        return Py_BuildValue("(NNNNLL)", columns, faults, unknown, invalid,
                             (long long)decoder->sequences, (long long)decoder->first_sequence);
    Py_XDECREF(columns);
    Py_XDECREF(unknown);
    Py_XDECREF(faults);
    Py_XDECREF(invalid);
    return NULL;
}

static PyObject *native_decode_examples(PyObject *module, PyObject *args) {
    Frames frames;
    PyObject *list, *allocate, *result = NULL;
    Decoding decoding = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*O!O", &frames.buffer, &frames.ends, &PyList_Type, &list,
                          &allocate))
        return NULL;
    if (!frames_are_sound(&frames)) {
        PyErr_SetString(PyExc_ValueError, "ends do not fit the buffer");
    } else if (frames.buffer.len > DECODE_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more than 2 GiB of records in one go");
    } else {
        Decoder *decoder = &decoding.decoder;
        decoder->data = frames.buffer.buf;
        decoder->end = decoder->data + frames.buffer.len;
        decoder->rows = frames.count;
        if (!decoding_parse(&decoding, list)) {
            int fault;
            Py_BEGIN_ALLOW_THREADS
            fault = decode_run(decoder, frames.ends.buf);
            Py_END_ALLOW_THREADS
            result = fault ? PyErr_NoMemory()
                           : decoding_result(&decoding, frames.buffer.len, allocate);
        }
        decoding_free(&decoding);
    }
    frames_free(&frames);
    return result;
}

#endif
