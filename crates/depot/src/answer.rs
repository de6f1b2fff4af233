//! What the depot does with each request.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};

use paceline_checkpoint::{CheckpointError, DeliveredShard, Manifest, ServerNumber};
use paceline_exchange::Generation;

use crate::channel::{Channel, Received};
use crate::depot::DepotState;
use crate::message::{Reply, Request};
use crate::task_files::TaskFiles;

/// Answers a request. An error ends the connection: the body of the request may be unread.
pub(crate) fn answer(
    depot: &DepotState,
    channel: &mut Channel,
    Received { message, body }: Received<Request>,
) -> io::Result<()> {
    let checkpoints = &depot.config.checkpoints;
    let reply = match message {
        Request::Claim { server } => claim(depot, server),
        Request::Follow { server, generation: number, base } => {
            let followed = checkpoints.follow(server, Generation { number, base });
            followed.map_or_else(|error| Reply::Refused(error.to_string()), |_| Reply::Done)
        }
        Request::Manifest { step } => return send_manifest(depot, channel, step),
        Request::Shard { step, file } => return send_shard(depot, channel, step, &file),
        Request::Deliver { shard } => receive_shard(depot, channel, shard, body)?,
        Request::List { task, probe } => match TaskFiles::of(depot, &task) {
            Some(files) => Reply::Files { is_shared: files.has(&probe), files: files.list()? },
            None => unknown(&task),
        },
        Request::Append { task, file, at } => match TaskFiles::of(depot, &task) {
            Some(files) => refusal(files.append(channel, &file, at, body))?,
            None => return Err(io::Error::new(ErrorKind::InvalidData, "an unknown task")),
        },
        Request::Done { task } => {
            depot.set_done(&task);
            Reply::Done
        }
    };
    channel.send(&reply, 0)
}

fn unknown(task: &str) -> Reply {
    Reply::Refused(format!("the run has no task {task}"))
}

/// What a failure says, if the connection can be used further.
fn refusal(done: io::Result<Result<(), String>>) -> io::Result<Reply> {
    Ok(done?.map_or_else(Reply::Refused, |()| Reply::Done))
}

fn claim(depot: &DepotState, server: ServerNumber) -> Reply {
    match depot.config.checkpoints.claim(server, None, &mut |text| (depot.config.note)(text)) {
        Ok(start) => {
            let Generation { number, base } = start.generation;
            Reply::Generation { number, base }
        }
        Err(error) => Reply::Refused(error.to_string()),
    }
}

/// Sends the manifest of a step, or of the newest sound checkpoint.
fn send_manifest(depot: &DepotState, channel: &mut Channel, step: Option<u64>) -> io::Result<()> {
    let checkpoints = &depot.config.checkpoints;
    let found = match step {
        Some(step) => Some(step).filter(|&step| checkpoints.is_complete(step)),
        None => match checkpoints.newest(&mut |text| (depot.config.note)(text)) {
            Ok(newest) => Some(newest.manifest.info.step),
            Err(CheckpointError::Refused(_)) => None,
            Err(error) => return channel.send(&Reply::Refused(error.to_string()), 0),
        },
    };
    let Some(step) = found else { return channel.send(&Reply::Absent, 0) };
    let text = fs::read(checkpoints.place(step).join(Manifest::FILE))?;
    channel.send(&Reply::Body, text.len() as u64)?;
    channel.send_body(&mut &text[..], text.len() as u64)
}

/// Sends a file that the manifest of a step names, and no other.
fn send_shard(depot: &DepotState, channel: &mut Channel, step: u64, file: &str) -> io::Result<()> {
    let checkpoints = &depot.config.checkpoints;
    let is_named = |manifest: Manifest| manifest.shards.iter().any(|shard| shard.file == file);
    if !checkpoints.manifest(step).is_ok_and(is_named) {
        return channel.send(&Reply::Absent, 0);
    }
    let mut content = File::open(checkpoints.place(step).join(file))?;
    let bytes = content.metadata()?.len();
    channel.send(&Reply::Body, bytes)?;
    channel.send_body(&mut content.by_ref(), bytes)
}

fn receive_shard(
    depot: &DepotState,
    channel: &mut Channel,
    shard: DeliveredShard,
    body: u64,
) -> io::Result<Reply> {
    let checkpoints = &depot.config.checkpoints;
    if body != shard.bytes() {
        return Err(io::Error::new(ErrorKind::InvalidData, "a shard of another length"));
    }
    let path = checkpoints.incoming(&shard)?;
    let received = File::create(&path).and_then(|mut file| channel.receive_body(&mut file, body));
    if let Err(error) = received {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    let kept = checkpoints.receive(shard, &path);
    Ok(kept.map_or_else(|error| Reply::Refused(error.to_string()), |()| Reply::Done))
}
