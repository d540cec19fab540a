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

/* What the records so far say of one key; the caller sees it as so many int64. Records are given
 * by number, -1 for none. */
typedef struct {
    int64_t present, absent, repeated;
    int64_t kind_records[FOUND_KINDS], kind_first[FOUND_KINDS];
    int64_t fewest, most, values, low, high, bytes, payload;
} Facts;

typedef struct {
    Part key;
    int64_t last; /* the ordinal among Examples of the last one counted */
    int64_t seen, entry; /* the ordinal of the last Example that has it, and where */
    Facts facts;
} Slot;

typedef struct {
    Entry *entries;
    int64_t count, room;
    int sequence; /* whether the message has the second field of a SequenceExample */
} Record;

typedef struct {
    Record record;
    Slot *slots;
    int64_t count, room;
    int64_t *hashed; /* slots by the hash of their key, -1 where free; `mask` + 1 of them */
    uint64_t mask;
    int64_t *order; /* the slots of the record before, in its order */
    int64_t order_count, order_room;
    int64_t *ordinals; /* the record of each Example */
    int64_t examples;
    Offsets invalid;
    int64_t sequences, first_sequence;
} Survey;

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
        return part_varint(part, &size) ? -1 : part_take(part, size, &field->body);
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

static inline void ints_add(Ints *ints, uint64_t bits) {
    ints->low = (int64_t)bits < ints->low ? (int64_t)bits : ints->low;
    ints->high = (int64_t)bits > ints->high ? (int64_t)bits : ints->high;
    ints->count++;
}

/* One integer of a part with at least eight bytes. The length of a varint is hard to foresee: no
 * branch depends on it, up to eight bytes. */
static inline int ints_step(Ints *ints, Part *part) {
    uint64_t bits, word = load64(part->at), last = ~word & 0x8080808080808080;
    if (last) {
        int size = (__builtin_ctzll(last) >> 3) + 1;
        bits = varint_join(word & (~(uint64_t)0 >> (64 - 8 * size)));
        part->at += size;
    } else if (part_varint(part, &bits)) {
        return -1;
    }
    ints_add(ints, bits);
    return 0;
}

/* Where a varint begins that is in `packed` at `at` or later. */
static inline const uint8_t *ints_start(Part packed, const uint8_t *at) {
    while (at > packed.at && at < packed.end && at[-1] >= 0x80)
        at++;
    return at;
}

/* Each varint says where the next begins, which takes longer than to read it: so four walks go side
 * by side. */
#define LANES 4
static int ints_lanes(Ints *ints, Part *lanes) {
    for (;;) {
        int64_t left = INT64_MAX;
        for (int i = 0; i < LANES; i++)
            left = lanes[i].end - lanes[i].at < left ? lanes[i].end - lanes[i].at : left;
        if (left < 10)
            return 0;
        /* No varint that is sound takes more than ten bytes. */
        for (int64_t round = left / 10; round > 0; round--)
            for (int i = 0; i < LANES; i++)
                if (ints_step(ints, &lanes[i]))
                    return -1;
    }
}

