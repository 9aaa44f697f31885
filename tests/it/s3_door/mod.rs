//! The door of S3: its operations by tables of requests, and what is refused.

mod cut;
mod hosts;
mod memory;
mod parts;
mod refused;
mod signed;
mod versity;

use crate::support::prelude::*;
use crate::support::s3::Bucket;

/// A server with this door alone.
fn start(args: &[&str]) -> TestServer {
    Launch::new(args).listen("s3+http://127.0.0.1:0").start()
}

#[test]
fn buckets_are_the_folders_of_the_root() {
    directory_only!("folders");
    start(&[]).talk(
        "
        GET / ; 200 ; ; <ListAllMyBucketsResult | <Buckets></Buckets> ; content-type: application/xml | x-amz-request-id
        HEAD /b ; 404
        PUT /b ; 200 ; ; ; location: /b
        PUT /b/ ; 409 ; ; <Code>BucketAlreadyOwnedByYou</Code>
        PUT /t <CreateBucketConfiguration><Tags><Tag/></Tags></CreateBucketConfiguration> ; 501 ; ; <Code>NotImplemented</Code> | Tags of buckets
        PUT /t <x> ; 400 ; ; <Code>MalformedXML</Code>
        HEAD /t ; 404
        PUT /r <CreateBucketConfiguration xmlns=\"a\"><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration> ; 200
        DELETE /r ; 204
        HEAD /b ; 200 ; x-amz-api-version: 2006-03-01
        HEAD /b ; 501 ; x-amz-api-version: 2026-01-01
        GET /b?location ; 200 ; ; <LocationConstraint
        GET / ; 200 ; ; <Name>b</Name><CreationDate>2
        PUT /b/k one ; 200 ; ; ; etag
        DELETE /b ; 409 ; ; <Code>BucketNotEmpty</Code>
        DELETE /b/k ; 204
        HEAD /b ; 200
        DELETE /b ; 204
        DELETE /b ; 404 ; ; <Code>NoSuchBucket</Code>
        place f/1 one
        PUT /f ; 409 ; ; BucketAlreadyOwnedByYou
        DELETE /f/1 ; 204
        HEAD /f ; 200
        place v one
        PUT /v ; 409 ; ; <Code>KeyConflict</Code>
        HEAD /v ; 404
        GET /v?list-type=2 ; 404 ; ; NoSuchBucket
        PUT /.data-server ; 400 ; ; <Code>InvalidBucketName</Code>
        mkdir f2
        mkdir g
        GET /?max-buckets=1 ; 200 ; ; </Bucket></Buckets><ContinuationToken>f</ContinuationToken>
        GET /?max-buckets=1&continuation-token=f ; 200 ; ; <Buckets><Bucket><Name>f2</Name>
        GET /?continuation-token=f2 ; 200 ; ; <Buckets><Bucket><Name>g</Name> | </Bucket></Buckets></ListAllMyBucketsResult>
        GET /?prefix=f ; 200 ; ; <Name>f2</Name> | </Buckets><Prefix>f</Prefix>
        GET /?prefix=f2 ; 200 ; ; <Buckets><Bucket><Name>f2</Name>
        GET /?max-buckets=0 ; 400 ; ; <Code>InvalidArgument</Code>
        POST / ; 405 ; Content-Length: 0 ; <Code>MethodNotAllowed</Code>
        PATCH /b ; 405 ; Content-Length: 0 ; <Code>MethodNotAllowed</Code>
        GET /-/ready ; 200
        ",
    );
}

