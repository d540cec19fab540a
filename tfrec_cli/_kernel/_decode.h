/* Framed Examples to columns: the values of the features that are asked for. What an Example is,
 * and which value counts where there are several, is said in `_decode_reference.py`, the twin in
 * Python. Needs _examples.h.
 *
 * Records of one dataset have the same keys in the same order, nearly always: the place of an entry
 * in the record before says which key it probably has, and its lengths nearly always are those of a
 * single list that fills its feature. Whatever is different takes the long way, entry by entry. */
#ifndef TFREC_DECODE_H
#define TFREC_DECODE_H

#include "_encode.h"
#include "_examples.h"

enum { DECODED = 0, NO_EXAMPLE = -1, NO_MEMORY = -2 };
/* As much data as can be decoded in one go: then no sum of its parts overflows 32 bits. */
#define DECODE_MAX ((int64_t)INT32_MAX + FRAME_BYTES)
enum { FAULTLESS, FAULT_KIND, FAULT_COUNT };

/* Records of one feature that are not as asked; the caller sees it as so many int64. */
typedef struct {
    int64_t kind_records, kind_first, kind_found;
    int64_t count_records, count_first, count_found;
} CellFaults;

/* Where a value of bytes is in the data. */
typedef struct {
    uint32_t start, size;
} Bit;

/* A key and, where it is asked for (its kind is not FOUND_NONE), the column that it becomes.
 *
 * Scalars: `values` has a place for each record, or for bytes, until the end, `offsets[record + 1]`
 * the size. `text` has the values of bytes one after the other, copied while their record is near,
 * up to record `copied`; from there on, `starts` says where in the data they are.
 *
 * Lists: `offsets` has where each record's items end among the `count` ones of `items`: int64, float
 * or Bit. */
typedef struct {
    Part key;
    int kind, is_list;
    uint8_t *validity, *values, *items;
    int32_t *offsets;
    uint8_t *text;
    int64_t text_start, text_size, text_room; /* where the value of the record at hand begins */
    uint32_t *starts;
    int64_t copied;
    int64_t count, room, valid;
    int64_t seen, first; /* the last record that has the key, and the first, -1 for none */
    int fault;           /* of the record `seen` */
    CellFaults faults;
} Target;

typedef struct {
    const uint8_t *data, *end;
    int64_t rows, row; /* the number of records, and the one at hand */
    Target *targets;
    int64_t count, room, wanted; /* the first `wanted` are asked for, the others just met */
    int64_t lists;               /* how many of them are lists */
    int64_t *hashed;             /* targets by the hash of their key, -1 where free */
    uint64_t mask;
    int64_t *order; /* the targets of the record before, in its order */
    int64_t order_count, order_room, position;
    Offsets invalid;
    int64_t sequences, first_sequence;
} Decoder;

static inline int64_t item_width(const Target *target) {
    return target->kind == FOUND_FLOAT ? 4 : 8;
}

/* Room for `more` items of a list. */
static int items_reserve(Target *target, int64_t more) {
    if (more <= target->room - target->count)
        return DECODED;
    int64_t room = target->room ? 2 * target->room : 1024;
    if (room < target->count + more)
        room = target->count + more;
    uint8_t *items = realloc(target->items, (size_t)(room * item_width(target)));
    if (!items)
        return NO_MEMORY;
    target->items = items;
    target->room = room;
    return DECODED;
}

#define DECODE_SLACK 16
#define SHORT_TEXT 64

/* A value's bytes, most of them short. has_room: whether 16 may be read, whatever the size. */
static inline void bytes_copy(uint8_t *out, const uint8_t *from, int64_t size, int has_room) {
    if (size <= DECODE_SLACK && has_room)
        memcpy(out, from, DECODE_SLACK);
    else if (size)
        memcpy(out, from, (size_t)size);
}

static inline void cell_valid(const Decoder *decoder, Target *target) {
    target->validity[decoder->row >> 3] |= (uint8_t)(1 << (decoder->row & 7));
    target->valid++;
}

