"""aiohttp: every way to store and read a value, whole and cut off. Says what did not hold."""

import asyncio
import hashlib
import os
import sys

import aiohttp

at = sys.argv[1]
value = os.urandom(8 << 20)
pieces = [value[n : n + 65536] for n in range(0, len(value), 65536)]
digest = hashlib.sha256(value).hexdigest()


async def whole():
    for piece in pieces:
        yield piece


async def breaking():
    for piece in pieces[:20]:
        yield piece
    raise InterruptedError


async def checks(session):
    async def put(key, data, **headers):
        async with session.put(f"{at}/{key}", data=data, headers=headers) as answer:
            return answer.status, answer.headers.get("ETag")

    async def get(key, **headers):
        async with session.get(f"{at}/{key}", headers=headers) as answer:
            return answer.status, await answer.read()

    async def sha(key):
        total = hashlib.sha256()
        async with session.get(f"{at}/{key}") as answer:
            async for piece in answer.content.iter_chunked(65536):
                total.update(piece)
        return total.hexdigest()

    # Whole: a file, and pieces of unknown total length.
    with open("value", "wb") as file:
        file.write(value)
    with open("value", "rb") as file:
        assert (await put("file", file))[0] == 200
    assert (await put("pieces", whole()))[0] == 200
    assert await sha("file") == digest and await sha("pieces") == digest
    assert await get("file", Range="bytes=100-199") == (206, value[100:200])

    # Conditional.
    _, tag = await put("register", b"one")
    assert (await get("register", **{"If-None-Match": tag}))[0] == 304
    assert (await put("register", b"two", **{"If-None-Match": "*"}))[0] == 412
    assert (await put("register", b"two", **{"If-Match": tag}))[0] == 200
    assert (await put("register", b"three", **{"If-Match": tag}))[0] == 412
    assert await get("register") == (200, b"two")

    # Cut off: an upload leaves the old value, a download leaves a server that answers.
    assert (await put("cut", b"old"))[0] == 200
    try:
        await put("cut", breaking())
        raise AssertionError("an upload that breaks off is answered")
    except (InterruptedError, aiohttp.ClientError):
        pass
    assert await get("cut") == (200, b"old")
    async with session.get(f"{at}/file") as answer:
        assert await answer.content.readexactly(1000) == value[:1000]
        answer.close()
    assert await get("cut") == (200, b"old")

    # Many at once, and gone.
    async def turn(n):
        key = f"many/{n % 5}/{n}"
        assert (await put(key, str(n).encode()))[0] == 200
        assert await get(key) == (200, str(n).encode())
        async with session.delete(f"{at}/{key}") as answer:
            assert answer.status == 200
        assert (await get(key))[0] == 404

    await asyncio.gather(*map(turn, range(40)))


async def main():
    async with aiohttp.ClientSession() as session:
        await checks(session)


asyncio.run(main())
print("held")
