"""Lance: eight writers append at once, and each row is there once."""

from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa

PLACE, HOW, ROWS = "s3://tables/rows.lance", {"allow_http": "true"}, 24


def append(row):
    while True:
        try:
            return lance.write_dataset(pa.table({"n": [row]}), PLACE, mode="append", storage_options=HOW)
        except OSError as why:
            if "conflict" not in str(why):
                raise


lance.write_dataset(pa.table({"n": [0]}), PLACE, storage_options=HOW)
with ThreadPoolExecutor(8) as writers:
    list(writers.map(append, range(1, ROWS)))
found = lance.dataset(PLACE, storage_options=HOW)
assert found.version == ROWS, found.version
assert sorted(found.to_table()["n"].to_pylist()) == list(range(ROWS))
print("held")
