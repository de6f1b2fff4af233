//! A small certificate authority: the keys and certificates of a cluster's tasks.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::private_file::{is_private, read_pem};
use crate::tls::{dns_name, role_name};

/// The authority's certificate, in its own directory and in each host's.
pub const CA_FILE: &str = "ca.pem";
/// The authority's key, which signs certificates. Only the first directory has it.
const CA_KEY_FILE: &str = "ca.key";
/// Clocks of hosts may differ by this much.
const CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// Why keys cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file or directory.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// An authority that signs the certificates of tasks.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    validity: Duration,
}

impl Authority {
    /// The authority in a directory, which is made if it has none. Its certificates are valid for
    /// this many days.
    pub fn open(dir: &Path, days: u32) -> Result<Self, CertificateError> {
        let validity = Duration::from_secs(u64::from(days) * 86_400);
        make_dir(dir)?;
        let (pem_path, key_path) = (dir.join(CA_FILE), dir.join(CA_KEY_FILE));
        if let Ok(about) = key_path.metadata() {
            if !is_private(&about) {
                let why = "others can read this key; use chmod 600";
                return Err(at(&key_path)(io::Error::new(ErrorKind::PermissionDenied, why)));
            }
            let key = KeyPair::from_pem(&read(&key_path)?)?;
            let issuer = Issuer::new(authority_params(validity)?, key);
            return Ok(Self { issuer, pem: read(&pem_path)?, validity });
        }
        let authority = Self::new(validity)?;
        write_new(&key_path, &authority.issuer.key().serialize_pem())?;
        write_new(&pem_path, &authority.pem)?;
        Ok(authority)
    }

    /// A new authority whose key is in this process only.
    fn new(validity: Duration) -> Result<Self, CertificateError> {
        let (params, key) = (authority_params(validity)?, KeyPair::generate()?);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem, validity })
    }

    /// An authority for one run: its key is never written.
    pub fn of_run() -> Result<Self, CertificateError> {
        Self::new(Duration::from_secs(366 * 86_400))
    }

    /// Writes the authority's certificate, and a key and a certificate for each of these tasks,
    /// such as `worker:3`, into a directory that only its owner can read. Nothing is overwritten.
    pub fn write(&self, dir: &Path, tasks: &[String]) -> Result<(), CertificateError> {
        make_dir(dir)?;
        let ca = dir.join(CA_FILE);
        if !ca.exists() {
            write_new(&ca, &self.pem)?;
        }
        tasks.iter().try_for_each(|task| self.write_one(dir, task, std::slice::from_ref(task)))
    }

    /// Writes a key and a certificate with this name that state several tasks: their holder may be
    /// any of them.
    pub fn write_one(
        &self,
        dir: &Path,
        name: &str,
        tasks: &[String],
    ) -> Result<(), CertificateError> {
        let key = KeyPair::generate()?;
        let params = task_params(name, tasks, self.validity)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let files = CertificateFiles::of(dir, name);
        write_new(&files.key, &key.serialize_pem())?;
        write_new(&files.cert, &certificate.pem())
    }
}

/// Where a task's key and certificate are.
pub struct CertificateFiles {
    /// The certificate.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// In this directory.
    pub fn of(dir: &Path, task: &str) -> Self {
        let name = file_name(task);
        Self { cert: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}.key")) }
    }
}

/// The name of a task such as `worker:3` in names of files: `worker-3`.
pub fn file_name(task: &str) -> String {
    task.replace(':', "-")
}

fn authority_params(validity: Duration) -> Result<CertificateParams, CertificateError> {
    let mut params = valid_for(CertificateParams::default(), validity);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "Paceline authority of a cluster");
    Ok(params)
}

fn task_params(
    name: &str,
    tasks: &[String],
    validity: Duration,
) -> Result<CertificateParams, CertificateError> {
    let mut names: Vec<_> = tasks.iter().map(|task| dns_name(task)).collect();
    names.extend(tasks.first().map(|task| role_name(task)));
    let params = CertificateParams::new(names)?;
    let mut params = valid_for(params, validity);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A task accepts connections and opens some.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn valid_for(mut params: CertificateParams, validity: Duration) -> CertificateParams {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + now + validity;
    params
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> CertificateError {
    let path = path.display().to_string();
    |source| CertificateError::File { path, source }
}

fn make_dir(dir: &Path) -> Result<(), CertificateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))
}

fn read(path: &Path) -> Result<String, CertificateError> {
    let text = read_pem(path).and_then(|pem| String::from_utf8(pem).map_err(io::Error::other));
    text.map_err(at(path))
}

/// Writes a file that only its owner can read, unless it exists.
fn write_new(path: &Path, text: &str) -> Result<(), CertificateError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(at(path))
}