/* As if the record at hand did not have the key. */
static void cell_undo(const Decoder *decoder, Target *target) {
    int64_t row = decoder->row;
    uint8_t bit = (uint8_t)(1 << (row & 7));
    CellFaults *faults = &target->faults;
    target->seen = -1;
    if (target->first == row)
        target->first = -1;
    if (target->kind == FOUND_NONE)
        return;
    if (target->validity[row >> 3] & bit) {
        target->validity[row >> 3] &= (uint8_t)~bit;
        target->valid--;
    }
    if (target->is_list)
        target->count = target->offsets[row];
    else if (target->kind == FOUND_BYTES) {
        target->text_size = target->text_start;
        target->offsets[row + 1] = 0;
    } else
        memset(target->values + row * item_width(target), 0, (size_t)item_width(target));
    if (target->fault == FAULT_KIND && --faults->kind_records == 0)
        faults->kind_first = faults->kind_found = -1;
    if (target->fault == FAULT_COUNT && --faults->count_records == 0)
        faults->count_first = faults->count_found = -1;
    target->fault = FAULTLESS;
}

static void cell_fault(const Decoder *decoder, Target *target, int fault, int64_t found) {
    CellFaults *faults = &target->faults;
    target->fault = fault;
    if (fault == FAULT_KIND && faults->kind_records++ == 0) {
        faults->kind_first = decoder->row;
        faults->kind_found = found;
    }
    if (fault == FAULT_COUNT && faults->count_records++ == 0) {
        faults->count_first = decoder->row;
        faults->count_found = found;
    }
}

static int text_reserve(Target *target) {
    int64_t room = target->text_room ? 2 * target->text_room : 4096;
    uint8_t *text = realloc(target->text, (size_t)room);
    if (!text)
        return NO_MEMORY;
    target->text = text;
    target->text_room = room;
    return DECODED;
}

/* A value of bytes, the only one of its record. While all are short they are copied at once: later
 * their records would have to be fetched anew for each column. */
static inline int cell_bytes(const Decoder *decoder, Target *target, const Part *bytes) {
    int64_t size = bytes->end - bytes->at, row = decoder->row;
    target->offsets[row + 1] = (int32_t)size;
    if (size <= SHORT_TEXT && row < target->copied) {
        if (target->text_start + SHORT_TEXT > target->text_room && text_reserve(target))
            return NO_MEMORY;
        bytes_copy(target->text + target->text_start, bytes->at, size,
                   decoder->end - bytes->at >= DECODE_SLACK);
        target->text_size = target->text_start + size;
        return DECODED;
    }
    if (row < target->copied) {
        target->copied = row;
        target->text_size = target->text_start;
        target->starts = calloc((size_t)decoder->rows, sizeof *target->starts);
        if (!target->starts)
            return NO_MEMORY;
    }
    target->starts[row] = (uint32_t)(bytes->at - decoder->data);
    return DECODED;
}

/* One value: bytes by their place, numbers by their bits. */
static inline int cell_put(const Decoder *decoder, Target *target, const Part *bytes,
                           uint64_t bits) {
    Bit bit = {0, 0};
    uint8_t *place;
    if (!target->is_list && target->kind == FOUND_BYTES)
        return cell_bytes(decoder, target, bytes);
    if (target->kind == FOUND_BYTES)
        bit = (Bit){(uint32_t)(bytes->at - decoder->data), (uint32_t)(bytes->end - bytes->at)};
    if (target->is_list) {
        if (items_reserve(target, 1))
            return NO_MEMORY;
        place = target->items + target->count++ * item_width(target);
    } else {
        place = target->values + decoder->row * item_width(target);
    }
    memcpy(place, target->kind == FOUND_BYTES ? (void *)&bit : (void *)&bits,
           (size_t)item_width(target));
    return DECODED;
}

static inline uint64_t float_bits(const uint8_t *at) {
    uint32_t bits;
    memcpy(&bits, at, 4);
    return bits;
}