#[test]
fn objects_are_values() {
    directory_only!("folders");
    start(&[]).talk(
        "
        PUT /b/k one ; 404 ; ; <Code>NoSuchBucket</Code> | <RequestId>
        mkdir b
        PUT /b/a/k one ; 200 ; Content-Type: text/css | X-Amz-Meta-Who: ann é | Expires: never | Content-Encoding: aws-chunked ; ; etag | content-encoding: -
        GET /b/a/k ; 200 ; ; =one ; content-type: text/css | x-amz-meta-who: ann é | expires: never | x-amz-request-id
        HEAD /b/a/k ; 200 ; ; = ; content-length: 3 | x-amz-meta-who: ann é
        PUT /b/lines one ; 200 ; x-amz-meta-a: 1 | x-amz-meta-a: 2
        GET /b/lines ; 200 ; ; =one ; x-amz-meta-a: 1,2
        GET /b/lines?acl ; 200 ; ; <AccessControlList/>
        GET /b?acl ; 200 ; ; <AccessControlList/>
        GET /b/none?acl ; 404
        DELETE /b/lines ; 204
        GET /b/a/k ; 206 ; Range: bytes=1-1 ; =n ; content-range: bytes 1-1/3
        GET /b/a/k ; 416 ; Range: bytes=7-9 ; <Code>InvalidRange</Code>
        GET /b/a/k ; 304 ; If-None-Match: @b/a/k ; = ; x-amz-meta-who: -
        GET /b/a/k ; 412 ; If-Match: x-1 ; <Code>PreconditionFailed</Code>
        GET /b/a/k?response-content-type=text/html ; 400 ; ; InvalidRequest
        GET /b/a/k?partNumber=1 ; 200
        GET /b/a/k?partNumber=2 ; 416
        GET /b/a/k?partNumber=0 ; 400 ; ; InvalidArgument
        GET /b/a/k?partNumber=-3 ; 400 ; ; InvalidArgument
        GET /b/a/k?versionId=null ; 200
        GET /b/a/k?versionId=x ; 404 ; ; <Code>NoSuchVersion</Code>
        GET /b/none ; 404 ; ; <Code>NoSuchKey</Code>
        GET /none/k ; 404 ; ; <Code>NoSuchBucket</Code>
        HEAD /b/none ; 404
        GET /b/a ; 404 ; ; <Code>NoSuchKey</Code>
        PUT /b/a/k two ; 412 ; If-None-Match: * ; <Code>PreconditionFailed</Code>
        PUT /b/a/k two ; 412 ; If-Match: x-1
        PUT /b/none two ; 404 ; If-Match: x-1 ; <Code>NoSuchKey</Code>
        PUT /b/a/k two ; 200 ; If-Match: @b/a/k
        GET /b/a/k ; 200 ; ; =two ; x-amz-meta-who: -
        PUT /b/a/k?partNumber=1 x ; 400 ; ; <Code>InvalidArgument</Code>
        PUT /b/new one ; 200 ; If-None-Match: *
        PUT /b/a/k x ; 400 ; Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg== ; <Code>BadDigest</Code>
        PUT /b/a/k x ; 400 ; Content-MD5: x ; <Code>InvalidDigest</Code>
        PUT /b/a/k x ; 400 ; x-amz-meta-a: {x2050} ; <Code>MetadataTooLarge</Code>
        PUT /b/a/k x ; 501 ; x-amz-acl: public-read ; <Code>NotImplemented</Code>
        PUT /b/a/k x ; 501 ; x-amz-tagging: a=b
        PUT /b/a/k x ; 501 ; x-amz-server-side-encryption: AES256
        PUT /b/a/k x ; 200 ; x-amz-acl: private | x-amz-storage-class: STANDARD
        PUT /b/a x ; 409 ; ; <Code>KeyConflict</Code>
        PUT /b/new/k x ; 409 ; ; <Code>KeyConflict</Code>
        PUT /b/a//k x ; 400 ; ; <Code>InvalidArgument</Code> | empty segment
        PUT /b/a/../k x ; 400 ; ; <Code>InvalidArgument</Code>
        PUT /b/{x300} x ; 400 ; ; <Code>KeyTooLongError</Code>
        DELETE /b/a/k ; 412 ; If-Match: x-1
        DELETE /b/a ; 204
        DELETE /b/a/k ; 204
        DELETE /b/a/k ; 204
        DELETE /b/a/k ; 204 ; x-amz-bypass-governance-retention: true
        DELETE /none/k ; 404 ; ; <Code>NoSuchBucket</Code>
        DELETE /b/a/k ; 404 ; If-Match: x-1
        DELETE /b/new ; 204 ; If-Match: @b/new
        holds b
        ",
    );
}

