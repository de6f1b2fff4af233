//! Requests to S3, signed with version 4 of Amazon's signatures.

use std::fs::File;
use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use paceline_trust::{HASH_BYTES, keyed_hash};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// The keys that requests are signed with.
pub(super) struct S3Credentials {
    pub(super) key: String,
    pub(super) secret: String,
    /// The token of temporary credentials.
    pub(super) session: Option<String>,
    pub(super) region: String,
}

/// A request, ready to be sent.
pub(super) struct SignedRequest {
    pub(super) method: &'static str,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
}

/// The SHA-256 of a request's body, in hexadecimal digits.
pub(super) struct PayloadHash(String);

impl PayloadHash {
    /// That of a request without a body.
    pub(super) fn empty() -> Self {
        Self(hex(&Sha256::digest([])))
    }

    /// That of a file.
    pub(super) fn of(file: &mut File) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Self(hex(&hash.finalize()))),
                read => hash.update(&buffer[..read]),
            }
        }
    }
}

impl S3Credentials {
    /// Signs a request for the object at a path in the bucket at `base`.
    pub(super) fn sign(
        &self,
        method: &'static str,
        base: &str,
        path: &str,
        query: &[(&str, &str)],
        payload: PayloadHash,
        now: SystemTime,
    ) -> io::Result<SignedRequest> {
        let (_, rest) = base.split_once("://").ok_or_else(|| {
            let text = format!("AWS_ENDPOINT_URL: {base} does not begin with http:// or https://");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let (host, root) = rest.split_once('/').map_or((rest, String::new()), |(host, root)| {
            (host, format!("/{}", encode(root, true)))
        });
        let target = format!("{root}/{}", encode(path, true));
        let target = if path.is_empty() && !root.is_empty() { root } else { target };
        let mut pairs: Vec<_> =
            query.iter().map(|(name, value)| (encode(name, false), encode(value, false))).collect();
        pairs.sort();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = pairs.join("&");
        let time = utc(now);
        let mut headers = vec![
            ("host", host.to_owned()),
            ("x-amz-content-sha256", payload.0.clone()),
            ("x-amz-date", time.clone()),
        ];
        headers.extend(self.session.clone().map(|token| ("x-amz-security-token", token)));
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!("{method}\n{target}\n{query}\n{lines}\n{names}\n{}", payload.0);
        let scope = format!("{}/{}/s3/aws4_request", &time[..8], self.region);
        let hash = hex(&Sha256::digest(&canonical));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
        let signature = hex(&keyed_hash(&self.signing_key(&time[..8]), text.as_bytes()));
        let signed = format!("SignedHeaders={names}, Signature={signature}");
        let by = format!("AWS4-HMAC-SHA256 Credential={}/{scope}, {signed}", self.key);
        headers.push(("authorization", by));
        let start = &base[..base.len() - rest.len()];
        let question = if query.is_empty() { "" } else { "?" };
        let url = format!("{start}{host}{target}{question}{query}");
        Ok(SignedRequest { method, url, headers })
    }

    /// The key for the signatures of a day.
    fn signing_key(&self, day: &str) -> [u8; HASH_BYTES] {
        let first = keyed_hash(format!("AWS4{}", self.secret).as_bytes(), day.as_bytes());
        let second = keyed_hash(&first, self.region.as_bytes());
        keyed_hash(&keyed_hash(&second, b"s3"), b"aws4_request")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes text for a URL; slashes only if they are not to be kept.
fn encode(text: &str, keeps_slashes: bool) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = text.bytes().map(|byte| match byte {
        b'/' if keeps_slashes => "/".into(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// A time as `20261117T183000Z`.
fn utc(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        (day, month) = (day - length, month + 1);
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{:02}T{hour:02}{minute:02}{second:02}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The example of a signed request in Amazon's documentation ("GET Bucket Lifecycle").
    #[test]
    fn a_request_has_the_signature_that_amazon_documents() {
        let credentials = S3Credentials {
            key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: None,
            region: "us-east-1".into(),
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let base = "https://examplebucket.s3.amazonaws.com";
        let query = [("prefix", "J"), ("max-keys", "2")];
        let signed = credentials.sign("GET", base, "", &query, PayloadHash::empty(), now).unwrap();
        assert_eq!(signed.url, format!("{base}/?max-keys=2&prefix=J"));
        let authorization = &signed.headers.last().unwrap().1;
        assert!(
            authorization.ends_with(
                "SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
                 Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
            ),
            "{authorization}"
        );
    }

    #[test]
    fn times_are_in_utc_and_know_leap_years() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101T000000Z");
        assert_eq!(at(1_369_353_600), "20130524T000000Z");
        assert_eq!(at(1_709_208_000), "20240229T120000Z");
        assert_eq!(at(1_798_761_599), "20261231T235959Z");
    }

    #[test]
    fn names_are_encoded_for_urls() {
        assert_eq!(encode("a b/c~d+é", true), "a%20b/c~d%2B%C3%A9");
        assert_eq!(encode("a/b", false), "a%2Fb");
    }
}