/* One integer. A whole word is looked at where the data has one. */
static inline int part_int(Part *part, uint64_t *value) {
    if (part->end - part->at >= 8 && *part->at >= 0x80) {
        uint64_t word = load64(part->at), last = ~word & 0x8080808080808080;
        if (last) {
            int size = (__builtin_ctzll(last) >> 3) + 1;
            *value = varint_join(word & (~(uint64_t)0 >> (64 - 8 * size)));
            part->at += size;
            return DECODED;
        }
        if (part->end - part->at >= 10 && part->at[9] < 0x80) {
            int more = part->at[8] >= 0x80; /* else the ninth byte is the last */
            *value = varint_join(word) | (uint64_t)(part->at[8] & 0x7f) << 56 |
                     (more ? (uint64_t)part->at[9] << 63 : 0);
            part->at += 9 + more;
            return DECODED;
        }
    }
    return part_varint(part, value);
}

/* Packed integers onto a list. */
static int list_ints(Target *target, Part packed) {
    /* No integer takes less than a byte. */
    if (items_reserve(target, packed.end - packed.at))
        return NO_MEMORY;
    int64_t *items = (int64_t *)(void *)target->items, count = target->count;
    while (packed.at < packed.end) {
        uint64_t value;
        if (part_int(&packed, &value))
            return NO_EXAMPLE;
        items[count++] = (int64_t)value;
    }
    target->count = count;
    return DECODED;
}

static int list_floats(Target *target, Part packed) {
    int64_t size = packed.end - packed.at;
    if (items_reserve(target, size / 4))
        return NO_MEMORY;
    if (size)
        memcpy(target->items + 4 * target->count, packed.at, (size_t)size);
    target->count += size / 4;
    return DECODED;
}

/* The values in one field of a list of the kind asked for, which is known to be sound. */
static int cell_item(const Decoder *decoder, Target *target, Field *item) {
    int fault = DECODED;
    uint64_t value = 0;
    if (item->number != 1)
        return DECODED;
    if (target->kind == FOUND_BYTES)
        return item->wire == WIRE_BYTES ? cell_put(decoder, target, &item->body, 0) : DECODED;
    if (target->kind == FOUND_FLOAT) {
        if (item->wire != WIRE_BYTES && item->wire != WIRE_32)
            return DECODED;
        for (; item->body.at < item->body.end && !fault; item->body.at += 4)
            fault = cell_put(decoder, target, NULL, float_bits(item->body.at));
        return fault;
    }
    if (item->wire == WIRE_VARINT)
        return cell_put(decoder, target, NULL, item->value);
    while (item->wire == WIRE_BYTES && item->body.at < item->body.end && !fault) {
        fault = part_int(&item->body, &value);
        if (!fault)
            fault = cell_put(decoder, target, NULL, value);
    }
    return fault;
}

/* The values of a sound Feature onto those before it. Another kind takes them all away. */
static int cell_feature(const Decoder *decoder, Target *target, Part feature) {
    Field list, item;
    int fault = DECODED;
    while (feature.at < feature.end && !fault) {
        if (part_field(&feature, &list))
            return NO_EXAMPLE;
        if (list.wire != WIRE_BYTES || list.number > FOUND_INT64)
            continue;
        if ((int)list.number != target->kind && target->is_list)
            target->count = target->offsets[decoder->row];
        while ((int)list.number == target->kind && list.body.at < list.body.end && !fault)
            fault = part_field(&list.body, &item) ? NO_EXAMPLE : cell_item(decoder, target, &item);
    }
    return fault;
}

