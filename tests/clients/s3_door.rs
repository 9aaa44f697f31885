//! The door of S3, by programs that people use with S3: each verifies what it wrote.

use crate::client::Client;
use crate::support::needed;

/// More than one part, in both directions, and a tree.
const AWS: &str = r"
head -c 20000000 /dev/urandom > big
aws s3 cp --quiet big s3://builds/big
aws s3 cp --quiet s3://builds/big back && cmp big back
mkdir -p tree/a && for n in {1..9}; do echo $n > tree/a/$n; done
aws s3 sync --quiet tree s3://builds/tree
aws s3 mv --quiet s3://builds/tree/a/1 s3://builds/tree/one
aws s3 ls --recursive s3://builds/tree/ | wc -l
#> 9
aws s3 rm --quiet --recursive s3://builds
aws s3 rb s3://builds
#> remove_bucket: builds
";

const RCLONE: &str = r#"
export RCLONE_CONFIG_S_TYPE=s3 RCLONE_CONFIG_S_PROVIDER=Other RCLONE_CONFIG_S_ENDPOINT=$AWS_ENDPOINT_URL
export RCLONE_CONFIG_S_ACCESS_KEY_ID=any RCLONE_CONFIG_S_SECRET_ACCESS_KEY=any
rclone() { command rclone "$@" 2> log; }
rclone mkdir s:many
rclone sync tree s:many/tree
rclone check tree s:many/tree --log-file check.log
grep -o '0 differences found' check.log
#> 0 differences found
rclone copyto --s3-chunk-size 5M --s3-upload-cutoff 5M big s:many/big
rclone cat s:many/big | cmp - big
rclone copyto s:many/big s:many/again
rclone cat s:many/again | cmp - big
rclone purge s:many
rclone lsd s: | wc -l
#> 0
"#;

/// The transfer manager, conditions and a presigned URL.
const BOTO3: &str = r#"
cat > with_boto3.py <<'END'
import boto3, io, urllib.request
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
s3 = boto3.client("s3")
s3.create_bucket(Bucket="boto")
put = lambda **more: s3.put_object(Bucket="boto", Key="k \u00e9/1", Body=b"one", Metadata={"who": "ann"}, **more)
etag = put(IfNoneMatch="*")["ETag"]
def code(call):
    try: call(); return "done"
    except ClientError as why: return why.response["Error"]["Code"]
assert code(lambda: put(IfNoneMatch="*")) == "PreconditionFailed"
assert code(lambda: put(IfMatch='"x-1"')) == "PreconditionFailed"
assert code(lambda: put(IfMatch=etag)) == "done"
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
s3.delete_objects(Bucket="boto", Delete={"Objects": [{"Key": key} for key in keys]})
s3.delete_bucket(Bucket="boto")
print("held")
END
python3 with_boto3.py
#> held
"#;

#[test]
fn programs_use_buckets_that_are_folders() {
    let mut client = needed!(Client::of("S3"));
    client.play();
    client.run(AWS);
    client.run(RCLONE);
    client.run(BOTO3);
}
