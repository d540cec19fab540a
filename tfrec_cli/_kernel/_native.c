/* The kernel's compiled body: what crosses between Python and C. The work itself is in
 * headers, which know nothing of Python, and runs without the interpreter's lock. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "TFRecord is little endian, and so must the processor be"
#endif

#include "_csv.h"
#include "_decode.h"
#include "_encode.h"
#include "_examples.h"
#include "_files.h"
#include "_text.h"

/* A column and the Python buffers its pointers lead into, in the order of the arguments. */
enum { VALIDITY, LIST_OFFSETS, VALUE_OFFSETS, VALUES, BUFFERS };
typedef struct {
    Column column;
    Py_buffer buffers[BUFFERS];
    int is_parsed;
} Input;

static Bytes view(const Py_buffer *buffer) {
    return (Bytes){buffer->buf, buffer->buf ? (int64_t)buffer->len : 0};
}

/* Whether `count` items of `width` bytes each lie within `bytes`. */
static int holds(Bytes bytes, int64_t count, int64_t width) {
    return count >= 0 && bytes.size / width >= count;
}

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
    if (column->nesting == LIST_OF_OFFSETS && !holds(column->list_offsets, rows + 1, column->list_width))
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
        PyObject *key = PyBytes_FromStringAndSize((const char *)column->key, (Py_ssize_t)column->key_size);
        if (key)
            PyErr_Format(PyExc_ValueError, "column of key %R: offsets outside its buffers", key);
        Py_XDECREF(key);
        break;
    }
    default:
        PyErr_NoMemory();
    }
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

static PyObject *offsets_object(const Offsets *offsets) {
    return PyByteArray_FromStringAndSize((const char *)offsets->items,
                                         (Py_ssize_t)(offsets->count * sizeof(int64_t)));
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
    PyObject *facts = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(survey->count * sizeof(Facts)));
    for (int64_t s = 0; keys && facts && s < survey->count; s++) {
        const Slot *slot = &survey->slots[s];
        Py_ssize_t size = (Py_ssize_t)(slot->key.end - slot->key.at);
        PyObject *key = PyBytes_FromStringAndSize((const char *)slot->key.at, size);
        memcpy(PyByteArray_AsString(facts) + s * (int64_t)sizeof(Facts), &slot->facts, sizeof(Facts));
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
        result = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(frames.count * 3 * (int64_t)sizeof(int64_t)));
        if (result) {
            int64_t *found = (int64_t *)(void *)PyByteArray_AsString(result);
            Py_BEGIN_ALLOW_THREADS
            out_of_memory = find_entries(frames.buffer.buf, frames.ends.buf, frames.count, part, found);
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

/* Append and give up one's own reference; NULL stands for an error that is set already. */
static int list_append(PyObject *list, PyObject *item) {
    int fault = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return fault;
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
