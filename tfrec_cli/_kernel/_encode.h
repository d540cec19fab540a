/* Arrow columns to framed Examples. The layout is that of `_reference.py`, its twin in Python.
 *
 * First the size of every record is summed up, column by column; then, in a buffer of just that
 * size, the records are written, row by row. Both read the same values: whoever calls must not
 * change them meanwhile. Arrow says nothing about alignment once data is mapped from a file, so
 * numbers are read with memcpy.
 */
#ifndef TFREC_ENCODE_H
#define TFREC_ENCODE_H

#include "_crc32c.h"

typedef struct {
    const uint8_t *data; /* NULL where there is none */
    int64_t size;
} Bytes;

/* Values are also the field numbers of the lists in TensorFlow's Feature message. */
enum Kind { KIND_BYTES = 1, KIND_FLOAT = 2, KIND_INT64 = 3 };
enum Nesting { SCALAR, LIST_OF_OFFSETS, LIST_OF_FIXED_SIZE };

/* A template is what comes before a short scalar; 16 bytes at a time are copied. */
#define TEMPLATE_MAX 128
/* Templates, short values and varints are written in whole words, past their own end. */
#define OUTPUT_SLACK (TEMPLATE_MAX + 64)

typedef struct {
    enum Kind kind;
    enum Nesting nesting;
    Bytes validity, list_offsets, value_offsets, values;
    int list_width, value_width;      /* bytes of one offset: 4 or 8 */
    int64_t offset, length;           /* rows */
    int64_t list_size;                /* LIST_OF_FIXED_SIZE: items a row */
    int64_t item_offset, item_length; /* items of a list */

    const uint8_t *key; /* tag, length and bytes of the key, then the tag of the feature */
    int64_t key_size;
    uint8_t tag; /* of the list within the feature */
    /* A scalar whose five lengths are all below 128 begins with `template_bytes`, where 0xff in
     * `template_mask` marks the bytes to which the value's size is added. */
    int64_t short_max; /* longest such value, -1 where the key is too long */
    int template_size, template_blocks;
    uint8_t template_bytes[TEMPLATE_MAX], template_mask[TEMPLATE_MAX];
} Column;

typedef struct {
    int64_t start;        /* the first row, where `index` is NULL */
    const uint8_t *index; /* int64 row numbers */
    int64_t count;
} Rows;

enum Fault { FAULT_NONE, FAULT_ROW, FAULT_OFFSETS, FAULT_LIMIT, FAULT_TOTAL };

typedef struct {
    enum Fault fault;
    int64_t number; /* of the record, or of the column where offsets are wrong */
    int64_t size;
} Failure;

typedef struct {
    int64_t start, stop;
} Span;

static inline uint64_t load64(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static inline int64_t load_offset(Bytes offsets, int width, int64_t at) {
    if (width == 8)
        return (int64_t)load64(offsets.data + 8 * at);
    int32_t word;
    memcpy(&word, offsets.data + 4 * at, 4);
    return word;
}

static inline int is_valid(const Column *column, int64_t place) {
    return !column->validity.data || (column->validity.data[place >> 3] >> (place & 7) & 1);
}

static inline int64_t row_at(const Rows *rows, int64_t i) {
    return rows->index ? (int64_t)load64(rows->index + 8 * i) : rows->start + i;
}

/* Bytes of `value` as a varint: one for each seven bits begun. */
static inline int varint_size(uint64_t value) {
    return ((63 - __builtin_clzll(value | 1)) * 9 + 73) >> 6;
}

static inline uint8_t *put_varint(uint8_t *out, uint64_t value) {
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

/* The same for `size` known, without a branch on the value: the bits are spread seven to a byte.
 * Writes ten bytes, whatever `size` is. */
static inline uint8_t *put_varint_sized(uint8_t *out, uint64_t value, int size) {
    uint64_t low = value & 0x00ffffffffffffffu;
    low = (low & 0x000000000fffffffu) | ((low & 0x00fffffff0000000u) << 4);
    low = (low & 0x00003fff00003fffu) | ((low & 0x0fffc0000fffc000u) << 2);
    low = (low & 0x007f007f007f007fu) | ((low & 0x3f803f803f803f80u) << 1);
    int more = size < 9 ? size - 1 : 8; /* bytes that another follows */
    uint64_t marks = more == 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * more)) - 1;
    low |= marks & 0x8080808080808080u;
    memcpy(out, &low, 8);
    out[8] = (uint8_t)(((value >> 56) & 0x7f) | (size > 9 ? 0x80 : 0));
    out[9] = (uint8_t)(value >> 63);
    return out + size;
}