/// Clients send one with nearly each object, and compare what they get with it.
#[test]
fn checksums_that_were_verified_are_told() {
    directory_only!("kept attributes");
    let server = start(&[]);
    server.talk(
        "
        mkdir b
        PUT /b/k x ; 400 ; x-amz-checksum-crc32: emyG8Q== ; <Code>BadDigest</Code>
        PUT /b/k one ; 200 ; x-amz-checksum-crc32: emyG8Q== ; ; x-amz-checksum-crc32: emyG8Q== | x-amz-checksum-type: FULL_OBJECT
        GET /b/k ; 200 ; ; =one ; x-amz-checksum-crc32: -
        GET,HEAD /b/k ; 200 ; x-amz-checksum-mode: ENABLED ; ; x-amz-checksum-crc32: emyG8Q== | x-amz-checksum-type: FULL_OBJECT
        GET /b/k ; 206 ; x-amz-checksum-mode: ENABLED | Range: bytes=1-1 ; =n ; x-amz-checksum-crc32: -
        HEAD /b/k ; 200 ; x-amz-checksum-mode: ENABLED | Range: bytes=1-1 ; ; x-amz-checksum-crc32: -
        GET /b/k?attributes ; 200 ; x-amz-object-attributes: Checksum ; <Checksum><ChecksumCRC32>emyG8Q==</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></Checksum>
        PUT /b/copy ; 200 ; x-amz-copy-source: /b/k
        HEAD /b/copy ; 200 ; x-amz-checksum-mode: ENABLED ; ; x-amz-checksum-crc32: emyG8Q==
        PUT /b/copy one ; 200
        HEAD /b/copy ; 200 ; x-amz-checksum-mode: ENABLED ; ; x-amz-checksum-crc32: -
        GET /b/copy?attributes ; 200 ; x-amz-object-attributes: Checksum,ObjectSize ; <GetObjectAttributesResponse xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ObjectSize>
        PUT /b/large one ; 200 ; x-amz-meta-a: {x2000} | x-amz-checksum-crc32: emyG8Q==
        HEAD /b/large ; 200 ; x-amz-checksum-mode: ENABLED ; ; x-amz-meta-a | x-amz-checksum-crc32: -
        ",
    );
    // The file has other bytes by now.
    fs::write(server.dir.file("b/k"), "two").expect("other bytes");
    server.talk("GET /b/k ; 200 ; x-amz-checksum-mode: ENABLED ; =two ; x-amz-checksum-crc32: -");
}