/* A map entry of any make. */
static int cell_entry(const Decoder *decoder, Target *target, Part part) {
    Entry entry;
    Field field;
    int fault = DECODED;
    if (entry_read(&entry, part))
        return NO_EXAMPLE;
    if (entry.kind == FOUND_NONE)
        return DECODED;
    if (entry.kind != target->kind || (!target->is_list && entry.count != 1)) {
        if (entry.kind != target->kind)
            cell_fault(decoder, target, FAULT_KIND, entry.kind);
        else
            cell_fault(decoder, target, FAULT_COUNT, entry.count);
        return DECODED;
    }
    while (part.at < part.end && !fault) {
        if (entry_field(&part, &field))
            return NO_EXAMPLE;
        if (field.number == 2)
            fault = cell_feature(decoder, target, field.body);
    }
    if (!fault)
        cell_valid(decoder, target);
    return fault;
}

/* Whether `part` is one field with this tag and nothing else; its content then. */
static inline int part_only(Part *part, uint8_t tag) {
    Part body = {part->at + 1, part->end};
    uint64_t size;
    if (part->end - part->at < 2 || *part->at != tag || part_size(&body, &size) ||
        size != (uint64_t)(body.end - body.at))
        return 0;
    *part = body;
    return 1;
}

/* The one list of a Feature, packed and of the kind asked for. 1 where it is something else. */
static inline int cell_list(const Decoder *decoder, Target *target, Part list) {
    uint64_t value;
    if (list.at == list.end && target->is_list)
        return DECODED;
    if (!part_only(&list, 0x0a))
        return 1;
    if (target->kind == FOUND_BYTES)
        return cell_put(decoder, target, &list, 0);
    if (target->kind == FOUND_FLOAT) {
        if (target->is_list && (list.end - list.at) % 4 == 0)
            return list_floats(target, list);
        if (target->is_list || list.end - list.at != 4)
            return 1;
        memcpy(target->values + 4 * decoder->row, list.at, 4);
        return DECODED;
    }
    if (target->is_list)
        return list_ints(target, list);
    if (part_int(&list, &value) || list.at != list.end)
        return 1;
    memcpy(target->values + 8 * decoder->row, &value, 8);
    return DECODED;
}

/* The entry `part` of a key that is `target`'s, with `feature` as its value, if that is known. */
static inline int cell_take(Decoder *decoder, Target *target, Part part, Part *feature) {
    int fault;
    if (target->seen == decoder->row)
        cell_undo(decoder, target);
    target->seen = decoder->row;
    target->text_start = target->text_size;
    if (target->kind == FOUND_NONE) {
        if (target->first < 0)
            target->first = decoder->row;
        return DECODED;
    }
    target->fault = FAULTLESS;
    if (feature && part_only(feature, (uint8_t)(target->kind << 3 | WIRE_BYTES))) {
        fault = cell_list(decoder, target, *feature);
        if (fault == DECODED)
            cell_valid(decoder, target);
        if (fault != 1)
            return fault;
    }
    return cell_entry(decoder, target, part);
}

static int decoder_rehash(Decoder *decoder, uint64_t room) {
    int64_t *hashed = malloc(room * sizeof *hashed);
    if (!hashed)
        return NO_MEMORY;
    for (uint64_t i = 0; i < room; i++)
        hashed[i] = -1;
    for (int64_t t = 0; t < decoder->count; t++) {
        uint64_t at = key_hash(decoder->targets[t].key) & (room - 1);
        while (hashed[at] >= 0)
            at = (at + 1) & (room - 1);
        hashed[at] = t;
    }
    free(decoder->hashed);
    decoder->hashed = hashed;
    decoder->mask = room - 1;
    return DECODED;
}

/* The target of `key`, made where there is none; or a fault. */
static int64_t decoder_find(Decoder *decoder, Part key) {
    uint64_t at = key_hash(key) & decoder->mask;
    for (; decoder->hashed[at] >= 0; at = (at + 1) & decoder->mask)
        if (same_key(decoder->targets[decoder->hashed[at]].key, key))
            return decoder->hashed[at];
    if (decoder->count == decoder->room) {
        int64_t room = 2 * decoder->room;
        Target *targets = realloc(decoder->targets, (size_t)room * sizeof *targets);
        if (!targets)
            return NO_MEMORY;
        decoder->targets = targets;
        decoder->room = room;
    }
    decoder->targets[decoder->count] = (Target){.key = key, .seen = -1, .first = -1};
    decoder->hashed[at] = decoder->count++;
    if ((uint64_t)decoder->count * 2 > decoder->mask &&
        decoder_rehash(decoder, 4 * (decoder->mask + 1)))
        return NO_MEMORY;
    return decoder->count - 1;
}

