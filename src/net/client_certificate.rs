//! What a verified chain of certificates proves of a client: its names, and until when.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;

use crate::http::ClientCertificate;

/// What `chain` proves, which was verified now: the client's own certificate, and those of its issuers that it sent.
pub(super) fn client_certificate(chain: &[CertificateDer<'_>]) -> ClientCertificate {
    let own = chain.first();
    let own = own.and_then(|own| EndEntityCert::try_from(own).ok());
    let names = own.iter().flat_map(|own| own.valid_dns_names());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    ClientCertificate {
        names: names.map(str::to_owned).collect(),
        end: end(chain, now.unwrap_or_default().as_secs()),
    }
}

/// The last second at which all of `chain` is valid. One of an issuer that has ended before `now` was not needed to verify
/// the chain.
fn end(chain: &[CertificateDer<'_>], now: u64) -> u64 {
    // What cannot be read has ended: it proves nothing.
    let own = chain.first().and_then(not_after).unwrap_or(0);
    let issuers = chain.iter().skip(1).filter_map(not_after);
    issuers.filter(|&end| end >= now).fold(own, u64::min)
}

/// The last second of this certificate (RFC 5280, section 4.1.2.5), since the epoch.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<u64> {
    let read = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let validity = read.tbs_certificate().validity();
    Some(validity.not_after.to_unix_duration().as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn until(year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        made.der().clone()
    }

    #[test]
    fn a_chain_ends_with_the_first_of_its_certificates_that_has_not_ended_yet() {
        let [past, soon, late] = [2020, 2030, 2100].map(until);
        let second = |year| u64::try_from(date_time_ymd(year, 1, 1).unix_timestamp()).unwrap();
        let now = second(2025);
        let end = |chain: &[&CertificateDer<'static>]| {
            let chain: Vec<_> = chain.iter().map(|&one| one.clone()).collect();
            super::end(&chain, now)
        };
        assert_eq!(end(&[&late]), second(2100));
        assert_eq!(end(&[&soon, &late]), second(2030));
        assert_eq!(end(&[&late, &soon]), second(2030));
        assert_eq!(end(&[&late, &past]), second(2100), "not needed");
        assert_eq!(end(&[&CertificateDer::from(vec![1, 2])]), 0, "unreadable");
        assert_eq!(*client_certificate(&[late]).names, ["a.example"]);
    }
}
