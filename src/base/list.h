/* list — intrusive doubly linked list. The node is a field of the object.
 *
 * An unlinked node points to itself, so list_remove may be called twice. A watcher can therefore
 * always unlink itself, whichever side ends first. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

struct list {
    struct list *prev;
    struct list *next;
};

static inline void list_init(struct list *l) {
    l->prev = l->next = l;
}
static inline bool list_is_empty(const struct list *l) {
    return l->next == l;
}

static inline void list_push_back(struct list *head, struct list *node) {
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_remove(struct list *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Unlinks and returns the first node, or NULL. */
static inline struct list *list_pop_front(struct list *head) {
    if (list_is_empty(head))
        return NULL;
    struct list *node = head->next;
    list_remove(node);
    return node;
}

/* The loop body may remove the current node, `it`, but no other node. */
#define LIST_FOR_EACH(it, head)                                               \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head); \
         it = it##_next, it##_next = it->next)
