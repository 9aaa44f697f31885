"""boto3: the transfer manager, conditions, a presigned URL, and a counter that many count up."""

import io
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

WRITERS, EACH = 12, 10
s3 = boto3.client("s3")
s3.create_bucket(Bucket="boto")


def put(**more):
    return s3.put_object(Bucket="boto", Key="k \u00e9/1", Body=b"one", Metadata={"who": "ann"}, **more)


def code(**condition):
    try:
        put(**condition)
        return "done"
    except ClientError as why:
        return why.response["Error"]["Code"]


etag = put(IfNoneMatch="*")["ETag"]
assert code(IfNoneMatch="*") == "PreconditionFailed"
assert code(IfMatch='"x-1"') == "PreconditionFailed"
assert code(IfMatch=etag) == "done"
got = s3.get_object(Bucket="boto", Key="k \u00e9/1")
assert got["Body"].read() == b"one" and got["Metadata"] == {"who": "ann"}

big, small = open("big", "rb").read(), TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
s3.upload_fileobj(io.BytesIO(big), "boto", "big", Config=small)
s3.copy({"Bucket": "boto", "Key": "big"}, "boto", "copy", Config=small)
back = io.BytesIO()
s3.download_fileobj("boto", "copy", back)
assert back.getvalue() == big
pages = s3.get_paginator("list_objects_v2").paginate(Bucket="boto", PaginationConfig={"PageSize": 1})
keys = [it["Key"] for page in pages for it in page["Contents"]]
assert keys == ["big", "copy", "k \u00e9/1"], keys
url = s3.generate_presigned_url("get_object", Params={"Bucket": "boto", "Key": "copy"})
assert urllib.request.urlopen(url).read() == big


def count(_):
    for _ in range(EACH):
        while True:
            got = s3.get_object(Bucket="boto", Key="count")
            more = b"%d" % (int(got["Body"].read()) + 1)
            try:
                s3.put_object(Bucket="boto", Key="count", Body=more, IfMatch=got["ETag"])
                break
            except ClientError as why:
                assert why.response["Error"]["Code"] == "PreconditionFailed", why


s3.put_object(Bucket="boto", Key="count", Body=b"0")
with ThreadPoolExecutor(WRITERS) as writers:
    list(writers.map(count, range(WRITERS)))
assert s3.get_object(Bucket="boto", Key="count")["Body"].read() == b"%d" % (WRITERS * EACH)

s3.delete_objects(Bucket="boto", Delete={"Objects": [{"Key": key} for key in [*keys, "count"]]})
s3.delete_bucket(Bucket="boto")
print("held")
