/* Serialized tf.train.Example messages taken apart, without their values being copied: which
 * features each record has, of which kind, how many values. The rules are those that the reference
 * body writes down. */
#ifndef TFREC_EXAMPLES_H
#define TFREC_EXAMPLES_H

#include <stdlib.h>

#include "_crc32c.h"
#include "_encode.h"
#include "_offsets.h"

typedef struct {
    const uint8_t *at, *end;
} Part;

/* One field of a message. Its content is `body`, a varint has its value in `value` too. */
typedef struct {
    uint64_t number, value;
    int wire;
    Part body;
} Field;

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { FOUND_NONE, FOUND_BYTES, FOUND_FLOAT, FOUND_INT64, FOUND_KINDS };

/* One entry of a record's feature map. `payload`: bytes of its values alone. `slot` is its place in
 * the table, `dead` says that a later entry of the same record has the same key. */
typedef struct {
    Part whole, key;
    int kind, dead;
    int64_t count, low, high, payload, slot;
} Entry;

typedef struct {
    Entry *entries;
    int64_t count, room;
    int sequence; /* whether the message has the second field of a SequenceExample */
} Record;

static inline int part_varint(Part *part, uint64_t *value) {
    if (part->at < part->end && *part->at < 0x80) {
        *value = *part->at++;
        return 0;
    }
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && part->at < part->end; shift += 7) {
        uint8_t byte = *part->at++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return 0;
        }
    }
    return -1;
}

/* A length, which protobuf writes and reads in five bytes at most. */
static inline int part_size(Part *part, uint64_t *size) {
    const uint8_t *start = part->at;
    return part_varint(part, size) || part->at - start > 5 ? -1 : 0;
}

static inline int part_take(Part *part, uint64_t size, Part *body) {
    if (size > (uint64_t)(part->end - part->at))
        return -1;
    *body = (Part){part->at, part->at + size};
    part->at += size;
    return 0;
}

static inline int part_field(Part *part, Field *field) {
    uint64_t tag, size;
    if (part_varint(part, &tag) || tag > UINT32_MAX || tag < 8)
        return -1;
    field->number = tag >> 3;
    field->value = 0;
    field->body = (Part){part->at, part->at};
    field->wire = (int)(tag & 7);
    switch (field->wire) {
    case WIRE_BYTES:
        return part_size(part, &size) ? -1 : part_take(part, size, &field->body);
    case WIRE_VARINT:
        if (part_varint(part, &field->value))
            return -1;
        field->body.end = part->at;
        return 0;
    case WIRE_64:
        return part_take(part, 8, &field->body);
    case WIRE_32:
        return part_take(part, 4, &field->body);
    default:
        return -1;
    }
}

static inline void entry_int64(Entry *entry, uint64_t bits) {
    int64_t value = (int64_t)bits;
    entry->low = value < entry->low ? value : entry->low;
    entry->high = value > entry->high ? value : entry->high;
    entry->count++;
}

/* The top bits of eight bytes, which say that a varint goes on. */
#define TOPS UINT64_C(0x8080808080808080)

/* Vectors as compilers have them for any processor. */
typedef int8_t Signed16 __attribute__((vector_size(16)));

