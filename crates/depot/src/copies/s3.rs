//! A bucket of an object store that speaks the protocol of S3, such as Amazon's own or MinIO.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::s3_request::{PayloadHash, S3Credentials, SignedRequest};
use super::store::FileStore;

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
        Ok(Self {
            agent: agent(),
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

/// What makes the requests.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_resolve(Some(STEP_LIMIT))
        .timeout_connect(Some(STEP_LIMIT))
        .timeout_per_read(Some(STEP_LIMIT))
        .timeout_per_write(Some(STEP_LIMIT))
        .timeout_global(Some(FILE_LIMIT))
        .http_status_as_error(false)
        // A signature holds for one host, and a session's token is for no other.
        .max_redirects(0)
        .user_agent(concat!("paceline/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
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
        // Longer ones cannot have been written, so that an endless answer does not fill the disk.
        let mut body = answer.body_mut().as_reader().take(MAX_OBJECT + 1);
        if io::copy(&mut body, &mut file)? > MAX_OBJECT {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is larger than 5 GiB"));
        }
        file.sync_all()
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let request = self.sign("GET", name, &[], PayloadHash::empty())?;
        let mut answer = self.ask(&request)?;
        let mut content = Vec::new();
        answer.body_mut().as_reader().take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is too long"));
        }
        Ok(content)
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// A bucket at this address.
    fn bucket(base: String) -> S3Bucket {
        let [key, secret] = ["key", "secret"].map(String::from);
        let session = Some("a session".into());
        let credentials = S3Credentials { key, secret, session, region: "eu-test-1".into() };
        S3Bucket { agent: agent(), base, prefix: "run/".into(), credentials }
    }

    /// Reads the head of a request.
    fn head(stream: &TcpStream) -> Vec<String> {
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        lines.take_while(|line| !line.is_empty()).collect()
    }

    #[test]
    fn an_answer_without_end_is_not_read_beyond_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bucket = bucket(format!("http://{}/b", listener.local_addr().unwrap()));
        let store = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(head(&stream)[0], "GET /b/run/step-1/manifest.json HTTP/1.1");
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            // Ends with the connection.
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        });
        let error = bucket.read("step-1/manifest.json", 100_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        store.join().unwrap();
    }

    #[test]
    fn a_redirection_is_an_error_and_takes_no_credentials_to_another_place() {
        let [listener, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let bucket = bucket(format!("http://{}/b", listener.local_addr().unwrap()));
        let to = other.local_addr().unwrap();
        let store = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = head(&stream);
            assert!(request.iter().any(|line| line == "x-amz-security-token: a session"));
            let answer = [
                "HTTP/1.1 307 Temporary Redirect",
                &format!("location: http://{to}/b"),
                "content-length: 34",
                "",
                "<Message>use the region</Message>\n",
            ]
            .join("\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let error = bucket.read("job.toml", 100).unwrap_err().to_string();
        assert!(error.contains("307") && error.contains("use the region"), "{error}");
        store.join().unwrap();
        other.set_nonblocking(true).unwrap();
        assert_eq!(other.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
