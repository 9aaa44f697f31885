"""httpx: every way to store and read a value, whole and cut off. Says what did not hold."""

import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx

at = sys.argv[1]
value = os.urandom(8 << 20)
pieces = [value[n : n + 65536] for n in range(0, len(value), 65536)]
digest = hashlib.sha256(value).hexdigest()

with httpx.Client(base_url=at) as client:

    def sha(key):
        total = hashlib.sha256()
        with client.stream("GET", key) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                total.update(piece)
        return total.hexdigest()

    # Whole: bytes, a file, and pieces of unknown total length.
    client.put("bytes", content=value).raise_for_status()
    with open("value", "wb+") as file:
        file.write(value)
        file.seek(0)
        client.put("file", content=file).raise_for_status()
    client.put("pieces", content=iter(pieces)).raise_for_status()
    assert sha("bytes") == digest and sha("file") == digest and sha("pieces") == digest
    part = client.get("file", headers={"Range": "bytes=100-199"})
    assert part.status_code == 206 and part.content == value[100:200]

    # Conditional.
    tag = client.put("register", content=b"one").headers["ETag"]
    status = lambda answer: answer.status_code
    assert status(client.get("register", headers={"If-None-Match": tag})) == 304
    assert status(client.put("register", content=b"two", headers={"If-None-Match": "*"})) == 412
    assert status(client.put("register", content=b"two", headers={"If-Match": tag})) == 200
    assert status(client.put("register", content=b"three", headers={"If-Match": tag})) == 412
    assert client.get("register").text == "two"

    # Cut off: an upload leaves the old value, a download leaves a server that answers.
    client.put("cut", content=b"old").raise_for_status()

    def breaking():
        yield from pieces[:20]
        raise InterruptedError

    try:
        client.put("cut", content=breaking())
        raise AssertionError("an upload that breaks off is answered")
    except InterruptedError:
        pass
    assert client.get("cut").text == "old"
    with client.stream("GET", "file") as answer:
        assert next(answer.iter_bytes(1000)) == value[:1000]
    assert client.get("cut").text == "old"

    # Many at once, and gone.
    def turn(n):
        key = f"many/{n % 5}/{n}"
        client.put(key, content=str(n)).raise_for_status()
        assert client.get(key).text == str(n)
        assert client.delete(key).status_code == 200
        assert client.get(key).status_code == 404

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(40)))
print("held")
