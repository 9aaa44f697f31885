"""Delta Lake: eight writers append at once, and each row is there once; of eight overwrites of one version one wins."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

TABLE, HOW, ROWS = "s3://tables/delta", {"allow_http": "true", "aws_conditional_put": "etag"}, 24


def append(row):
    while True:
        try:
            return write_deltalake(TABLE, pa.table({"n": [row]}), mode="append", storage_options=HOW)
        except CommitFailedError:
            pass


def overwrite(row):
    table = DeltaTable(TABLE, version=ROWS - 1, storage_options=HOW)
    try:
        write_deltalake(table, pa.table({"n": [row]}), mode="overwrite")
        return True
    except CommitFailedError:
        return False


append(0)
with ThreadPoolExecutor(8) as writers:
    list(writers.map(append, range(1, ROWS)))
table = DeltaTable(TABLE, storage_options=HOW)
assert table.version() == ROWS - 1, table.version()
assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(ROWS))
with ThreadPoolExecutor(8) as writers:
    assert sum(writers.map(overwrite, range(8))) == 1
print("held")