/* The groups of seven bits in the first bytes of `word`, next to each other. */
static inline uint64_t varint_join(uint64_t word) {
    word &= 0x7f7f7f7f7f7f7f7f;
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    return (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
}

typedef struct {
    int64_t low, high, count;
} Ints;

static inline void ints_note(Ints *ints, uint64_t bits) {
    ints->low = (int64_t)bits < ints->low ? (int64_t)bits : ints->low;
    ints->high = (int64_t)bits > ints->high ? (int64_t)bits : ints->high;
}

static inline void ints_add(Ints *ints, uint64_t bits) {
    ints_note(ints, bits);
    ints->count++;
}

/* Integers of up to eight bytes, as they stand: without the top bit of each byte they have the
 * order of their values, so that only the least and the greatest need to be joined. */
typedef struct {
    Ints ints; /* the longer ones, and the count */
    uint64_t least, most;
} Packed;

static inline void packed_add(Packed *packed, uint64_t bits) {
    packed->least = bits < packed->least ? bits : packed->least;
    packed->most = bits > packed->most ? bits : packed->most;
}

/* One integer, with at least eight bytes from `at` on: where it ends, or NULL where it is none. The
 * length of a varint is hard to foresee: no branch depends on it, up to eight bytes. */
static inline const uint8_t *packed_step(Packed *packed, const uint8_t *at, const uint8_t *end) {
    uint64_t word = load64(at), last = ~word & TOPS;
    if (last) {
        packed_add(packed, word & (last ^ (last - 1)) & ~TOPS);
        return at + (__builtin_ctzll(last) >> 3) + 1;
    }
    Part part = {at, end};
    if (part_varint(&part, &word))
        return NULL;
    ints_note(&packed->ints, word);
    return part.at;
}

/* Where a varint begins that is in `packed` at `at` or later. */
static inline const uint8_t *packed_start(Part packed, const uint8_t *at) {
    while (at > packed.at && at < packed.end && at[-1] >= 0x80)
        at++;
    return at;
}

/* Each varint says where the next begins, which takes longer than to read it: so four walks go side
 * by side, as long as each has ten bytes, more than which no sound varint takes. */
#define LANES 4
static int packed_lanes(Packed *packed, Part *lanes) {
    Packed sum = *packed;
    const uint8_t *a = lanes[0].at, *b = lanes[1].at, *c = lanes[2].at, *d = lanes[3].at;
    while (lanes[0].end - a >= 10 && lanes[1].end - b >= 10 && lanes[2].end - c >= 10 &&
           lanes[3].end - d >= 10) {
        a = packed_step(&sum, a, lanes[0].end);
        b = packed_step(&sum, b, lanes[1].end);
        c = packed_step(&sum, c, lanes[2].end);
        d = packed_step(&sum, d, lanes[3].end);
        if (!a || !b || !c || !d)
            return -1;
        sum.ints.count += LANES;
    }
    *packed = sum;
    lanes[0].at = a;
    lanes[1].at = b;
    lanes[2].at = c;
    lanes[3].at = d;
    return 0;
}

/* As many integers of one byte as the part begins with, sixteen at a time. */
static void packed_bytes(Packed *packed, Part *part) {
    Signed16 least = ~(Signed16){0} ^ INT8_MIN, most = {0}, cells;
    const uint8_t *start = part->at;
    int8_t low[16], high[16];
    for (; part->end - part->at >= 16; part->at += 16) {
        if ((load64(part->at) | load64(part->at + 8)) & TOPS)
            break;
        memcpy(&cells, part->at, sizeof cells);
        Signed16 less = cells < least, more = cells > most;
        least = (cells & less) | (least & ~less);
        most = (cells & more) | (most & ~more);
    }
    if (part->at == start)
        return;
    memcpy(low, &least, sizeof low);
    memcpy(high, &most, sizeof high);
    packed->ints.count += part->at - start;
    for (int i = 0; i < 16; i++) {
        packed_add(packed, (uint64_t)low[i]);
        packed_add(packed, (uint64_t)high[i]);
    }
}

static int packed_read(Packed *packed, Part part) {
    uint64_t bits;
    Part lanes[LANES];
    packed_bytes(packed, &part);
    int64_t size = part.end - part.at;
    int count = size >= 16 * LANES ? LANES : 1;
    for (int i = 0; i < count; i++)
        lanes[i].at = packed_start(part, part.at + size * i / count);
    for (int i = 0; i < count; i++)
        lanes[i].end = i + 1 < count ? lanes[i + 1].at : part.end;
    if (count == LANES && packed_lanes(packed, lanes))
        return -1;
    for (int i = 0; i < count; i++) {
        while (lanes[i].end - lanes[i].at >= 8) {
            if (!(lanes[i].at = packed_step(packed, lanes[i].at, lanes[i].end)))
                return -1;
            packed->ints.count++;
        }
        while (lanes[i].at < lanes[i].end) {
            if (part_varint(&lanes[i], &bits))
                return -1;
            ints_add(&packed->ints, bits);
        }
    }
    return 0;
}

/* The integers of a packed list, added to `ints`; -1 where they are none. */
static int ints_read(Ints *ints, Part part) {
    Packed packed = {*ints, UINT64_MAX, 0};
    if (packed_read(&packed, part))
        return -1;
    *ints = packed.ints;
    if (packed.least <= packed.most) {
        ints_note(ints, varint_join(packed.least));
        ints_note(ints, varint_join(packed.most));
    }
    return 0;
}

static int entry_ints(Entry *entry, Part packed) {
    Ints ints = {entry->low, entry->high, entry->count};
    int fault = ints_read(&ints, packed);
    entry->low = ints.low;
    entry->high = ints.high;
    entry->count = ints.count;
    return fault;
}

/* One field of a BytesList, FloatList or Int64List. */
static inline int entry_item(Entry *entry, Field *field) {
    int64_t size = field->body.end - field->body.at;
    if (field->number != 1)
        return 0;
    switch (entry->kind) {
    case FOUND_BYTES:
        if (field->wire != WIRE_BYTES)
            return 0;
        entry->count++;
        break;
    case FOUND_FLOAT:
        if (field->wire != WIRE_BYTES && field->wire != WIRE_32)
            return 0;
        if (size % 4)
            return -1;
        entry->count += size / 4;
        break;
    default:
        if (field->wire != WIRE_BYTES && field->wire != WIRE_VARINT)
            return 0;
        if (field->wire == WIRE_VARINT)
            entry_int64(entry, field->value);
        else if (entry_ints(entry, field->body))
            return -1;
    }
    entry->payload += size;
    return 0;
}

static inline void entry_clear(Entry *entry, int kind) {
    entry->kind = kind;
    entry->count = entry->payload = 0;
    entry->low = INT64_MAX;
    entry->high = INT64_MIN;
}

static inline int entry_feature(Entry *entry, Part feature) {
    Field list, item;
    while (feature.at < feature.end) {
        if (part_field(&feature, &list))
            return -1;
        if (list.wire != WIRE_BYTES || list.number > FOUND_INT64)
            continue;
        if (entry->kind != (int)list.number)
            entry_clear(entry, (int)list.number);
        while (list.body.at < list.body.end)
            if (part_field(&list.body, &item) || entry_item(entry, &item))
                return -1;
    }
    return 0;
}

/* A field of a map entry, which has a key and a Feature and nothing else. */
static inline int entry_field(Part *part, Field *field) {
    return part_field(part, field) || field->wire != WIRE_BYTES || field->number > 2 ? -1 : 0;
}

static inline int entry_read(Entry *entry, Part part) {
    Field field;
    entry->whole = part;
    entry->key = (Part){part.at, part.at};
    entry->dead = 0;
    entry_clear(entry, FOUND_NONE);
    while (part.at < part.end) {
        if (entry_field(&part, &field))
            return -1;
        if (field.number == 1)
            entry->key = field.body;
        else if (entry_feature(entry, field.body))
            return -1;
    }
    return 0;
}

static Entry *record_entry(Record *record) {
    if (record->count == record->room) {
        int64_t room = record->room ? 2 * record->room : 64;
        Entry *entries = realloc(record->entries, (size_t)room * sizeof *entries);
        if (!entries)
            return NULL;
        record->entries = entries;
        record->room = room;
    }
    return &record->entries[record->count++];
}

/* The entries of the message `part`. 0, or -1 where it is no Example, or -2 without memory. */
static int record_read(Record *record, Part part) {
    Field field, inner;
    record->count = 0;
    record->sequence = 0;
    while (part.at < part.end) {
        if (part_field(&part, &field))
            return -1;
        if (field.wire != WIRE_BYTES)
            continue;
        record->sequence |= field.number == 2;
        while (field.number == 1 && field.body.at < field.body.end) {
            if (part_field(&field.body, &inner))
                return -1;
            if (inner.number != 1 || inner.wire != WIRE_BYTES)
                continue;
            Entry *entry = record_entry(record);
            if (!entry)
                return -2;
            if (entry_read(entry, inner.body))
                return -1;
        }
    }
    return 0;
}

static inline int same_key(Part a, Part b) {
    size_t size = (size_t)(a.end - a.at);
    return size == (size_t)(b.end - b.at) && memcmp(a.at, b.at, size) == 0;
}

static inline uint64_t key_hash(Part key) {
    return crc_update(~(uint32_t)0, key.at, (size_t)(key.end - key.at)) * 0x9E3779B97F4A7C15u >> 16;
}

/* Where the last map entry with `key` of each record begins and ends in `data`, and how many
 * values it has, as `found[3 * i]`; -1 where there is none. 0, or -1 without memory. */
static int find_entries(const uint8_t *data, const int64_t *ends, int64_t count, Part key,
                        int64_t *found) {
    Record record = {NULL, 0, 0, 0};
    int fault = 0;
    for (int64_t i = 0; i < count && fault != -2; i++, found += 3) {
        Part part = {data + (i ? ends[i - 1] : 0) + 12, data + ends[i] - 4};
        fault = record_read(&record, part);
        found[0] = found[1] = found[2] = -1;
        for (int64_t e = 0; e < record.count && !fault; e++) {
            const Entry *entry = &record.entries[e];
            if (!same_key(entry->key, key))
                continue;
            found[0] = entry->whole.at - data;
            found[1] = entry->whole.end - data;
            found[2] = entry->count;
        }
    }
    free(record.entries);
    return fault == -2 ? -1 : 0;
}

#endif
