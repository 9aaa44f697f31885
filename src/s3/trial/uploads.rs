//! Uploads that are not what they should be: cut off, or with a wrong checksum.

use std::time::Duration;

use bytes::Bytes;

use super::report::{Report, Verdict, What};
use super::requests::{Depth, Outcome, Trial};
use crate::s3::transport::body::SendBody;
use crate::value::Error;

/// The length of an upload that is cut off.
const LEN: usize = 256 << 10;

/// How long a store may take to notice that an upload broke off, between two looks at it.
const NOTICED: Duration = Duration::from_millis(100);

pub async fn check(trial: &Trial, depth: Depth, report: &mut Report) -> Result<(), Error> {
    let verdict = cut(trial, depth).await?;
    report.add(What::CutUpload, verdict);
    let verdict = wrong_checksum(trial).await?;
    report.add(What::WrongChecksum, verdict);
    Ok(())
}

/// Cuts uploads off at as many places as the depth says.
async fn cut(trial: &Trial, depth: Depth) -> Result<Verdict, Error> {
    let objects: Vec<String> = (0..depth.cuts).map(|_| trial.object()).collect();
    for (object, at) in objects.iter().zip(1..) {
        trial.place(object, "old").await?;
        let framed = framed(&vec![b'x'; LEN], "AAAAAAAAAAA=");
        let sent = framed.len() * at / (objects.len() + 1);
        let body = SendBody::CutOff {
            begin: Some(framed.slice(..sent)),
            len: framed.len() as u64,
        };
        if let Outcome::Done(_) = trial.put_framed(object, body, LEN).await {
            return Ok(Verdict::Fails(
                "an upload that broke off was acknowledged".to_owned(),
            ));
        }
    }
    for _ in 0..depth.looks {
        tokio::time::sleep(NOTICED).await;
        for object in &objects {
            if trial.read(object).await?.is_none_or(|value| value != "old") {
                return Ok(Verdict::Fails(
                    "the beginning of an upload that broke off is stored".to_owned(),
                ));
            }
        }
    }
    Ok(Verdict::Holds(depth.cuts))
}

async fn wrong_checksum(trial: &Trial) -> Result<Verdict, Error> {
    let object = trial.object();
    trial.place(&object, "old").await?;
    // The published check value of CRC-64/NVME, of these digits, and another one.
    let value = b"123456789";
    let right = SendBody::Whole(framed(value, "rosUhgp5mIg="));
    match trial.put_framed(&object, right, value.len()).await {
        Outcome::Done(_) => {}
        other => {
            return Ok(Verdict::Fails(format!(
                "an upload in pieces with a right checksum is not taken: {other:?}"
            )));
        }
    }
    let wrong = SendBody::Whole(framed(b"987654321", "rosUhgp5mIg="));
    Ok(match trial.put_framed(&object, wrong, value.len()).await {
        Outcome::Done(_) => Verdict::Fails("it is acknowledged".to_owned()),
        _ if trial
            .read(&object)
            .await?
            .is_none_or(|now| now != value[..]) =>
        {
            Verdict::Fails("it is refused, and stored".to_owned())
        }
        _ => Verdict::Holds(1),
    })
}

/// `value` as one piece, with this checksum behind it.
fn framed(value: &[u8], checksum: &str) -> Bytes {
    let head = format!("{:x}\r\n", value.len());
    let trailer = format!("\r\n0\r\nx-amz-checksum-crc64nvme:{checksum}\r\n\r\n");
    [head.as_bytes(), value, trailer.as_bytes()].concat().into()
}
