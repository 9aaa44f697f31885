"""requests: every way to store and read a value, whole and cut off. Says what did not hold."""

import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import requests

at = sys.argv[1]
value = os.urandom(8 << 20)
pieces = [value[n : n + 65536] for n in range(0, len(value), 65536)]
digest = hashlib.sha256(value).hexdigest()

with requests.Session() as session:

    def sha(key):
        total = hashlib.sha256()
        with session.get(f"{at}/{key}", stream=True) as answer:
            answer.raise_for_status()
            for piece in answer.iter_content(65536):
                total.update(piece)
        return total.hexdigest()

    # Whole: a file, and pieces of unknown total length.
    with open("value", "wb+") as file:
        file.write(value)
        file.seek(0)
        session.put(f"{at}/file", data=file).raise_for_status()
    session.put(f"{at}/pieces", data=iter(pieces)).raise_for_status()
    assert sha("file") == digest and sha("pieces") == digest
    part = session.get(f"{at}/file", headers={"Range": "bytes=100-199"})
    assert part.status_code == 206 and part.content == value[100:200]

    # Conditional.
    stored = session.put(f"{at}/register", data=b"one")
    tag = stored.headers["ETag"]
    status = lambda answer: answer.status_code
    assert status(session.get(f"{at}/register", headers={"If-None-Match": tag})) == 304
    assert status(session.put(f"{at}/register", data=b"two", headers={"If-None-Match": "*"})) == 412
    assert status(session.put(f"{at}/register", data=b"two", headers={"If-Match": tag})) == 200
    assert status(session.put(f"{at}/register", data=b"three", headers={"If-Match": tag})) == 412
    assert session.get(f"{at}/register").text == "two"

    # Cut off: an upload leaves the old value, a download leaves a server that answers.
    session.put(f"{at}/cut", data=b"old").raise_for_status()

    def breaking():
        yield from pieces[:20]
        raise InterruptedError

    try:
        session.put(f"{at}/cut", data=breaking())
        raise AssertionError("an upload that breaks off is answered")
    except requests.ConnectionError:
        pass
    assert session.get(f"{at}/cut").text == "old"
    with session.get(f"{at}/file", stream=True) as answer:
        assert next(answer.iter_content(1000)) == value[:1000]
    assert session.get(f"{at}/cut").text == "old"

    # Many at once, and gone.
    def turn(n):
        key = f"{at}/many/{n % 5}/{n}"
        requests.put(key, data=str(n)).raise_for_status()
        assert requests.get(key).text == str(n)
        assert requests.delete(key).status_code == 200
        assert requests.get(key).status_code == 404

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(40)))
print("held")
