/* A list of places in a buffer that grows. */
#ifndef TFREC_OFFSETS_H
#define TFREC_OFFSETS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    int64_t *items;
    size_t count, room;
} Offsets;

static int offsets_push(Offsets *offsets, int64_t value) {
    if (offsets->count == offsets->room) {
        size_t room = offsets->room ? 2 * offsets->room : 1024;
        int64_t *items = realloc(offsets->items, room * sizeof *items);
        if (!items)
            return -1;
        offsets->items = items;
        offsets->room = room;
    }
    offsets->items[offsets->count++] = value;
    return 0;
}

#endif
