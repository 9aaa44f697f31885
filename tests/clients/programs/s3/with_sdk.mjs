// The AWS SDK for JavaScript: each checksum, conditions, streams in parts, and pages.
import assert from "node:assert";
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const load = createRequire(process.env.CLIENTS + "/npm/");
const aws = load("@aws-sdk/client-s3");
const { Upload } = load("@aws-sdk/lib-storage");

const s3 = new aws.S3Client({ forcePathStyle: true });
const Bucket = "js";
const Key = "a/\u00e9 +%20";
const put = (more) =>
  s3.send(new aws.PutObjectCommand({ Bucket, Key, Body: "one", Metadata: { who: "ann" }, ...more }));
const nameOf = (sent) => sent.then(() => "done", (why) => why.name);

await s3.send(new aws.CreateBucketCommand({ Bucket }));
const { ETag } = await put({ IfNoneMatch: "*" });
assert.equal(await nameOf(put({ IfNoneMatch: "*" })), "PreconditionFailed");
assert.equal(await nameOf(put({ IfMatch: '"x-1"' })), "PreconditionFailed");
assert.equal(await nameOf(put({ IfMatch: ETag })), "done");
for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "SHA1", "SHA256"]) await put({ ChecksumAlgorithm });
assert.equal((await s3.send(new aws.HeadObjectCommand({ Bucket, Key }))).Metadata.who, "ann");

const big = randomBytes(20 << 20);
const stream = () => Readable.from(Array.from({ length: 20 }, (_, at) => big.subarray(at << 20, (at + 1) << 20)));
const read = async (Key) => {
  const got = await s3.send(new aws.GetObjectCommand({ Bucket, Key, ChecksumMode: "ENABLED" }));
  return Buffer.from(await got.Body.transformToByteArray());
};
await new Upload({ client: s3, params: { Bucket, Key: "big", Body: stream() } }).done();
await s3.send(new aws.PutObjectCommand({ Bucket, Key: "streamed", Body: stream(), ContentLength: big.length }));
await s3.send(new aws.CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/big` }));
for (const key of ["big", "streamed", "copy"]) assert(big.equals(await read(key)), key);

const keys = [];
for await (const page of aws.paginateListObjectsV2({ client: s3, pageSize: 2 }, { Bucket }))
  keys.push(...page.Contents.map((it) => it.Key));
assert.deepEqual(keys, [Key, "big", "copy", "streamed"]);
await s3.send(new aws.DeleteObjectsCommand({ Bucket, Delete: { Objects: keys.map((Key) => ({ Key })) } }));
await s3.send(new aws.DeleteBucketCommand({ Bucket }));
console.log("held");