/// A key that ends with `/` is a folder, as consoles and mounts make them.
#[test]
fn folders_are_objects_without_bytes() {
    directory_only!("folders");
    start(&[]).talk(
        "
        mkdir b
        PUT /b/d/ ; 200 ; ; ; etag
        PUT /b/d/ ; 200
        PUT /b/e/ x ; 400 ; ; InvalidRequest
        PUT /none/d/ ; 404
        HEAD /b/d/ ; 200 ; ; ; content-length: 0 | last-modified
        GET /b?list-type=2 ; 200 ; ; <Key>d/</Key><LastModified>2
        GET /b?list-type=2 ; 200 ; x-amz-optional-object-attributes: RestoreStatus ; <KeyCount>1</KeyCount>
        GET /b?delimiter=x ; 200 ; ; <Key>d/</Key><LastModified>2
        GET /b?list-type=2&delimiter=/ ; 200 ; ; <CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes> | <KeyCount>1</KeyCount>
        GET /b?list-type=2&delimiter=/&prefix=d/ ; 200 ; ; <Key>d/</Key> | <KeyCount>1</KeyCount>
        PUT /b/d/k one ; 200
        GET /b?delimiter=/&prefix=d/ ; 200 ; ; <Key>d/</Key> | <Key>d/k</Key>
        GET /b?delimiter=/&prefix=d/&max-keys=1 ; 200 ; ; <IsTruncated>true</IsTruncated> | <NextMarker>d/</NextMarker> | <Key>d/</Key>
        GET /b?list-type=2&delimiter=/&prefix=d/&start-after=d/ ; 200 ; ; <KeyCount>1</KeyCount> | <Key>d/k</Key>
        PUT /b/i/k one ; 200
        HEAD /b/i/ ; 404
        PUT /b/n/o/p/ ; 501 ; If-Match: x-1 ; NotImplemented
        PUT /b/n/o/p/ ; 200 ; If-None-Match: *
        PUT /b/n/o/p/ ; 412 ; If-None-Match: * ; <Code>PreconditionFailed</Code>
        PUT /b/i/ ; 200 ; If-None-Match: *
        PUT /b/i/ ; 412 ; If-None-Match: *
        DELETE /b/i/ ; 501 ; If-Match: * ; NotImplemented
        HEAD /b/i/ ; 200
        DELETE /b/i/ ; 204
        HEAD /b/n/o/p/ ; 200
        HEAD /b/n/o/ ; 404
        PUT /b/c/p/ ; 200 ; x-amz-copy-source: b/n/o/p/ ; <CopyObjectResult | <LastModified>2
        PUT /b/c/p/ ; 200 ; x-amz-copy-source: b/c/p/ | x-amz-metadata-directive: REPLACE ; <CopyObjectResult
        PUT /b/c/q/ ; 404 ; x-amz-copy-source: b/n/o/ ; NoSuchKey
        PUT /b/c/q/ ; 404 ; x-amz-copy-source: none/o/ ; NoSuchBucket
        PUT /b/c/q/ ; 400 ; x-amz-copy-source: b/d/k ; InvalidArgument
        PUT /b/c/q ; 400 ; x-amz-copy-source: b/d/ ; InvalidArgument
        PUT /b/d/k/x/y/ ; 409 ; ; KeyConflict
        DELETE /b/c/p/ ; 204
        DELETE /b/n/o/p/ ; 204
        DELETE /b/d/ ; 204
        DELETE /b/none/ ; 204
        HEAD /b/d/ ; 404
        DELETE /b/d/k ; 204
        DELETE /b/i/k ; 204
        holds b
        DELETE /b ; 204
        ",
    );
}

