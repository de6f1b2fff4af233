//! A bucket of an object store that speaks the protocol of S3, such as Amazon's own or MinIO.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::s3_request::{PayloadHash, S3Credentials, SignedRequest};
use super::store::{FileStore, read_most};

/// How long a connection may take, and a single read or write on it.
const STEP_LIMIT: Duration = Duration::from_secs(10);
/// How long the transfer of one file may take.
const FILE_LIMIT: Duration = Duration::from_secs(3600);
/// The longest answer that is not a file.
const MAX_ANSWER: u64 = 16 << 20;
/// The largest object that can be written at once.
const MAX_OBJECT: u64 = 5 << 30;
/// The most pages of a list that are read, of a thousand names each.
const MAX_PAGES: usize = 1_000;

/// A bucket, or the part of it below a prefix.
pub(super) struct S3Bucket {
    agent: ureq::Agent,
    /// The address of the bucket, without a slash at its end.
    base: String,
    /// Empty, or with a slash at its end.
    prefix: String,
    credentials: S3Credentials,
}

impl std::fmt::Debug for S3Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Bucket").field("base", &self.base).finish_non_exhaustive()
    }
}

impl S3Bucket {
    /// The place `BUCKET/PREFIX`, with the variables that other programs for S3 read too.
    pub(super) fn from_env(name: &str) -> io::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let required = |name: &str| {
            let text = format!("s3:// needs the variable {name}, which is not set");
            variable(name).ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, text))
        };
        let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
        if bucket.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "s3:// names no bucket"));
        }
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let base = match endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        let prefix = prefix.trim_matches('/');
        let agent = ureq::Agent::config_builder()
            .timeout_resolve(Some(STEP_LIMIT))
            .timeout_connect(Some(STEP_LIMIT))
            .timeout_per_read(Some(STEP_LIMIT))
            .timeout_per_write(Some(STEP_LIMIT))
            .timeout_global(Some(FILE_LIMIT))
            .http_status_as_error(false)
            .user_agent(concat!("paceline/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: agent.into(),
            base,
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            credentials: S3Credentials {
                key: required("AWS_ACCESS_KEY_ID")?,
                secret: required("AWS_SECRET_ACCESS_KEY")?,
                session: variable("AWS_SESSION_TOKEN"),
                region,
            },
        })
    }

    fn sign(
        &self,
        method: &'static str,
        name: &str,
        query: &[(&str, &str)],
        payload: PayloadHash,
    ) -> io::Result<SignedRequest> {
        let path = format!("{}{name}", self.prefix);
        let path = if name.is_empty() { "" } else { &path };
        self.credentials.sign(method, &self.base, path, query, payload, SystemTime::now())
    }

    /// Sends a request without a body.
    fn ask(&self, request: &SignedRequest) -> io::Result<ureq::http::Response<ureq::Body>> {
        let SignedRequest { method, url, headers } = request;
        let builder = match *method {
            "DELETE" => self.agent.delete(url),
            _ => self.agent.get(url),
        };
        let add = |builder: ureq::RequestBuilder<_>, (name, value): &(&str, String)| {
            builder.header(*name, value)
        };
        let answer = headers.iter().fold(builder, add).call();
        accepted(answer.map_err(io::Error::other)?, url)
    }
}

/// An answer that says success. Others become an error with what the store says.
fn accepted(
    mut answer: ureq::http::Response<ureq::Body>,
    url: &str,
) -> io::Result<ureq::http::Response<ureq::Body>> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let mut text = String::new();
    let _ = answer.body_mut().as_reader().take(MAX_ANSWER).read_to_string(&mut text);
    let said = element(&text, "Message").or_else(|| element(&text, "Code")).unwrap_or_default();
    let kind = match status.as_u16() {
        404 => ErrorKind::NotFound,
        401 | 403 => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    let place = url.split('?').next().unwrap_or(url);
    Err(io::Error::new(kind, format!("{place}: {status} {said}").trim_end().to_owned()))
}

impl FileStore for S3Bucket {
    fn put(&self, name: &str, from: &Path) -> io::Result<()> {
        let mut file = File::open(from)?;
        if file.metadata()?.len() > MAX_OBJECT {
            let text = format!("{} is larger than 5 GiB, which S3 refuses", from.display());
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let payload = PayloadHash::of(&mut file)?;
        let request = self.sign("PUT", name, &[], payload)?;
        let builder = self.agent.put(&request.url);
        let builder = request
            .headers
            .iter()
            .fold(builder, |builder, (name, value)| builder.header(*name, value));
        let answer = builder.send(&File::open(from)?).map_err(io::Error::other)?;
        accepted(answer, &request.url).map(drop)
    }

    fn get(&self, name: &str, to: &Path) -> io::Result<()> {
        let request = self.sign("GET", name, &[], PayloadHash::empty())?;
        let mut answer = self.ask(&request)?;
        let mut file = File::create(to)?;
        io::copy(&mut answer.body_mut().as_reader(), &mut file)?;
        file.sync_all()
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let request = self.sign("GET", name, &[], PayloadHash::empty())?;
        read_most(self.ask(&request)?.body_mut().as_reader(), most)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut query = vec![("list-type", "2"), ("prefix", self.prefix.as_str())];
            query.extend(next.as_deref().map(|next| ("continuation-token", next)));
            let request = self.sign("GET", "", &query, PayloadHash::empty())?;
            let mut text = String::new();
            let mut answer = self.ask(&request)?;
            answer.body_mut().as_reader().take(MAX_ANSWER).read_to_string(&mut text)?;
            let found = text.split("<Contents>").skip(1).filter_map(|entry| element(entry, "Key"));
            let own = found.filter_map(|key| key.strip_prefix(&self.prefix).map(String::from));
            names.extend(own);
            next = element(&text, "NextContinuationToken");
            if next.is_none() {
                return Ok(names);
            }
        }
        Err(io::Error::other("the bucket has too many objects below this prefix"))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let request = self.sign("DELETE", name, &[], PayloadHash::empty())?;
        match self.ask(&request) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The text of the first element with this name.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}
