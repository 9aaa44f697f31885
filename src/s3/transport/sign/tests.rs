//! The published examples of signatures, and what is kept between them.

use super::*;

/// The examples of "Signature Calculations for the Authorization Header" in the reference of Amazon S3.
#[test]
fn the_published_examples() {
    let put = [
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ];
    let welcome = hex(&Sha256::digest("Welcome to Amazon S3."));
    for (method, path, query, fields, payload, signature) in [
        (
            "GET",
            "/test.txt",
            "",
            &[("range", "bytes=0-9")][..],
            NOTHING,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            "",
            &put[..],
            &*welcome,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/",
            "lifecycle=",
            &[],
            NOTHING,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/",
            "max-keys=2&prefix=J",
            &[],
            NOTHING,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("host", value("examplebucket.s3.amazonaws.com").unwrap());
        for &(name, text) in fields {
            headers.insert(name, value(text).unwrap());
        }
        let request = Signed {
            method,
            path,
            query,
            payload,
        };
        signer()
            .sign(&request, &mut headers, &secrets(), may_2013())
            .unwrap();
        let authorization = headers[AUTHORIZATION].to_str().unwrap();
        assert!(
            authorization.ends_with(&format!("Signature={signature}")),
            "{method} {path}?{query}: {authorization}"
        );
    }
}

/// The example of "Authenticating Requests: Using Query Parameters" in the same reference.
#[test]
fn the_published_example_of_a_link() {
    let link = Link {
        method: "GET",
        host: "examplebucket.s3.amazonaws.com",
        path: "/test.txt",
        valid: Duration::from_secs(86_400),
    };
    let query = signer().presign(&link, &secrets(), may_2013()).unwrap();
    assert_eq!(
        query,
        "X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
    let with_token = Arc::new(Secrets {
        id: "id".to_owned(),
        secret: "secret".to_owned(),
        token: Some("a/b+c=".to_owned()),
    });
    let query = signer().presign(&link, &with_token, may_2013()).unwrap();
    assert!(
        query.contains("&X-Amz-Security-Token=a%2Fb%2Bc%3D&"),
        "{query}"
    );
}

#[test]
fn the_key_of_the_day_is_derived_again_for_other_secrets_and_days() {
    let signer = signer();
    let first = secrets();
    let key = signer.key(&first, "20130524");
    assert_eq!(signer.key(&first, "20130524"), key);
    assert_ne!(signer.key(&first, "20130525"), key);
    let other = Arc::new(Secrets {
        id: first.id.clone(),
        secret: "other".to_owned(),
        token: None,
    });
    assert_ne!(signer.key(&other, "20130524"), key);
}

#[test]
fn nothing_shows_a_secret() {
    let signer = signer();
    signer.key(&secrets(), "20130524");
    let shown = format!("{signer:?} {:?}", secrets());
    assert!(!shown.contains("wJalr"), "{shown}");
}

fn signer() -> Signer {
    Signer::new("us-east-1".to_owned())
}

fn secrets() -> Arc<Secrets> {
    Arc::new(Secrets {
        id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        token: None,
    })
}

fn may_2013() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600)
}
