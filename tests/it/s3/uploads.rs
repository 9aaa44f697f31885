//! Resumable uploads over a bucket: there are none, and a client is told so before it sends a value.

use super::{each, reason, send};
use crate::support::prelude::*;

#[test]
fn uploads_to_a_bucket_cannot_be_resumed() {
    each("resumable", |server, bucket| {
        let resource = "-/uploads/0123456789abcdef0123456789abcdef";
        let part = "Content-Type: application/partial-upload\r\nUpload-Offset: 0\r\nUpload-Complete: ?1\r\n";
        let interop = "Upload-Draft-Interop-Version: 8\r\n";
        for (method, of, lines) in [
            ("PUT", "k", "Upload-Complete: ?0\r\n"),
            ("POST", "k", "Upload-Complete: ?0\r\n"),
            ("HEAD", resource, ""),
            ("PATCH", resource, part),
            ("DELETE", resource, ""),
        ] {
            let refused = send(server, method, of, &format!("{lines}{interop}"), b"");
            assert_eq!(refused.status, 501, "{method} {of}: {refused:?}");
            if method != "HEAD" {
                assert_eq!(reason(&refused), "no-resumable-uploads");
            }
        }
        for of in ["k", resource] {
            let options = send(server, "OPTIONS", of, "", b"");
            assert_eq!(options.status, 204);
            assert_eq!(options.header("upload-limit"), None, "{of}");
        }
        assert_eq!(bucket.objects().len(), 0, "nothing is kept of them");
        assert_eq!(bucket.multipart_uploads(), 0);
    });
}

#[test]
fn a_client_of_the_draft_that_sends_all_of_a_value_stores_it() {
    each("whole", |server, _| {
        let lines = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
        let value = pattern(1, 300_000);
        let stored = Resumable::ask_to_create(&mut server.connect(), "k", lines, &value);
        assert_eq!((stored.status, stored.must("upload-complete")), (200, "?1"));
        assert!(server.get("k").body == value);
    });
}
