#include "base/list.h"

#include "harness.h"

struct item {
    int number;
    struct list link;
};

static int number_of(struct list *node) {
    return container_of(node, struct item, link)->number;
}

TEST(list_keeps_order_and_unlinks_nodes) {
    struct list head;
    struct item items[4] = {{1, {0}}, {2, {0}}, {3, {0}}, {4, {0}}};
    list_init(&head);
    CHECK(list_is_empty(&head));
    CHECK(list_pop_front(&head) == NULL);
    for (int i = 0; i < 4; i++)
        list_push_back(&head, &items[i].link);
    list_remove(&items[1].link);
    list_remove(&items[1].link); /* harmless when repeated */
    CHECK_INT(number_of(list_pop_front(&head)), 1);
    CHECK_INT(number_of(list_pop_front(&head)), 3);
    CHECK_INT(number_of(list_pop_front(&head)), 4);
    CHECK(list_is_empty(&head));
}

TEST(list_allows_removal_of_the_current_item) {
    struct list head;
    struct item items[3] = {{1, {0}}, {2, {0}}, {3, {0}}};
    int sum = 0;
    list_init(&head);
    for (int i = 0; i < 3; i++)
        list_push_back(&head, &items[i].link);
    LIST_FOR_EACH(node, &head) {
        sum += number_of(node);
        list_remove(node);
    }
    CHECK_INT(sum, 6);
    CHECK(list_is_empty(&head));
}
