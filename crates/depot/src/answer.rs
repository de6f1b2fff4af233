//! What the depot does with each request.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};

use paceline_checkpoint::{CheckpointError, DeliveredShard, Manifest, ServerNumber};
use paceline_exchange::Generation;

use crate::channel::{Channel, Received};
use crate::message::{DepotReply, DepotRequest};
use crate::state::DepotState;
use crate::task_files::TaskFiles;

/// Answers a request. An error ends the connection: the body of the request may be unread.
pub(crate) fn answer(
    depot: &DepotState,
    channel: &mut Channel,
    Received { message, body }: Received<DepotRequest>,
) -> io::Result<()> {
    if let Some(name) = foreign(depot, channel, &message) {
        let text =
            format!("a request for {}, whose certificate it does not have", shortened(&name));
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    let checkpoints = &depot.config.checkpoints;
    let reply = match message {
        DepotRequest::Claim { server } if !is_server(depot, server) => no_server(server),
        DepotRequest::Claim { server } => claim(depot, server),
        DepotRequest::Follow { server, .. } if !is_server(depot, server) => no_server(server),
        DepotRequest::Follow { server, generation: number, base } => {
            let followed = checkpoints.follow(server, Generation { number, base });
            followed
                .map_or_else(|error| DepotReply::Refused(error.to_string()), |_| DepotReply::Done)
        }
        DepotRequest::Manifest { step } => return send_manifest(depot, channel, step),
        DepotRequest::Shard { step, file } => return send_shard(depot, channel, step, &file),
        DepotRequest::Deliver { shard } => receive_shard(depot, channel, *shard, body)?,
        DepotRequest::List { task, probe } => match TaskFiles::of(depot, &task) {
            Some(files) => DepotReply::Files { is_shared: files.has(&probe), files: files.list()? },
            None => unknown(&task),
        },
        DepotRequest::Append { task, file, at } => match TaskFiles::of(depot, &task) {
            Some(files) => refusal(files.append(channel, &file, at, body))?,
            None => return Err(io::Error::new(ErrorKind::InvalidData, "an unknown task")),
        },
        DepotRequest::Done { task } => match TaskFiles::of(depot, &task) {
            Some(_) => {
                depot.set_done(&task);
                DepotReply::Done
            }
            None => unknown(&task),
        },
    };
    channel.send(&reply, 0)
}

/// The task that a request must come from, if the other side's certificate does not state it.
fn foreign(depot: &DepotState, channel: &Channel, request: &DepotRequest) -> Option<String> {
    let name = match request {
        DepotRequest::Claim { server: at } | DepotRequest::Follow { server: at, .. } => {
            format!("ps:{}", at.index)
        }
        DepotRequest::Deliver { shard } => depot.config.holder_of(shard.index),
        DepotRequest::List { task, .. }
        | DepotRequest::Append { task, .. }
        | DepotRequest::Done { task } => task.clone(),
        DepotRequest::Manifest { .. } | DepotRequest::Shard { .. } => return None,
    };
    (!channel.may_be(&name)).then_some(name)
}

/// Whether the run has this server, and as many servers as it says.
fn is_server(depot: &DepotState, server: ServerNumber) -> bool {
    server.count == depot.config.shards && server.index < server.count
}

fn no_server(server: ServerNumber) -> DepotReply {
    DepotReply::Refused(format!("the run has no server {} of {}", server.index, server.count))
}

fn unknown(task: &str) -> DepotReply {
    DepotReply::Refused(format!("the run has no task {}", shortened(task)))
}

/// A task's name for messages: a peer may send one of many megabytes.
fn shortened(task: &str) -> String {
    task.chars().take(100).collect()
}

/// The reply to a request that was carried out or refused. Only after an error of the connection is
/// there none.
fn refusal(done: io::Result<Result<(), String>>) -> io::Result<DepotReply> {
    Ok(done?.map_or_else(DepotReply::Refused, |()| DepotReply::Done))
}

fn claim(depot: &DepotState, server: ServerNumber) -> DepotReply {
    match depot.config.checkpoints.claim(server, None, &mut |text| (depot.config.note)(text)) {
        Ok(start) => {
            let Generation { number, base } = start.generation;
            DepotReply::Generation { number, base }
        }
        Err(error) => DepotReply::Refused(error.to_string()),
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
            Err(error) => return channel.send(&DepotReply::Refused(error.to_string()), 0),
        },
    };
    let Some(step) = found else { return channel.send(&DepotReply::Absent, 0) };
    let text = fs::read(checkpoints.place(step).join(Manifest::FILE))?;
    channel.send(&DepotReply::Body, text.len() as u64)?;
    channel.send_body(&mut &text[..], text.len() as u64)
}

/// Sends a file that the manifest of a step names, and no other.
fn send_shard(depot: &DepotState, channel: &mut Channel, step: u64, file: &str) -> io::Result<()> {
    let checkpoints = &depot.config.checkpoints;
    let is_named = |manifest: Manifest| manifest.shards.iter().any(|shard| shard.file == file);
    if !checkpoints.manifest(step).is_ok_and(is_named) {
        return channel.send(&DepotReply::Absent, 0);
    }
    let mut content = File::open(checkpoints.place(step).join(file))?;
    let bytes = content.metadata()?.len();
    channel.send(&DepotReply::Body, bytes)?;
    channel.send_body(&mut content.by_ref(), bytes)
}

fn receive_shard(
    depot: &DepotState,
    channel: &mut Channel,
    shard: DeliveredShard,
    body: u64,
) -> io::Result<DepotReply> {
    let checkpoints = &depot.config.checkpoints;
    if body != shard.bytes() {
        return Err(io::Error::new(ErrorKind::InvalidData, "a shard of another length"));
    }
    // A checkpoint of fewer shards would be complete without the others, and replace sound ones.
    if shard.shard_count() != depot.config.shards {
        return Err(io::Error::new(ErrorKind::InvalidData, "a shard of another run"));
    }
    let path = checkpoints.incoming(&shard)?;
    let received = File::create(&path).and_then(|mut file| channel.receive_body(&mut file, body));
    if let Err(error) = received {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    let kept = checkpoints.receive(shard, &path, depot.config.keep);
    Ok(kept.map_or_else(|error| DepotReply::Refused(error.to_string()), |()| DepotReply::Done))
}
