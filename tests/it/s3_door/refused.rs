//! One matrix: an operation that is refused, for each reason, leaves the directory as it was, with all that is staged
//! and the parts of uploads.

use super::element;
use crate::refusals::snapshot::Snapshot;
use crate::support::policy::{bearer, rule, subject, write_policy};
use crate::support::prelude::*;

/// Operations that change something: their name, what they are, by which reasons choose, the request, and a line of it.
/// `ID` stands for an upload with a part, and `TAG` for the tag of that.
const OPERATIONS: &str = "
PutObject ; Store Sends Key ; PUT /b/new small ;
PutObject of a large one ; Store Sends Key ; PUT /b/new large ;
PutObject over another ; Store Sends Old ; PUT /b/old small ;
PutObject of a folder ; Folder Sends ; PUT /b/new/ ;
CopyObject ; Store Copy Key ; PUT /b/new ; x-amz-copy-source: /b/old
CopyObject over another ; Store Copy Old ; PUT /b/old ; x-amz-copy-source: /b/large
CreateBucket ; Bucket ; PUT /new ;
DeleteBucket ; Bucket ; DELETE /empty ;
DeleteObject ; Remove Old ; DELETE /b/old ;
DeleteObject of a folder ; Remove ; DELETE /b/dir/ ;
DeleteObjects ; Document Sends ; POST /b?delete <Delete><Object><Key>old</Key></Object></Delete> ;
CreateMultipartUpload ; Begin Key ; POST /b/new?uploads ;
UploadPart ; Part Sends ; PUT /b/up?partNumber=1&uploadId=ID small ;
UploadPart of a large one ; Part Sends ; PUT /b/up?partNumber=2&uploadId=ID large ;
UploadPartCopy ; Part Copy ; PUT /b/up?partNumber=2&uploadId=ID ; x-amz-copy-source: /b/old
CompleteMultipartUpload ; Document Sends Complete ; POST /b/up?uploadId=ID <CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>TAG</ETag></Part></CompleteMultipartUpload> ;
AbortMultipartUpload ; Part ; DELETE /b/up?uploadId=ID ;";

/// Reasons: the operations that are all of this; a line that replaces one of the request, what stands in its target in
/// place of what, or a fault; and the statuses.
const REASONS: &str = "
 ; nobody ; 403
 ; guest ; 403
 ; Authorization: Bearer nobody ; 403 503
 ; Authorization: AWS4-HMAC-SHA256 Credential=ANN/20130524/r/s3/aws4_request, SignedHeaders=host, Signature=0 ; 400 403
 ; Authorization: AWS ANN:c2ln ; 400
 ; Sec-Fetch-Site: cross-site ; 403
 ; x-amz-acl: public-read ; 501
 ; x-amz-tagging: a=b ; 501
 ; x-amz-server-side-encryption: AES256 ; 501
 ; x-amz-expected-bucket-owner: x ; 501
 ; ?->?acl& ; 501
Key ; /b/->/none/ ; 404
Part ; /b/->/none/ ; 404
Complete ; /b/->/none/ ; 404
Store Key ; /b/->/b/old/ ; 409
Store Key ; /b/new->/b/dir ; 409
Key ; /b/->/b// ; 400
Key ; /b/->/b/../ ; 400
Key ; /b/->/.data-server/ ; 400
Store ; If-Match: x-1 ; 404 412
Old ; If-Match: x-1 ; 412
Complete ; If-Match: x-1 ; 404
Store Old ; If-None-Match: * ; 412
Store Sends ; x-amz-meta-a: LONG ; 400
Begin ; x-amz-meta-a: LONG ; 400
Store ; x-amz-storage-class: GLACIER ; 501
Sends ; Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfA== ; 400
Sends ; x-amz-checksum-crc32: AAAAAQ== ; 400
Sends ; x-amz-checksum-crc32: A ; 400
Sends ; x-amz-content-sha256: 0000000000000000000000000000000000000000000000000000000000000000 ; 400
Sends ; x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER ; 411
Copy ; x-amz-copy-source: /b/none ; 404
Copy ; x-amz-copy-source: /none/old ; 404
Copy ; x-amz-copy-source: /c/secret ; 403
Copy ; x-amz-copy-source: /b//old ; 400
Copy ; x-amz-copy-source-if-match: x-1 ; 412
Part Copy ; x-amz-copy-source-range: bytes=0-99 ; 416
Copy Store ; x-amz-metadata-directive: X ; 400
Document ; a document of another kind ; 400
Complete ; x-amz-mp-object-size: 7 ; 400
Complete ; x-amz-checksum-crc32c: AAAAAQ== ; 400
Part ; ID->x ; 404
Part ; /up->/other ; 404
Part Sends ; partNumber=->partNumber=0&was= ; 400
Part Sends ; partNumber=->partNumber=9999 ; 400
Folder ; a body ; 400
Sends ; cut ; ";

struct Scene {
    server: TestServer,
    id: String,
    tag: String,
    before: Snapshot,
}

