//! Sends the files in a task's folder to the depot while they grow.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client::{DepotClient, receive_reply};
use crate::message::{DepotReply, DepotRequest};
use crate::task_files::{MAX_APPEND, checksum, plain_files};

/// How long a request waits for the depot while the task runs.
const LIVE_LIMIT: Duration = Duration::from_secs(5);
/// How long the last files may take.
const LAST_LIMIT: Duration = Duration::from_secs(10);

/// When a task sends its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherTime {
    /// While they grow, at this interval, and at the end.
    Live(Duration),
    /// At the end.
    End,
    /// Never. The depot still hears that the task has ended.
    Never,
}

/// Sends the files in a task's folder while they grow. Dropping it sends what is left, within ten
/// seconds.
pub struct Gatherer {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gatherer {
    /// Sends the files of a task's folder. `note` receives why files cannot be sent; that costs the
    /// copy and not the run.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(
        client: &DepotClient,
        task: &str,
        folder: PathBuf,
        time: GatherTime,
        note: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (end, ended) = channel::<()>();
        let mut files =
            SentFiles { client: client.another(LIVE_LIMIT), task: task.into(), folder, sent: None };
        let send = move || {
            let (mut last_error, mut is_shared) = (String::new(), false);
            let mut say = |sent: io::Result<bool>| match sent {
                Err(error) if error.to_string() != last_error => {
                    last_error = error.to_string();
                    note(&format!("cannot send files to the coordinator: {last_error}"));
                    true
                }
                Err(_) => true,
                Ok(continues) => continues,
            };
            loop {
                let has_ended = match time {
                    GatherTime::Live(every) => {
                        ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout)
                    }
                    _ => ended.recv().is_err(),
                };
                if has_ended {
                    files.client = files.client.another(LAST_LIMIT);
                    say(files.finish(time));
                    return;
                }
                if !is_shared {
                    is_shared = !say(files.send());
                }
            }
        };
        let thread = thread::Builder::new().name("gatherer".into()).spawn(send)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the depot has of a task's files.
struct SentFiles {
    client: DepotClient,
    task: String,
    folder: PathBuf,
    /// The bytes of each file that the depot has; `None` before it was asked.
    sent: Option<BTreeMap<String, u64>>,
}

impl SentFiles {
    /// Sends what is new. Returns whether there will ever be anything to send.
    fn send(&mut self) -> io::Result<bool> {
        let sent = match self.sent.take() {
            Some(sent) => Some(sent),
            None => self.ask()?,
        };
        let Some(mut sent) = sent else { return Ok(false) };
        for name in plain_files(&self.folder)? {
            // Without the list of what the depot has, the next attempt asks for it.
            self.send_file(&name, sent.entry(name.clone()).or_default())?;
        }
        self.sent = Some(sent);
        Ok(true)
    }

    /// Sends what is left, and says that it is all.
    fn finish(&mut self, time: GatherTime) -> io::Result<bool> {
        let mut sent = if time == GatherTime::Never { Ok(true) } else { self.send() };
        if sent.is_err() {
            // What the depot has is asked for once more.
            sent = self.send();
        }
        sent?;
        self.client.ask_plain(&DepotRequest::Done { task: self.task.clone() })?;
        Ok(true)
    }

    /// What the depot has of this task's files; `None` if it shares this folder.
    fn ask(&self) -> io::Result<Option<BTreeMap<String, u64>>> {
        fs::create_dir_all(&self.folder)?;
        let probe = format!(".probe-{}-{:?}", std::process::id(), thread::current().id());
        let probe = probe.replace(['(', ')'], "-");
        let path = self.folder.join(&probe);
        fs::write(&path, "")?;
        let asked = self.client.ask_plain(&DepotRequest::List { task: self.task.clone(), probe });
        let _ = fs::remove_file(&path);
        let DepotReply::Files { is_shared, files } = asked? else {
            return Err(io::Error::other("an answer to another question"));
        };
        if is_shared {
            return Ok(None);
        }
        let mut sent = BTreeMap::new();
        for file in files {
            // A file of another process of this task, on another disk, is not continued.
            let path = self.folder.join(&file.name);
            let is_same = |mut content: File| checksum(&mut content, file.bytes);
            let here = File::open(&path).and_then(is_same).ok();
            if here == Some((file.bytes, file.crc32c)) {
                sent.insert(file.name, file.bytes);
            }
        }
        Ok(Some(sent))
    }

    /// Sends what a file has beyond `sent` bytes.
    fn send_file(&self, name: &str, sent: &mut u64) -> io::Result<()> {
        let mut file = File::open(self.folder.join(name))?;
        let length = file.metadata()?.len();
        if length < *sent {
            // It was written again from its start.
            *sent = 0;
        }
        file.seek(SeekFrom::Start(*sent))?;
        while *sent < length {
            let bytes = MAX_APPEND.min(length - *sent);
            let mut body = Vec::with_capacity(bytes as usize);
            file.by_ref().take(bytes).read_to_end(&mut body)?;
            let (task, file, at) = (self.task.clone(), name.to_owned(), *sent);
            let request = DepotRequest::Append { task, file, at };
            self.client.ask(&request, body.len() as u64, |channel| {
                channel.send_body(&mut &body[..], body.len() as u64)?;
                receive_reply(channel).map(|_| ())
            })?;
            *sent += body.len() as u64;
            if body.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Gatherer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gatherer").finish_non_exhaustive()
    }
}
