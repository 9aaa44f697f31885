"""requests, or httpx where LIBRARY says so: every way to store and read a value, whole and cut off. Says what did not hold."""

import hashlib
import importlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor

library = importlib.import_module(os.environ.get("LIBRARY", "requests"))
is_httpx = library.__name__ == "httpx"
at = sys.argv[1]
value = os.urandom(8 << 20)
pieces = [value[n : n + 65536] for n in range(0, len(value), 65536)]
digest = hashlib.sha256(value).hexdigest()



def put(client, key, value, **headers):
    body = {"content" if is_httpx else "data": value}
    return client.put(f"{at}/{key}", headers=headers, **body)


def pieces_of(answer, size):
    return answer.iter_bytes(size) if is_httpx else answer.iter_content(size)


with library.Client() if is_httpx else library.Session() as session:

    def stream(key):
        address = f"{at}/{key}"
        return session.stream("GET", address) if is_httpx else session.get(address, stream=True)

    def get(key, **headers):
        return session.get(f"{at}/{key}", headers=headers)

    def sha(key):
        total = hashlib.sha256()
        with stream(key) as answer:
            answer.raise_for_status()
            for piece in pieces_of(answer, 65536):
                total.update(piece)
        return total.hexdigest()

    # Whole: bytes, a file, and pieces of unknown total length.
    put(session, "bytes", value).raise_for_status()
    with open("value", "wb+") as file:
        file.write(value)
        file.seek(0)
        put(session, "file", file).raise_for_status()
    put(session, "pieces", iter(pieces)).raise_for_status()
    assert sha("bytes") == digest and sha("file") == digest and sha("pieces") == digest
    part = get("file", Range="bytes=100-199")
    assert part.status_code == 206 and part.content == value[100:200]

    # Conditional.
    tag = put(session, "register", b"one").headers["ETag"]
    assert get("register", **{"If-None-Match": tag}).status_code == 304
    assert put(session, "register", b"two", **{"If-None-Match": "*"}).status_code == 412
    assert put(session, "register", b"two", **{"If-Match": tag}).status_code == 200
    assert put(session, "register", b"three", **{"If-Match": tag}).status_code == 412
    assert get("register").text == "two"

    # Cut off: an upload leaves the old value, a download leaves a server that answers.
    put(session, "cut", b"old").raise_for_status()

    def breaking():
        yield from pieces[:20]
        raise InterruptedError

    try:
        put(session, "cut", breaking())
        raise AssertionError("an upload that breaks off is answered")
    except InterruptedError if is_httpx else library.ConnectionError:
        pass
    assert get("cut").text == "old"
    with stream("file") as answer:
        assert next(pieces_of(answer, 1000)) == value[:1000]
    assert get("cut").text == "old"

    # Many at once, and gone.
    def turn(n):
        client = session if is_httpx else library
        key = f"many/{n % 5}/{n}"
        put(client, key, str(n)).raise_for_status()
        assert client.get(f"{at}/{key}").text == str(n)
        assert client.delete(f"{at}/{key}").status_code == 200
        assert client.get(f"{at}/{key}").status_code == 404

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(40)))
print("held")
