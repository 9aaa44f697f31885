"""SlateDB: of those that open a database at once, one can write, and the others are fenced off."""

import asyncio
import os

os.environ["AWS_ALLOW_HTTP"] = "true"
from slatedb.uniffi import DbBuilder, Error, ObjectStore


async def wrote(db, value):
    try:
        await db.put(b"who", value)
        await db.flush()
        return True
    except Error:
        return False


async def opened(store):
    try:
        return await DbBuilder("slate", store).build()
    except Error:
        return None


async def main():
    store = ObjectStore.resolve("s3://tables")
    first = await opened(store)
    await asyncio.gather(*(first.put(b"k%d" % n, b"v%d" % n) for n in range(500)))
    all_of_them = await asyncio.gather(*(opened(store) for _ in range(4)))
    held = [db for db in all_of_them if db and await wrote(db, b"new")]
    assert len(held) == 1, all_of_them
    assert not await wrote(first, b"old")
    assert await held[0].get(b"k499") == b"v499"
    assert await held[0].get(b"who") == b"new"
    await held[0].shutdown()


asyncio.run(main())
print("held")
