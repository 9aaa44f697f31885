"""http.client of Python, beside restarts: stores and reads until the file of the second argument is there. A refused connection is no error."""

import http.client
import os
import sys
import threading
import time
import urllib.parse

PLACE = urllib.parse.urlsplit(sys.argv[1]).netloc
COUNTS = {"answered": 0, "refused": 0}
FAILED = []


def ask(connection, method, key, value):
    """One request, as often as there is no server. http.client repeats nothing by itself."""
    while True:
        try:
            connection.request(method, key, value if method == "PUT" else None)
        except ConnectionRefusedError:
            COUNTS["refused"] += 1
            connection.close()
            time.sleep(0.005)
            continue
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, (method, response.status, body)
        assert method == "PUT" or body == value, (body, value)
        COUNTS["answered"] += 1
        return


def client(number):
    connection, key = http.client.HTTPConnection(PLACE), f"/python-{number}"
    at = 0
    try:
        while not os.path.exists(sys.argv[2]):
            at += 1
            value = f"value {at}".encode()
            ask(connection, "PUT", key, value)
            ask(connection, "GET", key, value)
    except Exception as error:
        FAILED.append(f"after {at} rounds: {error!r}")


threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if FAILED:
    sys.exit("\n".join(FAILED))
print(f"{COUNTS['answered']} answered, {COUNTS['refused']} refused")