/* Bytes of a map entry that holds a feature whose list takes `list` bytes, and the two lengths
 * on the way. */
typedef struct {
    uint64_t feature, entry, total;
} EntrySize;

static inline EntrySize entry_size(const Column *column, uint64_t list) {
    EntrySize size;
    size.feature = 1 + (uint64_t)varint_size(list) + list;
    size.entry = (uint64_t)column->key_size + (uint64_t)varint_size(size.feature) + size.feature;
    size.total = 1 + (uint64_t)varint_size(size.entry) + size.entry;
    return size;
}

static void column_prepare(Column *column) {
    int64_t key = column->key_size;
    column->tag = (uint8_t)(column->kind << 3 | 2);
    column->template_size = (int)key + 7;
    column->short_max = 127 - 5 - key;
    if (column->short_max < 10 || column->template_size > TEMPLATE_MAX) {
        column->short_max = -1;
        return;
    }
    column->template_blocks = (column->template_size + 15) / 16;
    uint8_t *bytes = column->template_bytes, *mask = column->template_mask;
    bytes[0] = 0x0a;
    bytes[1] = (uint8_t)(key + 5);
    memcpy(bytes + 2, column->key, (size_t)key);
    uint8_t *tail = bytes + 2 + key;
    tail[0] = 4;
    tail[1] = column->tag;
    tail[2] = 2;
    tail[3] = 0x0a;
    tail[4] = 0;
    mask[1] = mask[2 + key] = mask[4 + key] = mask[6 + key] = 0xff;
}

/* The items of the row's list, as places in the items' buffers; -1 where offsets are wrong. */
static inline Span list_span(const Column *column, int64_t place) {
    Span span = {place, place + 1};
    if (column->nesting == LIST_OF_FIXED_SIZE) {
        span.start = place * column->list_size;
        span.stop = span.start + column->list_size;
    } else if (column->nesting == LIST_OF_OFFSETS) {
        span.start = load_offset(column->list_offsets, column->list_width, place);
        span.stop = load_offset(column->list_offsets, column->list_width, place + 1);
    } else {
        return span;
    }
    if (span.start < 0 || span.stop < span.start || span.stop > column->item_length)
        return (Span){-1, -1};
    return (Span){span.start + column->item_offset, span.stop + column->item_offset};
}

static inline Span bytes_span(const Column *column, int64_t place) {
    Span span = {load_offset(column->value_offsets, column->value_width, place),
                 load_offset(column->value_offsets, column->value_width, place + 1)};
    if (span.start < 0 || span.stop < span.start || span.stop > column->values.size)
        return (Span){-1, -1};
    return span;
}

/* Bytes of the numbers of `span`, packed. */
static uint64_t packed_size(const Column *column, Span span) {
    uint64_t size = 0;
    if (column->kind == KIND_FLOAT)
        return 4 * (uint64_t)(span.stop - span.start);
    for (int64_t i = span.start; i < span.stop; i++)
        size += (uint64_t)varint_size(load64(column->values.data + 8 * i));
    return size;
}

/* Bytes of the Int64List, FloatList or BytesList that holds `span`; -1 where offsets are wrong. */
static int64_t list_bytes(const Column *column, Span span) {
    if (span.start < 0)
        return -1;
    if (column->kind != KIND_BYTES) {
        uint64_t packed = packed_size(column, span);
        return packed ? (int64_t)packed + 1 + varint_size(packed) : 0;
    }
    int64_t size = 0;
    for (int64_t i = span.start; i < span.stop; i++) {
        Span value = bytes_span(column, i);
        if (value.start < 0)
            return -1;
        int64_t length = value.stop - value.start;
        size += 1 + varint_size((uint64_t)length) + length;
    }
    return size;
}