impl Scene {
    fn new(args: &[&str]) -> Self {
        let dir = DataDir::temporary();
        for (key, value) in [
            ("b/old", &b"old value"[..]),
            ("b/large", &pattern(1, 300_000)),
            ("c/secret", b"secret"),
        ] {
            dir.place(key, value);
        }
        for folder in ["empty", "b/dir"] {
            fs::create_dir(dir.file(folder)).expect("a folder");
        }
        let all = ["read", "write", "create", "delete", "list"];
        let policy = [
            subject("ann"),
            subject("guest"),
            rule("ann", "b/", &all),
            rule("ann", "none/", &all),
            rule("ann", "new/", &all),
            rule("ann", "empty/", &all),
            rule("guest", "", &["read", "list"]),
        ];
        let path = write_policy(&dir, &policy.concat());
        let launch = || {
            let launch = Launch::new(&[args, &["--access", &path]].concat());
            launch.listen("s3+http://127.0.0.1:0").on(&dir)
        };
        // One that takes what a refusing one needs.
        let open = Launch::new(&["--access", &path, "--durability", "disk"]);
        let mut open = open.listen("s3+http://127.0.0.1:0").on(&dir).start();
        let lines = format!("Content-Length: 0\r\n{}", bearer("ann"));
        let begun = ask(&mut open.connect(), "POST", "/b/up?uploads", &lines, b"").text();
        let id = element(&begun, "UploadId");
        let lines = format!("Content-Length: 4\r\n{}", bearer("ann"));
        let part = open.request(
            "PUT",
            &format!("/b/up?partNumber=1&uploadId={id}"),
            &lines,
            b"part",
        );
        let tag = part.must("etag").to_owned();
        open.kill();
        let server = launch().start();
        let before = Snapshot::of(&server.dir);
        Self {
            server,
            id,
            tag,
            before,
        }
    }

    /// What is wrong with a request that is refused so.
    fn faults(&self, [request, own]: [&str; 2], how: &str, statuses: &str) -> Vec<String> {
        let [method, mut target, mut body] = {
            let mut words = request.splitn(3, ' ');
            [(); 3].map(|()| words.next().unwrap_or_default().to_owned())
        };
        let mut lines = vec![own.to_owned(), bearer("ann").trim().to_owned()];
        match how.split_once("->") {
            Some((from, to)) => target = target.replacen(from, to, 1),
            None if how == "nobody" => lines.truncate(1),
            None if how == "guest" => bearer("guest").trim().clone_into(&mut lines[1]),
            None if how == "a body" => "x".clone_into(&mut body),
            None if how == "a document of another kind" => "<x>".clone_into(&mut body),
            None if how.contains(": ") => {
                let name = how.split(':').next().unwrap_or_default();
                lines.retain(|line| line.split(':').next() != Some(name));
                lines.push(how.replace("LONG", &"x".repeat(2050)));
            }
            None => {}
        }
        let target = target.replace("ID", &self.id);
        let body = match &*body {
            "small" => pattern(2, 1_000),
            "large" => pattern(3, 400_000),
            text => text.replace("TAG", &self.tag).into_bytes(),
        };
        lines.push(format!("Content-Length: {}", body.len()));
        lines.retain(|line| !line.is_empty());
        let lines = lines.join("\r\n") + "\r\n";
        let mut faults = Vec::new();
        if how == "cut" {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
            let at_rest = self.server.in_flight();
            let mut raw = self.server.connect();
            raw.send([head.as_bytes(), &body[..body.len() / 2]].concat());
            eventually("the server has it", || raw.is_taken());
            drop(raw);
            eventually("it is over", || self.server.in_flight() <= at_rest);
        } else {
            let answer = ask(&mut self.server.connect(), &method, &target, &lines, &body);
            let is_right = words(statuses).contains(&&*answer.status.to_string());
            let is_told = answer.status == 304 || answer.text().contains("<Error>");
            if !is_right || !is_told {
                faults.push(format!("{} {}", answer.status, answer.text()));
            }
        }
        // A disk thread removes what was staged.
        let since = || Snapshot::of(&self.server.dir).since(&self.before);
        if !within(Duration::from_secs(10), || since().is_empty()) {
            faults.extend(since());
        }
        faults
    }
}

/// Each operation, refused for each of these reasons.
fn hold(args: &[&str], reasons: &'static str) {
    let (mut scene, mut asked, mut wrong) = (Scene::new(args), 0, Vec::new());
    for [of, how, statuses] in table(reasons) {
        for [name, is, request, line] in table(OPERATIONS) {
            let is_sent = request.matches(' ').count() > 1 || how != "cut";
            let is_of = words(of).iter().all(|it| words(is).contains(it));
            if !is_of || !is_sent || how.starts_with('?') && !request.contains('?') {
                continue;
            }
            asked += 1;
            let faults = scene.faults([request, line], how, statuses);
            if !faults.is_empty() {
                wrong.push(format!("{name}, {how}: {}", faults.join("; ")));
                scene = Scene::new(args);
            }
        }
    }
    let told = wrong.join("\n");
    assert!(wrong.is_empty(), "{} of {asked}:\n{told}", wrong.len());
    eprintln!("{asked} requests were refused");
}

#[test]
fn nothing_changes_for_an_operation_that_is_refused() {
    directory_only!("buckets");
    for durability in ["os", "disk"] {
        hold(&["--durability", durability], REASONS);
    }
}

#[test]
fn nothing_changes_for_what_options_refuse() {
    directory_only!("buckets");
    hold(&["--read-only"], " ; of a server that only reads ; 403");
    hold(
        &["--max-body", "99"],
        "Store Sends ; too long ; 413\nPart Sends ; too long ; 413",
    );
    hold(
        &["--min-free", "1000TB"],
        "Store ; no room ; 507\nPart Sends ; no room ; 507",
    );
}