#[test]
fn listings_have_the_order_of_bytes() {
    directory_only!("folders");
    let server = start(&[]);
    for key in ["a", "a/1", "a-1", "a.1", "b/1", "b/2", "é", "a0/x", "z"] {
        let key = if key == "a" { "aa" } else { key };
        server.dir.place(&format!("b/{key}"), "12345");
    }
    let keys = |query: &str, element: &str| {
        let text = server.get(&format!("b?{query}")).text();
        let element = format!("<{element}>");
        let keys = text.split(&element).skip(1);
        let keys = keys.map(|rest| rest.split('<').next().unwrap_or_default().to_owned());
        keys.collect::<Vec<_>>().join(" ")
    };
    let all = "a-1 a.1 a/ a/1 a0/ a0/x aa b/ b/1 b/2 z é";
    assert_eq!(keys("list-type=2", "Key"), all);
    assert_eq!(keys("", "Key"), all);
    assert_eq!(keys("list-type=2&prefix=a/", "Key"), "a/ a/1");
    assert_eq!(keys("list-type=2&start-after=b/1", "Key"), "b/2 z é");
    assert_eq!(keys("marker=b/1", "Key"), "b/2 z é");
    assert_eq!(keys("list-type=2&delimiter=/", "Key"), "a-1 a.1 aa z é");
    assert_eq!(keys("list-type=2&delimiter=/", "Prefix"), " a/ a0/ b/");
    assert_eq!(keys("delimiter=/&prefix=b/", "Key"), "b/ b/1 b/2");
    assert_eq!(keys("delimiter=a", "Key"), "b/ b/1 b/2 z é");
    assert_eq!(keys("delimiter=a", "Prefix"), " a");
    assert_eq!(keys("delimiter=1&prefix=b", "Prefix"), "b b/1");
    assert_eq!(keys("prefix=%C3%A9&encoding-type=url", "Key"), "%C3%A9");
    assert_eq!(keys("prefix=b/&encoding-type=url", "Key"), "b/ b/1 b/2");
    assert_eq!(keys("delimiter=a&max-keys=1", "NextMarker"), "a");
    assert_eq!(keys("prefix=//", "Key"), "");
    for (query, by) in [
        (
            "list-type=2&",
            ("continuation-token", "NextContinuationToken"),
        ),
        ("", ("marker", "NextMarker")),
        ("delimiter=a&", ("marker", "NextMarker")),
    ] {
        for size in 1..4 {
            let (mut found, mut next) = (Vec::new(), String::new());
            loop {
                let page = format!("{query}max-keys={size}{next}");
                let of_page = [keys(&page, "Key"), keys(&page, "CommonPrefixes><Prefix")];
                found.extend(of_page.iter().flat_map(|it| words(it)).map(str::to_owned));
                match &*keys(&page, by.1) {
                    "" => break,
                    mark => next = format!("&{}={mark}", by.0),
                }
            }
            let one = [keys(query, "Key"), keys(query, "CommonPrefixes><Prefix")].join(" ");
            let mut one = words(&one);
            one.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, one, "{query} {size}");
        }
    }
    server.talk(
        "
        GET /b?list-type=2&max-keys=0 ; 200 ; ; <IsTruncated>false
        GET /b?list-type=2&max-keys=x ; 400 ; ; <Code>InvalidArgument
        GET /b?list-type=2&continuation-token=!! ; 400
        GET /none?list-type=2 ; 404 ; ; NoSuchBucket
        ",
    );
}

#[test]
fn many_objects_are_removed_by_one_request() {
    directory_only!("folders");
    start(&[]).talk(
        "
        place b/1 one
        place b/a&b two
        place b/3 three
        POST /b?delete <Delete><Object><Key>1</Key></Object><Object><Key>a&amp;b</Key></Object><Object><Key>none</Key></Object><Object><Key>x//y</Key></Object></Delete> ; 200 ; ; <Deleted><Key>1</Key></Deleted> | <Deleted><Key>a&amp;b</Key></Deleted> | <Deleted><Key>none</Key></Deleted> | <Error><Key>x//y</Key><Code>InvalidArgument</Code>
        POST /b?delete <Delete><Quiet>true</Quiet><Object><Key>3</Key><ETag>x-1</ETag></Object></Delete> ; 200 ; ; PreconditionFailed
        holds b/3
        POST /b?delete <Delete><Quiet>true</Quiet><Object><Key>3</Key></Object></Delete> ; 200 ; ; <DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"></DeleteResult>
        place b/4 four
        POST /b?delete <Delete><Object><Key>4</Key><Size>3</Size></Object></Delete> ; 400 ; ; <Code>MalformedXML</Code>
        holds b/4
        POST /b?delete <Delete> ; 400 ; ; <Code>MalformedXML</Code>
        POST /b?delete <!DOCTYPE a><Delete><Object><Key>3</Key></Object></Delete> ; 400
        POST /b?delete <Delete></Delete> ; 400
        ",
    );
}