/* Bytes of the value of a scalar itself; -1 where offsets are wrong. */
static inline int64_t scalar_bytes(const Column *column, int64_t place) {
    if (column->kind == KIND_FLOAT)
        return 4;
    if (column->kind == KIND_INT64)
        return varint_size(load64(column->values.data + 8 * place));
    Span span = bytes_span(column, place);
    return span.start < 0 ? -1 : span.stop - span.start;
}

static inline int64_t place_bytes(const Column *column, int64_t place) {
    if (!is_valid(column, place))
        return 0;
    if (column->nesting == SCALAR) {
        int64_t value = scalar_bytes(column, place);
        if (value < 0)
            return -1;
        if (value <= column->short_max)
            return column->template_size + value;
        uint64_t list = 1 + (uint64_t)varint_size((uint64_t)value) + (uint64_t)value;
        return (int64_t)entry_size(column, list).total;
    }
    int64_t list = list_bytes(column, list_span(column, place));
    return list < 0 ? -1 : (int64_t)entry_size(column, (uint64_t)list).total;
}

/* Add to `sizes` what the column takes in each of the rows from `first` on; -1 for bad offsets. */
static int add_sizes(const Column *column, const Rows *rows, int64_t first, int64_t count,
                     int64_t *sizes) {
    if (column->nesting == SCALAR && column->kind == KIND_FLOAT && !column->validity.data) {
        int64_t size = (int64_t)entry_size(column, 6).total;
        for (int64_t i = 0; i < count; i++)
            sizes[i] += size;
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t size = place_bytes(column, row_at(rows, first + i) + column->offset);
        if (size < 0)
            return -1;
        sizes[i] += size;
    }
    return 0;
}

static inline uint64_t example_size(uint64_t features) {
    return 1 + (uint64_t)varint_size(features) + features;
}

#define FRAME_BYTES 16
#define BLOCK_ROWS 2048

static int rows_inside(const Rows *rows, int64_t length, Failure *failure) {
    if (rows->count == 0)
        return 1;
    if (!rows->index) {
        failure->number = rows->start;
        return rows->start >= 0 && rows->count <= length - rows->start;
    }
    for (int64_t i = 0; i < rows->count; i++) {
        failure->number = row_at(rows, i);
        if (failure->number < 0 || failure->number >= length)
            return 0;
    }
    return 1;
}

/* Fill `sizes` with the bytes of each record's Features; return the bytes of all records, framed,
 * or -1 with the reason in `failure`. */
static int64_t measure(const Column *columns, int count, const Rows *rows, int64_t limit,
                       int64_t *sizes, Failure *failure) {
    int64_t total = 0;
    memset(sizes, 0, (size_t)rows->count * sizeof *sizes);
    for (int c = 0; c < count; c++) {
        int is_new_length = c == 0 || columns[c].length != columns[c - 1].length;
        if (is_new_length && !rows_inside(rows, columns[c].length, failure)) {
            failure->fault = FAULT_ROW;
            return -1;
        }
    }
    for (int64_t first = 0; first < rows->count; first += BLOCK_ROWS) {
        int64_t block = rows->count - first < BLOCK_ROWS ? rows->count - first : BLOCK_ROWS;
        for (int c = 0; c < count; c++)
            if (add_sizes(&columns[c], rows, first, block, sizes + first)) {
                *failure = (Failure){FAULT_OFFSETS, c, 0};
                return -1;
            }
        for (int64_t i = first; i < first + block; i++) {
            int64_t record = (int64_t)example_size((uint64_t)sizes[i]);
            if (record > limit) {
                *failure = (Failure){FAULT_LIMIT, i, record};
                return -1;
            }
            if (__builtin_add_overflow(total, record + FRAME_BYTES, &total)) {
                *failure = (Failure){FAULT_TOTAL, i, 0};
                return -1;
            }
        }
    }
    return total;
}

/* Copy `size` bytes; short ones in whole words where the source goes on far enough. */
static inline uint8_t *put_bytes(uint8_t *out, const Column *column, Span span) {
    int64_t size = span.stop - span.start;
    if (size == 0)
        return out;
    const uint8_t *from = column->values.data + span.start;
    if (size <= 32 && column->values.size - span.start >= 32) {
        memcpy(out, from, 16);
        memcpy(out + 16, from + 16, 16);
    } else {
        memcpy(out, from, (size_t)size);
    }
    return out + size;
}

