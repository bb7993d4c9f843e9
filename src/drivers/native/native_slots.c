/* native_slots — ranges of uids. Each sandbox has its own range, which stays the same at each
 * start. */
#include <errno.h>
#include <sys/random.h>

#include "drivers/native/native_impl.h"

#define SLOTS 65000

static void native_random_bytes(void *bytes, size_t n) {
    for (size_t got = 0; got < n;) {
        ssize_t more = getrandom((uint8_t *)bytes + got, n - got, 0);
        got += more > 0 ? (size_t)more : 0;
    }
}

int native_slots_init(struct native *n) {
    native_random_bytes(&n->next_slot, sizeof n->next_slot);
    n->next_slot %= SLOTS;
    n->slots = calloc(1, SLOTS / 8 + 1);
    return n->slots ? 0 : -ENOMEM;
}

/* Takes slots in round-robin order, so that a freed range of uids is not reused soon. Otherwise a
 * new sandbox could own files that a deleted sandbox left behind. A new daemon starts at a random
 * slot for the same reason: berm-spawn may still sweep the instances that the last daemon had
 * parked. */
static int64_t native_slot_take(struct driver *d) {
    struct native *n = native_of(d);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint32_t slot = n->next_slot;
        n->next_slot = (slot + 1) % SLOTS;
        if (n->slots[slot / 8] & (1u << (slot % 8)))
            continue;
        n->slots[slot / 8] |= (uint8_t)(1u << (slot % 8));
        return (int64_t)slot;
    }
    return -1;
}

static bool native_slot_keep(struct driver *d, uint64_t slot) {
    if (slot >= SLOTS)
        return false;
    native_of(d)->slots[slot / 8] |= (uint8_t)(1u << (slot % 8));
    return true;
}

static void native_slot_give_back(struct driver *d, uint64_t slot) {
    native_of(d)->slots[slot / 8] &= (uint8_t) ~(1u << (slot % 8));
}

const struct driver_slot_ops native_slot_ops = {native_slot_take, native_slot_keep,
                                                native_slot_give_back};