static int entry_ints(Entry *entry, Part packed) {
    Ints ints = {entry->low, entry->high, 0};
    uint64_t bits;
    Part lanes[LANES];
    int64_t size = packed.end - packed.at;
    int count = size >= 16 * LANES ? LANES : 1;
    for (int i = 0; i < count; i++)
        lanes[i].at = ints_start(packed, packed.at + size * i / count);
    for (int i = 0; i < count; i++)
        lanes[i].end = i + 1 < count ? lanes[i + 1].at : packed.end;
    if (count == LANES && ints_lanes(&ints, lanes))
        return -1;
    for (int i = 0; i < count; i++) {
        while (lanes[i].end - lanes[i].at >= 8)
            if (ints_step(&ints, &lanes[i]))
                return -1;
        while (lanes[i].at < lanes[i].end) {
            if (part_varint(&lanes[i], &bits))
                return -1;
            ints_add(&ints, bits);
        }
    }
    entry->low = ints.low;
    entry->high = ints.high;
    entry->count += ints.count;
    return 0;
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

static inline int entry_read(Entry *entry, Part part) {
    Field field;
    entry->whole = part;
    entry->key = (Part){part.at, part.at};
    entry->dead = 0;
    entry_clear(entry, FOUND_NONE);
    while (part.at < part.end) {
        if (part_field(&part, &field))
            return -1;
        if (field.wire != WIRE_BYTES)
            continue;
        if (field.number == 1)
            entry->key = field.body;
        else if (field.number == 2 && entry_feature(entry, field.body))
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

static int survey_rehash(Survey *survey, uint64_t room) {
    int64_t *hashed = malloc(room * sizeof *hashed);
    if (!hashed)
        return -1;
    for (uint64_t i = 0; i < room; i++)
        hashed[i] = -1;
    for (int64_t s = 0; s < survey->count; s++) {
        uint64_t at = key_hash(survey->slots[s].key) & (room - 1);
        while (hashed[at] >= 0)
            at = (at + 1) & (room - 1);
        hashed[at] = s;
    }
    free(survey->hashed);
    survey->hashed = hashed;
    survey->mask = room - 1;
    return 0;
}

/* A slot for a key that has none; its number, or -1 without memory. */
static int64_t survey_add(Survey *survey, Part key, uint64_t at) {
    if (survey->count == survey->room) {
        int64_t room = survey->room ? 2 * survey->room : 64;
        Slot *slots = realloc(survey->slots, (size_t)room * sizeof *slots);
        if (!slots)
            return -1;
        survey->slots = slots;
        survey->room = room;
    }
    Slot *slot = &survey->slots[survey->count];
    *slot = (Slot){.key = key, .last = -1, .seen = -1};
    slot->facts = (Facts){.absent = -1, .repeated = -1, .fewest = -1, .most = -1,
                          .low = INT64_MAX, .high = INT64_MIN};
    for (int kind = 0; kind < FOUND_KINDS; kind++)
        slot->facts.kind_first[kind] = -1;
    survey->hashed[at] = survey->count++;
    if ((uint64_t)survey->count * 2 > survey->mask && survey_rehash(survey, 4 * (survey->mask + 1)))
        return -1;
    return survey->count - 1;
}

/* The slot of `key`, which `guess` probably is. */
static inline int64_t survey_slot(Survey *survey, Part key, int64_t guess) {
    if (guess >= 0 && same_key(survey->slots[guess].key, key))
        return guess;
    uint64_t at = key_hash(key) & survey->mask;
    for (; survey->hashed[at] >= 0; at = (at + 1) & survey->mask)
        if (same_key(survey->slots[survey->hashed[at]].key, key))
            return survey->hashed[at];
    return survey_add(survey, key, at);
}

static inline void slot_count(Slot *slot, const Entry *entry, int64_t number, int64_t ordinal,
                              const int64_t *ordinals) {
    Facts *facts = &slot->facts;
    if (slot->last < ordinal - 1 && facts->absent < 0)
        facts->absent = ordinals[slot->last + 1];
    slot->last = ordinal;
    facts->present++;
    int64_t size = entry->whole.end - entry->whole.at;
    facts->bytes += 1 + varint_size((uint64_t)size) + size;
    facts->payload += entry->payload;
    if (facts->kind_records[entry->kind]++ == 0)
        facts->kind_first[entry->kind] = number;
    if (entry->kind == FOUND_NONE)
        return;
    if (facts->fewest < 0 || entry->count < facts->fewest)
        facts->fewest = entry->count;
    if (entry->count > facts->most)
        facts->most = entry->count;
    facts->values += entry->count;
    facts->low = entry->low < facts->low ? entry->low : facts->low;
    facts->high = entry->high > facts->high ? entry->high : facts->high;
}

static int survey_order(Survey *survey) {
    const Record *record = &survey->record;
    if (record->count > survey->order_room) {
        int64_t *order = realloc(survey->order, (size_t)record->room * sizeof *order);
        if (!order)
            return -1;
        survey->order = order;
        survey->order_room = record->room;
    }
    for (int64_t i = 0; i < record->count; i++)
        survey->order[i] = record->entries[i].slot;
    survey->order_count = record->count;
    return 0;
}

/* Count the entries of an Example, which is record `number`. Of two with one key the later counts,
 * as for TensorFlow. */
static int survey_count(Survey *survey, int64_t number) {
    Record *record = &survey->record;
    int64_t ordinal = survey->examples;
    survey->ordinals[survey->examples++] = number;
    for (int64_t i = 0; i < record->count; i++) {
        Entry *entry = &record->entries[i];
        int64_t guess = i < survey->order_count ? survey->order[i] : -1;
        entry->slot = survey_slot(survey, entry->key, guess);
        if (entry->slot < 0)
            return -1;
        Slot *slot = &survey->slots[entry->slot];
        if (slot->seen == ordinal) {
            record->entries[slot->entry].dead = 1;
            if (slot->facts.repeated < 0)
                slot->facts.repeated = number;
        }
        slot->seen = ordinal;
        slot->entry = i;
    }
    for (int64_t i = 0; i < record->count; i++) {
        const Entry *entry = &record->entries[i];
        if (!entry->dead)
            slot_count(&survey->slots[entry->slot], entry, number, ordinal, survey->ordinals);
    }
    return survey_order(survey);
}

/* The `count` framed records of `data` that end at `ends`, which lie within it. 0, or -1 without
 * memory. */
static int survey_run(Survey *survey, const uint8_t *data, const int64_t *ends, int64_t count) {
    survey->first_sequence = -1;
    survey->ordinals = malloc((size_t)(count + 1) * sizeof *survey->ordinals);
    if (!survey->ordinals || survey_rehash(survey, 256))
        return -1;
    for (int64_t i = 0; i < count; i++) {
        Part part = {data + (i ? ends[i - 1] : 0) + 12, data + ends[i] - 4};
        int fault = record_read(&survey->record, part);
        if (fault == -2 || (fault && offsets_push(&survey->invalid, i)) ||
            (!fault && survey_count(survey, i)))
            return -1;
        if (!fault && survey->record.sequence && survey->sequences++ == 0)
            survey->first_sequence = i;
    }
    for (int64_t s = 0; s < survey->count; s++) {
        Slot *slot = &survey->slots[s];
        if (slot->facts.absent < 0 && slot->last < survey->examples - 1)
            slot->facts.absent = survey->ordinals[slot->last + 1];
    }
    return 0;
}

static void survey_free(Survey *survey) {
    free(survey->record.entries);
    free(survey->slots);
    free(survey->hashed);
    free(survey->order);
    free(survey->ordinals);
    free(survey->invalid.items);
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