static inline uint8_t *put_template(uint8_t *out, const Column *column, int64_t size) {
    typedef uint8_t Block __attribute__((vector_size(16)));
    Block more = (Block){0} + (uint8_t)size;
    for (int i = 0; i < column->template_blocks; i++) {
        Block bytes, mask;
        memcpy(&bytes, column->template_bytes + 16 * i, 16);
        memcpy(&mask, column->template_mask + 16 * i, 16);
        bytes += mask & more;
        memcpy(out + 16 * i, &bytes, 16);
    }
    return out + column->template_size;
}

/* Everything before the list's own bytes, lengths of any size. */
static uint8_t *put_lengths(uint8_t *out, const Column *column, uint64_t list) {
    EntrySize size = entry_size(column, list);
    *out++ = 0x0a;
    out = put_varint(out, size.entry);
    memcpy(out, column->key, (size_t)column->key_size);
    out = put_varint(out + column->key_size, size.feature);
    *out++ = column->tag;
    return put_varint(out, list);
}

static uint8_t *put_packed(uint8_t *out, const Column *column, Span span) {
    uint64_t packed = packed_size(column, span);
    if (!packed)
        return out;
    *out++ = 0x0a;
    out = put_varint(out, packed);
    if (column->kind == KIND_FLOAT) {
        memcpy(out, column->values.data + 4 * span.start, packed);
        return out + packed;
    }
    for (int64_t i = span.start; i < span.stop; i++) {
        uint64_t value = load64(column->values.data + 8 * i);
        out = put_varint_sized(out, value, varint_size(value));
    }
    return out;
}

/* One map entry whose value is a list, or a scalar too long for a template. */
static uint8_t *put_list(uint8_t *out, const Column *column, int64_t place) {
    Span span = list_span(column, place);
    out = put_lengths(out, column, (uint64_t)list_bytes(column, span));
    if (column->kind != KIND_BYTES)
        return put_packed(out, column, span);
    for (int64_t i = span.start; i < span.stop; i++) {
        Span value = bytes_span(column, i);
        *out++ = 0x0a;
        out = put_varint(out, (uint64_t)(value.stop - value.start));
        out = put_bytes(out, column, value);
    }
    return out;
}

static inline uint8_t *put_scalar(uint8_t *out, const Column *column, int64_t place) {
    if (column->kind == KIND_BYTES) {
        Span span = bytes_span(column, place);
        if (span.stop - span.start > column->short_max)
            return put_list(out, column, place);
        return put_bytes(put_template(out, column, span.stop - span.start), column, span);
    }
    if (column->short_max < 0)
        return put_list(out, column, place);
    if (column->kind == KIND_FLOAT) {
        out = put_template(out, column, 4);
        memcpy(out, column->values.data + 4 * place, 4);
        return out + 4;
    }
    uint64_t value = load64(column->values.data + 8 * place);
    int size = varint_size(value);
    return put_varint_sized(put_template(out, column, size), value, size);
}

static inline void put32(uint8_t *out, uint32_t value) {
    memcpy(out, &value, 4);
}

/* Write the records that `measure` measured, and turn their sizes into the offsets of their ends.
 * `out` has room for all of them and OUTPUT_SLACK more. */
static void write_records(const Column *columns, int count, const Rows *rows, int64_t *sizes,
                          uint8_t *out) {
    uint8_t *at = out;
    for (int64_t i = 0; i < rows->count; i++) {
        uint64_t features = (uint64_t)sizes[i], record = example_size(features);
        int64_t row = row_at(rows, i);
        uint8_t *body = at + 12;
        memcpy(at, &record, 8);
        put32(at + 8, crc_masked(at, 8));
        *body = 0x0a;
        at = put_varint(body + 1, features);
        for (int c = 0; c < count; c++) {
            const Column *column = &columns[c];
            int64_t place = row + column->offset;
            if (!is_valid(column, place))
                continue;
            at = column->nesting == SCALAR ? put_scalar(at, column, place)
                                           : put_list(at, column, place);
        }
        put32(at, crc_masked(body, record));
        at += 4;
        sizes[i] = at - out;
    }
}

#endif
