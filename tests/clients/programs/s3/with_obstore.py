"""obstore, the library that many programs of Rust and Python share: parts, conditions, and a counter of many writers."""

import asyncio
import os

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

WRITERS, EACH = 12, 10
store = S3Store("tables", client_options={"allow_http": True})
big = os.urandom(30 << 20)
obstore.put(store, "obs/big", big)
assert obstore.get(store, "obs/big").bytes() == big
obstore.copy(store, "obs/big", "obs/copy")
obstore.rename(store, "obs/copy", "obs/moved")
assert obstore.get_range(store, "obs/moved", start=5, length=7) == big[5:12]
obstore.put(store, "obs/count", b"0", mode="create")
try:
    obstore.put(store, "obs/count", b"0", mode="create")
    raise SystemExit("made twice")
except AlreadyExistsError:
    pass


async def count():
    for _ in range(EACH):
        while True:
            got = await obstore.get_async(store, "obs/count")
            more = b"%d" % (int(bytes(await got.bytes_async())) + 1)
            try:
                await obstore.put_async(store, "obs/count", more, mode={"e_tag": got.meta["e_tag"]})
                break
            except PreconditionError:
                pass


async def count_all():
    await asyncio.gather(*(count() for _ in range(WRITERS)))


asyncio.run(count_all())
assert obstore.get(store, "obs/count").bytes() == b"%d" % (WRITERS * EACH)
names = ["obs/big", "obs/count", "obs/moved"]
assert sorted(it["path"] for page in obstore.list(store, "obs") for it in page) == names
obstore.delete(store, names)
print("held")
