"""Clients of S3 and Azure: single objects work, and what means something else leaves the value and says why."""

import base64
import sys
import zlib

import boto3
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient
from botocore.config import Config
from botocore.exceptions import ClientError

STORE = sys.argv[1]


S3 = boto3.client(
    "s3",
    endpoint_url=STORE,
    region_name="us-east-1",
    aws_access_key_id="any",
    aws_secret_access_key="any",
    config=Config(retries={"total_max_attempts": 1}),
)
KEY = {"Bucket": "bkt", "Key": "dst"}


def value():
    return S3.get_object(**KEY)["Body"].read()


def refused(what, call, says, error=ClientError):
    """Asserts that `call` fails with words of `says`, and leaves the value."""
    S3.put_object(**KEY, Body=b"precious")
    try:
        call()
    except error as why:
        assert says in str(why), f"{what}: {why}"
    else:
        raise AssertionError(f"{what} was taken for something else")
    assert value() == b"precious", what


def s3_objects():
    # With the checksums that boto3 sends by itself, and those that it is asked for.
    S3.put_object(**KEY, Body=b"hello")
    assert value() == b"hello"
    for algorithm in ["CRC32", "SHA1", "SHA256"]:
        S3.put_object(**KEY, Body=b"hello " * 20_000, ChecksumAlgorithm=algorithm)
        assert value() == b"hello " * 20_000
    assert S3.head_object(**KEY)["ContentLength"] == 120_000
    assert S3.get_object(**KEY, Range="bytes=6-10")["Body"].read() == b"hello"
    refused("If-None-Match", lambda: S3.put_object(**KEY, Body=b"x", IfNoneMatch="*"), "412")
    wrong = base64.b64encode(zlib.crc32(b"other").to_bytes(4, "big")).decode()
    refused("a wrong CRC-32", lambda: S3.put_object(**KEY, Body=b"x", ChecksumCRC32=wrong), "400")
    S3.delete_object(**KEY)
    refused("a key that is gone", lambda: S3.get_object(Bucket="bkt", Key="gone"), "404")


def s3_operations():
    source = {"CopySource": "bkt/src"}
    part = {"UploadId": "u", "PartNumber": 1}
    tags = {"Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}}
    for what, call in {
        "copy_object": lambda: S3.copy_object(**KEY, **source),
        "put_object_acl": lambda: S3.put_object_acl(**KEY, ACL="private"),
        "put_object_tagging": lambda: S3.put_object_tagging(**KEY, **tags),
        "delete_object_tagging": lambda: S3.delete_object_tagging(**KEY),
        "get_object_tagging": lambda: S3.get_object_tagging(**KEY),
        "create_multipart_upload": lambda: S3.create_multipart_upload(**KEY),
        "upload_part": lambda: S3.upload_part(**KEY, **part, Body=b"part"),
        "upload_part_copy": lambda: S3.upload_part_copy(**KEY, **part, **source),
        "abort_multipart_upload": lambda: S3.abort_multipart_upload(**KEY, UploadId="u"),
        "delete_object, a version": lambda: S3.delete_object(**KEY, VersionId="v"),
        "put_object_legal_hold": lambda: S3.put_object_legal_hold(**KEY, LegalHold={"Status": "ON"}),
        "put_object_retention": lambda: S3.put_object_retention(**KEY, Retention={"Mode": "GOVERNANCE"}),
        "delete_objects": lambda: S3.delete_objects(Bucket="bkt", Delete={"Objects": [{"Key": "dst"}]}),
        "list_objects_v2": lambda: S3.list_objects_v2(Bucket="bkt"),
        "list_buckets": S3.list_buckets,
        "create_bucket": lambda: S3.create_bucket(Bucket="other"),
        "delete_bucket": lambda: S3.delete_bucket(Bucket="bkt"),
    }.items():
        refused(what, call, "this server is no S3")
    # What would be dropped of a plain PUT or DELETE.
    for fields in [
        {"Metadata": {"a": "b"}},
        {"Tagging": "a=b"},
        {"ACL": "private"},
        {"StorageClass": "GLACIER"},
        {"ServerSideEncryption": "AES256"},
        {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": "2030-01-01"},
        {"WebsiteRedirectLocation": "/other"},
        {"ExpectedBucketOwner": "123456789012"},
    ]:
        refused(str(fields), lambda: S3.put_object(**KEY, **fields, Body=b"x"), "does not know")
    for fields in [
        {"IfMatchSize": 99999},
        {"IfMatchLastModifiedTime": "2001-01-01"},
        {"MFA": "serial 123456"},
    ]:
        refused(str(fields), lambda: S3.delete_object(**KEY, **fields), "does not know")


def azure():
    account_key = base64.b64encode(b"any").decode()
    blob = BlobClient(
        account_url=f"{STORE}/",
        container_name="bkt",
        blob_name="dst",
        credential={"account_name": "account", "account_key": account_key},
        retry_total=0,
    )
    for what, call in {
        "start_copy_from_url": lambda: blob.start_copy_from_url(f"{STORE}/bkt/src"),
        "stage_block": lambda: blob.stage_block("AA==", b"block"),
        "commit_block_list": lambda: blob.commit_block_list([]),
        "create_append_blob": blob.create_append_blob,
        "create_page_blob": lambda: blob.create_page_blob(512),
        "set_blob_metadata": lambda: blob.set_blob_metadata({"a": "b"}),
        "set_blob_tags": lambda: blob.set_blob_tags({"a": "b"}),
        "create_snapshot": blob.create_snapshot,
        "set_http_headers": blob.set_http_headers,
        "upload_blob with metadata": lambda: blob.upload_blob(b"x", overwrite=True, metadata={"a": "b"}),
        "delete_blob with a condition on tags": lambda: blob.delete_blob(if_tags_match_condition="\"a\" = 'b'"),
        "download_blob, which asks for a range": lambda: blob.download_blob(),
    }.items():
        refused(f"{what} of Azure", call, "this server is no S3 or Azure store", AzureError)


s3_objects()
s3_operations()
azure()
print("held")
