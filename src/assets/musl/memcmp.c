/* memcmp(3) by words. It has the name of musl's function, and is linked before it. */

#include <stddef.h>
#include <stdint.h>

int memcmp(const void *left, const void *right, size_t len)
{
    const unsigned char *a = left, *b = right;
    for (; len >= sizeof(uint64_t); len -= sizeof(uint64_t)) {
        uint64_t x, y;
        __builtin_memcpy(&x, a, sizeof x);
        __builtin_memcpy(&y, b, sizeof y);
        /* The bytes below tell which is the greater one. */
        if (x != y)
            break;
        a += sizeof x;
        b += sizeof y;
    }
    for (; len > 0; len--, a++, b++)
        if (*a != *b)
            return *a < *b ? -1 : 1;
    return 0;
}