/* Note that the entry at hand is `target`'s: the next record probably has it in the same place. */
static int decoder_expect(Decoder *decoder, int64_t target) {
    int64_t position = decoder->position - 1;
    if (position >= decoder->order_room) {
        int64_t room = decoder->order_room ? 2 * decoder->order_room : 64;
        int64_t *order = realloc(decoder->order, (size_t)room * sizeof *order);
        if (!order)
            return NO_MEMORY;
        decoder->order = order;
        decoder->order_room = room;
    }
    decoder->order[position] = target;
    if (position >= decoder->order_count)
        decoder->order_count = position + 1;
    return DECODED;
}

/* An entry whose key is not the one expected. */
static int decode_other(Decoder *decoder, Part part) {
    Part rest = part, key = {part.at, part.at};
    Field field;
    while (rest.at < rest.end) {
        if (entry_field(&rest, &field))
            return NO_EXAMPLE;
        if (field.number == 1)
            key = field.body;
    }
    int64_t target = decoder_find(decoder, key);
    if (target < 0 || decoder_expect(decoder, target))
        return NO_MEMORY;
    return cell_take(decoder, &decoder->targets[target], part, NULL);
}

/* Whether two keys of one size are the same. Most have a few bytes: to call a function for each of
 * them takes longer than to compare them. */