#[test]
fn what_is_not_here_says_so() {
    directory_only!("folders");
    let mut rows = String::from("mkdir b\nPUT /b/k one ; 200\n");
    for (parameter, code) in [
        ("cors", "NoSuchCORSConfiguration"),
        (
            "encryption",
            "ServerSideEncryptionConfigurationNotFoundError",
        ),
        ("lifecycle", "NoSuchLifecycleConfiguration"),
        ("policy", "NoSuchBucketPolicy"),
        ("tagging", "NoSuchTagSet"),
        ("website", "NoSuchWebsiteConfiguration"),
    ] {
        rows.extend([format!(
            "GET /b?{parameter} ; 404 ; ; <Code>{code}</Code>\n"
        )]);
        rows.extend([format!(
            "PUT /b?{parameter} <x/> ; 501 ; ; <Code>NotImplemented</Code>\n"
        )]);
    }
    for row in words("versions policyStatus inventory") {
        rows.extend([format!(
            "GET /b?{row} ; 501 ; ; <Code>NotImplemented</Code>\n"
        )]);
    }
    for row in words("retention legal-hold torrent") {
        rows.extend([format!(
            "GET,PUT,DELETE /b/k?{row} ; 501 ; ; <Code>NotImplemented</Code>\n"
        )]);
    }
    rows += "GET /b?versioning ; 200 ; ; <VersioningConfiguration/>
        GET /none?versioning ; 404 ; ; NoSuchBucket
        GET /b/k?tagging ; 200 ; ; <TagSet/>
        GET /b/none?tagging ; 404 ; ; <Code>NoSuchKey</Code>
        PUT /b/k?tagging <x/> ; 501
        PUT,DELETE /b/k?acl ; 501 ; ; <Code>NotImplemented</Code>
        POST /b/k?select ; 501 ; Content-Length: 0
        GET /b/k ; 200 ; ; =one";
    start(&[]).talk(&rows);
}

#[test]
fn a_read_only_server_answers_reads_alone() {
    directory_only!("folders");
    start(&["--read-only"]).talk(
        "
        place b/k one
        GET /b/k ; 200 ; ; =one
        GET /b ; 200 ; ; <Key>k</Key>
        PUT /b/k x ; 403 ; ; <Code>AccessDenied</Code>
        PUT /c ; 403
        DELETE /b/k ; 403
        POST /b?delete <Delete/> ; 403
        ",
    );
}

#[test]
fn objects_are_copied_with_their_fields_or_others() {
    directory_only!("folders");
    start(&[]).talk(
        "
        mkdir b
        mkdir c
        PUT /b/k one ; 200 ; Content-Type: text/css | x-amz-meta-a: 1
        PUT /c/copy ; 200 ; x-amz-copy-source: /b/k ; <CopyObjectResult | <ETag>
        GET /c/copy ; 200 ; ; =one ; content-type: text/css | x-amz-meta-a: 1
        PUT /c/copy ; 200 ; x-amz-copy-source: b%2Fk | x-amz-metadata-directive: REPLACE | x-amz-meta-b: 2
        GET /c/copy ; 200 ; ; =one ; x-amz-meta-a: - | x-amz-meta-b: 2
        PUT /b/k ; 400 ; x-amz-copy-source: /b/k ; <Code>InvalidRequest</Code>
        PUT /b/k ; 200 ; x-amz-copy-source: /b/k | x-amz-metadata-directive: REPLACE | x-amz-meta-c: 3
        GET /b/k ; 200 ; ; =one ; x-amz-meta-a: - | x-amz-meta-c: 3
        PUT /c/new ; 412 ; x-amz-copy-source: /b/k | x-amz-copy-source-if-match: x-1
        PUT /c/new ; 200 ; x-amz-copy-source: /b/k | x-amz-copy-source-if-match: @b/k
        PUT /c/new ; 412 ; x-amz-copy-source: /b/k | If-None-Match: *
        PUT /c/new ; 404 ; x-amz-copy-source: /b/none ; <Code>NoSuchKey</Code>
        PUT /c/new ; 404 ; x-amz-copy-source: /none/k ; <Code>NoSuchBucket</Code>
        PUT /none/new ; 404 ; x-amz-copy-source: /b/k ; <Code>NoSuchBucket</Code>
        PUT /c/new ; 400 ; x-amz-copy-source: /b/k?versionId=x
        GET /b/k?attributes ; 200 ; x-amz-object-attributes: ETag,ObjectSize ; <ObjectSize>3</ObjectSize>
        GET /b/k?attributes ; 400 ; x-amz-object-attributes: ETag,Other ; <Code>InvalidArgument</Code>
        ",
    );
}

/// The text of the first element of this name.
fn element(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("<{name}>")).expect("an element");
    rest.split('<').next().unwrap_or_default().to_owned()
}

