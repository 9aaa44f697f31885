"""MinIO's library for Python: streams of unknown length, copies that are composed, and presigned URLs."""

import io
import os
import urllib.request

from minio import Minio
from minio.commonconfig import ComposeSource, CopySource
from minio.deleteobjects import DeleteObject

place = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
store = Minio(place, access_key="any", secret_key="any", secure=False)
here = {"bucket_name": "minio"}


def read(name):
    return store.get_object(**here, object_name=name).read()


store.make_bucket(**here)
assert store.bucket_exists(**here)
big = os.urandom(12 << 20)
store.put_object(**here, object_name="big", data=io.BytesIO(big), length=-1, part_size=5 << 20)
assert read("big") == big
store.put_object(**here, object_name="a/\u00e9 b", data=io.BytesIO(b"one"), length=3, metadata={"who": "ann"})
assert store.stat_object(**here, object_name="a/\u00e9 b").metadata["x-amz-meta-who"] == "ann"
store.copy_object(**here, object_name="copy", source=CopySource(**here, object_name="big"))
parts = [ComposeSource(**here, object_name=name) for name in ("big", "a/\u00e9 b")]
store.compose_object(**here, object_name="both", sources=parts)
assert read("both") == big + b"one"
url = store.presigned_put_object(**here, object_name="sent")
urllib.request.urlopen(urllib.request.Request(url, b"sent", method="PUT"))
assert urllib.request.urlopen(store.presigned_get_object(**here, object_name="sent")).read() == b"sent"
names = [it.object_name for it in store.list_objects(**here, recursive=True)]
assert names == ["a/\u00e9 b", "big", "both", "copy", "sent"], names
assert not list(store.remove_objects(**here, delete_object_list=[DeleteObject(name) for name in names]))
store.remove_bucket(**here)
print("held")
