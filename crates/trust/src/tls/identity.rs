//! A task's certificate, and whom it trusts.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::session::TlsSession;
use super::task_name::{dns_name, states};
use crate::private_file::{is_private, open_credential, read_open_pem, read_pem};

/// A task's certificate, and the authority whose certificates it trusts.
#[derive(Clone)]
pub struct TlsIdentity {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    own: CertificateDer<'static>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no certificate or key.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificate and the key do not belong together, or are of a kind that is not supported.
    #[error("the certificate and its key: {0}")]
    Identity(#[from] rustls::Error),
    /// The authority cannot be used.
    #[error("the authority's certificate: {0}")]
    Authority(String),
    /// A certificate may not state this name of a task.
    #[error("{0} is not the name of a task")]
    Name(String),
}

impl TlsIdentity {
    /// Reads the authority's certificate, this task's certificate and its key, all in PEM.
    pub fn read(ca: &Path, cert: &Path, key: &Path) -> Result<Self, TlsError> {
        Self::read_for(provider(), ca, cert, key)
    }

    /// As [`Self::read`], with these algorithms.
    pub(super) fn read_for(
        provider: CryptoProvider,
        ca: &Path,
        cert: &Path,
        key: &Path,
    ) -> Result<Self, TlsError> {
        let wrong = |path: &Path, why: &dyn fmt::Display| TlsError::File {
            path: path.display().to_string(),
            why: why.to_string(),
        };
        let content = |path: &Path| read_pem(path).map_err(|error| wrong(path, &error));
        let authority = CertificateDer::from_pem_slice(&content(ca)?);
        let authority = authority.map_err(|error| wrong(ca, &error))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content(cert)?).collect();
        let chain = chain.map_err(|error| wrong(cert, &error))?;
        if chain.is_empty() {
            return Err(wrong(cert, &"it holds no certificate"));
        }
        let file = open_credential(key).map_err(|error| wrong(key, &error))?;
        let about = file.metadata().map_err(|error| wrong(key, &error))?;
        if !is_private(&about) {
            return Err(wrong(key, &"others can read this key; use chmod 600"));
        }
        let pem = read_open_pem(file).map_err(|error| wrong(key, &error))?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| wrong(key, &error))?;
        Self::new(provider, authority, chain, key)
    }

    fn new(
        provider: CryptoProvider,
        authority: CertificateDer<'static>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(|error| TlsError::Authority(error.to_string()))?;
        let own = chain[0].clone();
        let (roots, provider) = (Arc::new(roots), Arc::new(provider));
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), key.clone_key())?;
        // A connection lasts as long as its task, so nothing is kept for a second one.
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| TlsError::Authority(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { client: Arc::new(client), server: Arc::new(server), own })
    }

    /// The one task of this role, such as `worker`, that the certificate states, if its number is
    /// below `most`. `None` if it states several or none.
    pub fn own_task(&self, role: &str, most: usize) -> Option<String> {
        let tasks = (0..most).map(|index| format!("{role}:{index}"));
        let mut stated = tasks.filter(|task| states(&self.own, task));
        stated.next().filter(|_| stated.next().is_none())
    }

    /// A connection to a task, whose certificate must state this name, such as `ps:0`.
    pub fn dial(&self, peer: &str) -> Result<TlsSession, TlsError> {
        let name = ServerName::try_from(dns_name(peer));
        let name = name.map_err(|_| TlsError::Name(peer.to_owned()))?;
        let connection = UnbufferedClientConnection::new(self.client.clone(), name)?;
        Ok(TlsSession::of_client(connection))
    }

    /// A connection that another task has opened.
    pub fn accept(&self) -> io::Result<TlsSession> {
        let connection = UnbufferedServerConnection::new(self.server.clone());
        Ok(TlsSession::of_server(connection.map_err(io::Error::other)?))
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity")
    }
}

/// The algorithms. AES-128-GCM comes first: with the processor's instructions it is the fastest.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    let is_first = |suite: &rustls::SupportedCipherSuite| {
        suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256
    };
    provider.cipher_suites.sort_by_key(|suite| !is_first(suite));
    provider
}