/// The list of parts that completes an upload.
fn list(parts: &[(u16, &str)]) -> String {
    let part = |(number, etag): &(u16, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

/// Each request needs its bucket, and asks no other thread for it.
#[test]
fn a_put_asks_for_its_bucket_where_it_is_received() {
    directory_only!("folders");
    let server = start(&[]);
    server.talk("mkdir b\nPUT /b/k one ; 200");
    only_where!(
        can_trace(),
        "system calls of a PUT",
        "strace does not run here"
    );
    let lists: Vec<u32> = (0..4)
        .flat_map(|n| server.proc().thread_ids(&format!("disk-list-{n}")))
        .collect();
    assert!(!lists.is_empty(), "threads of listings");
    let attached = Attached::to(&server, &[]);
    server.talk(&"PUT /b/k one ; 200\n".repeat(10));
    let calls = attached.detach();
    let of_bucket = calls.iter().filter(|call| call.args.contains("\"b\""));
    assert!(of_bucket.count() >= 10, "{calls:#?}");
    let others = calls.iter().filter(|call| lists.contains(&call.thread));
    let others: Vec<_> = others
        .filter(|call| !call.result.contains("ERESTART"))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn uploads_are_listed_page_by_page_and_by_a_delimiter() {
    directory_only!("uploads in parts");
    let server = start(&[]);
    server.talk("mkdir b");
    for key in ["a/1", "a/2", "b", "c/1", "d"] {
        let target = format!("/b/{key}?uploads");
        server.request("POST", &target, "Content-Length: 0\r\n", b"");
    }
    server.talk(
        "
        GET /b?uploads&delimiter=/ ; 200 ; ; <Delimiter>/</Delimiter> | <Key>b</Key> | <Key>d</Key> | </Upload><CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes></ListMultipartUploadsResult>
        GET /b?uploads&delimiter=/&prefix=a/ ; 200 ; ; <Key>a/1</Key> | <Key>a/2</Key>
        GET /b?uploads&delimiter=/&max-uploads=1 ; 200 ; ; <IsTruncated>true</IsTruncated><NextKeyMarker>a/</NextKeyMarker>
        GET /b?uploads&delimiter=/&max-uploads=1&key-marker=a/ ; 200 ; ; <IsTruncated>true</IsTruncated><NextKeyMarker>b</NextKeyMarker>
        GET /b?uploads&delimiter=/&max-uploads=2&key-marker=b ; 200 ; ; <IsTruncated>false</IsTruncated> | <Key>d</Key> | <CommonPrefixes><Prefix>c/
        GET /b?uploads&max-uploads=4 ; 200 ; ; <NextKeyMarker>c/1</NextKeyMarker>
        GET /b?uploads&max-uploads=0 ; 200 ; ; <IsTruncated>false</IsTruncated>
        GET /b?uploads&encoding-type=url&prefix=a/ ; 200 ; ; <EncodingType>url</EncodingType> | <Key>a/1</Key>
        DELETE /b ; 204
        GET /b?uploads ; 404 ; ; <Code>NoSuchBucket</Code>
        PUT /b ; 200
        GET /b?uploads ; 200 ; ; <IsTruncated>false</IsTruncated></ListMultipartUploadsResult>
        ",
    );
}

/// The long check of a store that another server would keep its values in.
#[test]
fn another_server_can_keep_its_values_in_it() {
    directory_only!("buckets");
    let server = start(&[]);
    let bucket = Bucket::of_door(server.addr, "store").beneath("p");
    let options = bucket.options();
    let options = options.iter().map(|word| word.to_str().expect("text"));
    let words: Vec<_> = ["check-store"].into_iter().chain(options).collect();
    let mut check = Launch::new(&words).bare().env("DATA_SERVER_TRIAL", "20");
    for (name, value) in bucket.variables() {
        check = check.env(name, value);
    }
    let ended = check.ends_within(Duration::from_secs(240)).run();
    assert!(
        ended.code == Some(0) && !ended.stdout.contains("NO:"),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
}