static inline int key_matches(const uint8_t *a, const uint8_t *b, int64_t size) {
    uint32_t first[2], last[2];
    if (size > 8)
        return load64(a) == load64(b) && memcmp(a + 8, b + 8, (size_t)size - 8) == 0;
    if (size == 8)
        return load64(a) == load64(b);
    if (size < 4) {
        /* The first, the middle and the last of up to three bytes are all of them. */
        return !size || (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
    }
    memcpy(&first[0], a, 4);
    memcpy(&first[1], b, 4);
    memcpy(&last[0], a + size - 4, 4);
    memcpy(&last[1], b + size - 4, 4);
    return first[0] == first[1] && last[0] == last[1];
}

/* Whether an entry is the key `key`, then one Feature and nothing else. */
static inline int entry_is(Part part, Part key, Part *feature) {
    int64_t size = key.end - key.at;
    if (size >= 0x80 || part.end - part.at < size + 4 || part.at[0] != 0x0a ||
        part.at[1] != size || !key_matches(part.at + 2, key.at, size))
        return 0;
    *feature = (Part){part.at + 2 + size, part.end};
    return part_only(feature, 0x12);
}

static inline int decode_entry(Decoder *decoder, Part part) {
    int64_t position = decoder->position++;
    if (position < decoder->order_count) {
        Target *target = &decoder->targets[decoder->order[position]];
        Part feature;
        if (entry_is(part, target->key, &feature))
            return cell_take(decoder, target, part, &feature);
    }
    return decode_other(decoder, part);
}

static int decode_record(Decoder *decoder, Part part) {
    Field field, entry;
    int fault = DECODED, sequence = 0;
    decoder->position = 0;
    while (part.at < part.end && !fault) {
        if (part_field(&part, &field))
            return NO_EXAMPLE;
        if (field.wire != WIRE_BYTES)
            continue;
        sequence |= field.number == 2;
        while (field.number == 1 && field.body.at < field.body.end && !fault) {
            if (part_field(&field.body, &entry))
                return NO_EXAMPLE;
            if (entry.number == 1 && entry.wire == WIRE_BYTES)
                fault = decode_entry(decoder, entry.body);
        }
    }
    if (!fault && sequence && decoder->sequences++ == 0)
        decoder->first_sequence = decoder->row;
    return fault;
}

/* The record at hand is no Example: none of it counts. */
static void decode_undo(Decoder *decoder) {
    for (int64_t p = 0; p < decoder->position && p < decoder->order_count; p++) {
        Target *target = &decoder->targets[decoder->order[p]];
        if (target->seen == decoder->row)
            cell_undo(decoder, target);
    }
}

/* Where each list ends after the record at hand. */
static inline void decode_ends(Decoder *decoder) {
    int64_t lists = decoder->lists;
    for (Target *target = decoder->targets; lists > 0; target++) {
        if (!target->is_list)
            continue;
        target->offsets[decoder->row + 1] = (int32_t)target->count;
        lists--;
    }
}

/* Records whose places in the columns are made ready in one go, just before they are written: then
 * they are in the cache. */
#define DECODE_ROWS 512

static void decode_clear(Decoder *decoder) {
    int64_t first = decoder->row, left = decoder->rows - first;
    int64_t rows = left < DECODE_ROWS ? left : DECODE_ROWS;
    for (Target *target = decoder->targets; target < decoder->targets + decoder->wanted; target++) {
        memset(target->validity + first / 8, 0, (size_t)(rows / 8 + (rows % 8 > 0)));
        if (target->is_list || target->kind == FOUND_BYTES)
            memset(target->offsets + first + 1, 0, (size_t)rows * sizeof *target->offsets);
        else
            memset(target->values + first * item_width(target), 0,
                   (size_t)(rows * item_width(target)));
    }
}

/* The framed records of the data that end at `ends`, which lie within it. */
static int decode_run(Decoder *decoder, const int64_t *ends) {
    uint64_t room = 256;
    while (room < 4 * (uint64_t)decoder->count)
        room *= 2;
    decoder->first_sequence = -1;
    if (decoder_rehash(decoder, room))
        return NO_MEMORY;
    for (int64_t i = 0; i < decoder->rows; i++) {
        Part part = {decoder->data + (i ? ends[i - 1] : 0) + 12, decoder->data + ends[i] - 4};
        decoder->row = i;
        if (i % DECODE_ROWS == 0)
            decode_clear(decoder);
        int fault = decode_record(decoder, part);
        if (fault == NO_EXAMPLE) {
            decode_undo(decoder);
            fault = offsets_push(&decoder->invalid, i) ? NO_MEMORY : DECODED;
        }
        if (fault)
            return fault;
        decode_ends(decoder);
    }
    return DECODED;
}

/* Sizes of values, `ends[i + 1]` that of value i, to where each ends; their sum. */
static int64_t bytes_ends(int32_t *ends, int64_t count) {
    ends[0] = 0;
    for (int64_t i = 1; i <= count; i++)
        ends[i] += ends[i - 1];
    return ends[count];
}

/* The bytes of a column's values, one after the other, into `out`, which has 16 more
 * behind them. size: of the data that they are in. */
static void bytes_gather(const Decoder *decoder, const Target *target, const int32_t *ends,
                         int64_t size, uint8_t *out) {
    const Bit *bits = (const Bit *)(const void *)target->items;
    int64_t count = target->is_list ? target->count : decoder->rows;
    if (target->text_size)
        memcpy(out, target->text, (size_t)target->text_size);
    for (int64_t i = target->is_list ? 0 : target->copied; i < count; i++) {
        int64_t start = target->is_list ? bits[i].start : target->starts[i];
        bytes_copy(out + ends[i], decoder->data + start, ends[i + 1] - ends[i],
                   start + DECODE_SLACK <= size);
    }
}

static void decoder_free(Decoder *decoder) {
    for (int64_t t = 0; t < decoder->wanted && decoder->targets; t++) {
        free(decoder->targets[t].items);
        free(decoder->targets[t].starts);
        free(decoder->targets[t].text);
    }
    free(decoder->targets);
    free(decoder->hashed);
    free(decoder->order);
    free(decoder->invalid.items);
}

#endif
