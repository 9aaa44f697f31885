"""Icechunk: eight writers of one array commit at once; each has to rebase on the others, and no write is lost."""

import os
from concurrent.futures import ThreadPoolExecutor

import icechunk
import zarr

CHUNKS = 24


def store():
    return icechunk.s3_storage(
        bucket="tables",
        prefix="ice",
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        region="us-east-1",
        from_env=True,
        allow_http=True,
        force_path_style=True,
    )


def write(chunk):
    session = icechunk.Repository.open(store()).writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[chunk] = chunk
    session.commit(f"{chunk}", rebase_with=icechunk.ConflictDetector(), rebase_tries=100)


session = icechunk.Repository.create(store()).writable_session("main")
zarr.create_array(session.store, name="a", shape=(CHUNKS,), chunks=(1,), dtype="i8")[:] = 0
session.commit("zeros")
with ThreadPoolExecutor(8) as writers:
    list(writers.map(write, range(CHUNKS)))
found = icechunk.Repository.open(store())
array = zarr.open_array(found.readonly_session("main").store, path="a", mode="r")
assert array[:].tolist() == list(range(CHUNKS))
# The first of a new repository, and that of the zeros.
assert len(list(found.ancestry(branch="main"))) == CHUNKS + 2
print("held")
