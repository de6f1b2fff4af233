//! Checkpoints on a disk: complete, damaged, written again, put aside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use paceline_exchange::{ChunkMarks, Generation, SlotMark};
use paceline_model::{Group, Layout};
use tempfile::TempDir;

use super::dir::CheckpointDir;
use super::error::CheckpointError;
use super::manifest::{CheckpointInfo, FORMAT, Manifest, PlanOrigin, TensorEntry, write_sealed};
use super::resume_point::ResumePoint;
use super::server_number::ServerNumber;
use super::step_layout::StepLayout;
use super::writer::{CheckpointSpec, CheckpointWriter};

fn checkpoint_dir(run: &Path) -> CheckpointDir {
    CheckpointDir::new(run.join("checkpoints"))
}

fn layout() -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[3, 2], Group::Weights);
    layout.push("bias", &[3], Group::Biases);
    layout
}

fn spec(run: &Path, index: usize, count: usize, keep: usize) -> CheckpointSpec {
    let layout = layout();
    let tensors = layout.tensors().iter();
    let info = CheckpointInfo {
        format: FORMAT,
        paceline: "0".into(),
        step: 0,
        mode: "sync".into(),
        seed: 1,
        slots: 1,
        batch: 10,
        common_step: true,
        origin: PlanOrigin::default(),
        job_digest: "0".into(),
        layout_digest: "0".into(),
        optimizer_state: vec!["momentum".into()],
        known_gradients: 0,
        tensors: tensors
            .map(|t| TensorEntry { name: t.name.clone(), shape: t.shape.clone() })
            .collect(),
        shard_count: count,
        is_spread: false,
        generation: 0,
    };
    let shard = paceline_exchange::shard_ranges(layout.len(), count)[index].clone();
    let name = format!("ps-{index}");
    CheckpointSpec { dir: checkpoint_dir(run), keep, info, layout, index, shard, name }
}

fn writer(run: &Path, index: usize, count: usize, keep: usize) -> CheckpointWriter {
    let spec = spec(run, index, count, keep);
    CheckpointWriter::start(spec, Arc::new(|report| assert!(report.is_ok(), "{report:?}"))).unwrap()
}

/// Has the servers write a checkpoint of each step, one server after the other.
fn write(run: &Path, servers: usize, steps: &[u64], keep: usize) {
    for index in 0..servers {
        let mut writer = writer(run, index, servers, keep);
        for &step in steps {
            let slots = vec![SlotMark { last_sequence: step, step: step - 1 }];
            let marks = vec![ChunkMarks { version: step, slots }];
            writer.take(step, marks, true, |out| out.fill(step as f32));
        }
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_checkpoint_is_complete_once_all_servers_have_written_theirs() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    let slots = vec![SlotMark::default()];
    let marks = vec![ChunkMarks { version: 7, slots }];
    for index in [2, 0, 1] {
        assert!(!dir.is_complete(7), "before server {index}");
        writer(run.path(), index, 3, 3).take(7, marks.clone(), true, |out| out.fill(0.5));
    }
    let checkpoint = dir.verify(7).unwrap();
    let shards = &checkpoint.manifest.shards;
    assert_eq!(shards.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(), [(0, 3), (3, 6), (6, 9)]);
    assert_eq!(files(&checkpoint.dir).len(), 4, "three shards and the manifest");
}

/// The marks of a step in which a slot has pushed so often.
fn marks(version: u64, last_sequence: u64) -> Vec<ChunkMarks> {
    vec![ChunkMarks { version, slots: vec![SlotMark { last_sequence, step: 0 }] }]
}

#[test]
fn a_step_is_written_once_more_if_a_mark_has_changed_and_only_then() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    let mut servers = [0, 1].map(|index| writer(run.path(), index, 2, 3));
    for writer in &mut servers {
        writer.take(7, marks(7, 7), true, |out| out.fill(0.5));
        writer.take(7, marks(7, 7), true, |_| panic!("nothing has changed"));
    }
    // Server 1 has got another push; server 0 has not, and has nothing to write.
    servers[0].take(7, marks(7, 7), true, |_| panic!("nothing has changed"));
    servers[1].take(7, marks(8, 8), true, |out| out.fill(0.25));
    drop(servers);
    let checkpoint = dir.verify(7).unwrap();
    let shards = &checkpoint.manifest.shards;
    assert_eq!(shards.iter().map(|s| s.chunks[0].version).collect::<Vec<_>>(), [7, 8]);
    let ends = [("ps-0.safetensors", 0.5f32), ("ps-1-2.safetensors", 0.25)];
    for (shard, (file, value)) in shards.iter().zip(ends) {
        let bytes = fs::read(checkpoint.dir.join(&shard.file)).unwrap();
        assert_eq!((&*shard.file, &bytes[bytes.len() - 4..]), (file, &value.to_le_bytes()[..]));
    }
    assert_eq!(files(&checkpoint.dir).len(), 3, "two shards and the manifest");
}

#[test]
fn a_complete_one_stays_sound_until_another_of_its_step_is() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 2, &[10], 3);
    let old = dir.verify(10).unwrap().manifest;
    for index in 0..3 {
        assert_eq!(dir.verify(10).unwrap().manifest, old, "before server {index}");
        writer(run.path(), index, 3, 3).take(10, marks(10, 3), true, |out| out.fill(0.5));
    }
    let checkpoint = dir.verify(10).unwrap();
    assert_eq!(checkpoint.manifest.shards.len(), 3);
    assert_eq!(files(&checkpoint.dir).len(), 4, "three shards and the manifest");
}

#[test]
fn old_ones_go_only_when_enough_newer_ones_are_complete() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10, 20, 30, 40], 2);
    assert_eq!(dir.steps(), [40, 30]);
    // One that is begun and not complete makes none go.
    let mut half = writer(run.path(), 0, 2, 2);
    half.take(50, Vec::new(), true, |out| out.fill(0.0));
    drop(half);
    assert_eq!(dir.steps(), [50, 40, 30]);
    assert_eq!(dir.newest(&mut |_| {}).unwrap().manifest.info.step, 40);
    // It goes when later ones are.
    write(run.path(), 1, &[60, 70], 2);
    assert_eq!(dir.steps(), [70, 60]);
}

#[test]
fn damage_anywhere_is_found_and_named_and_the_older_one_is_used() {
    for servers in [1, 2] {
        let run = TempDir::new().unwrap();
        let dir = checkpoint_dir(run.path());
        write(run.path(), servers, &[10, 20], 3);
        for file in files(&dir.place(20)) {
            let whole = fs::read(&file).unwrap();
            let name = file.file_name().unwrap().to_str().unwrap();
            let check = |bytes: &[u8], what: &str| {
                fs::write(&file, bytes).unwrap();
                let why = dir.verify(20).unwrap_err();
                assert!(why.contains(name), "{what}: {why}");
            };
            for len in (0..whole.len()).step_by(7) {
                check(&whole[..len], &format!("{name} cut to {len}"));
            }
            for at in (0..whole.len()).step_by(5) {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                check(&bytes, &format!("{name} changed at {at}"));
            }
            let mut said = Vec::new();
            let older = dir.newest(&mut |text| said.push(text.to_owned())).unwrap();
            assert_eq!(older.manifest.info.step, 10);
            assert!(said.len() == 1 && said[0].contains("step 20"), "{said:?}");
            fs::remove_file(&file).unwrap();
            assert!(dir.verify(20).is_err(), "{name} is gone");
            fs::write(&file, &whole).unwrap();
            assert!(dir.verify(20).is_ok());
        }
    }
}

#[test]
fn what_is_newer_is_put_aside_and_not_lost() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    for _ in 0..2 {
        write(run.path(), 1, &[10, 20, 30], 5);
        dir.set_aside_after(10).unwrap();
        assert_eq!(dir.steps(), [10]);
    }
    assert_eq!(files(&run.path().join("checkpoints")).len(), 5);
}

#[test]
fn a_damaged_count_of_generations_is_named_and_can_be_deleted() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10], 3);
    let (server, warn) = (ServerNumber { index: 0, count: 1 }, &mut |_: &str| ());
    assert_eq!(dir.claim(server, None, warn).unwrap().generation.base, Some(10));
    let file = run.path().join("checkpoints/generation.json");
    for damage in ["", "{\"x", "{\"generation\": 4611686018427387904}"] {
        fs::write(&file, damage).unwrap();
        let error = dir.claim(server, None, warn).unwrap_err().to_string();
        assert!(error.contains(file.to_str().unwrap()), "{error}");
        assert!(error.contains("delete it"), "{error}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(dir.claim(server, None, warn).unwrap().generation.base, Some(10));
}

#[test]
fn a_pipe_in_place_of_the_lock_of_generations_is_not_waited_for() {
    let run = TempDir::new().unwrap();
    let lock = run.path().join("checkpoints/generation.lock");
    fs::create_dir(lock.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let server = ServerNumber { index: 0, count: 1 };
    let error = checkpoint_dir(run.path()).claim(server, None, &mut |_| ()).unwrap_err();
    let CheckpointError::Io { source, .. } = error else { panic!("{error}") };
    assert!(source.to_string().contains("a pipe or a device"), "{source}");
}

#[test]
fn a_count_of_generations_that_cannot_rise_is_damaged() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10], 3);
    let (server, warn) = (ServerNumber { index: 0, count: 1 }, &mut |_: &str| ());
    dir.claim(server, None, warn).unwrap();
    let file = run.path().join("checkpoints/generation.json");
    let last = serde_json::json!({
        "generation": u64::MAX, "base": 10, "servers": 1, "entered": [0]
    });
    write_sealed(&file, "test", &last).unwrap();
    let error = dir.claim(server, None, warn).unwrap_err().to_string();
    assert!(error.contains("delete it"), "{error}");
    assert_eq!(dir.generation(), u64::MAX, "the record is as it was");
}

#[test]
fn a_manifest_with_numbers_that_cannot_be_is_refused_before_memory_is_set_aside_for_them() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10], 3);
    let sound = dir.verify(10).unwrap().manifest;
    let path = dir.place(10).join(Manifest::FILE);
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = sound.clone();
        change(&mut manifest);
        write_sealed(&path, "test", &manifest).unwrap();
        let steps = StepLayout { slots: 1, batch: 10, common_step: true };
        match dir.verify(10) {
            Err(why) => assert!(why.starts_with("manifest.json: "), "{why}"),
            Ok(checkpoint) => panic!("at {}", ResumePoint::new(checkpoint, steps).position()),
        }
    };
    refused(&|manifest| {
        // No chunk says how many slots there are.
        manifest.shards[0].chunks.clear();
        manifest.info.slots = 1 << 50;
    });
    refused(&|manifest| manifest.shards[0].entries = Some(1 << 50));
    refused(&|manifest| manifest.shards[0].counted = 1 << 50);
    refused(&|manifest| manifest.info.tensors[0].shape = vec![usize::MAX; 3]);
    refused(&|manifest| {
        manifest.info.tensors[0].shape = vec![usize::MAX];
        manifest.info.tensors[1].shape = vec![10];
    });
    write_sealed(&path, "test", &sound).unwrap();
    assert!(dir.verify(10).is_ok());
}

#[test]
fn a_manifest_of_another_step_or_with_files_elsewhere_is_refused() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10], 3);
    let sound = dir.manifest(10).unwrap();
    fs::copy(dir.place(10).join(&sound.shards[0].file), run.path().join("elsewhere")).unwrap();
    for file in ["../../elsewhere", run.path().join("elsewhere").to_str().unwrap(), "\x1b[31m"] {
        let mut manifest = sound.clone();
        manifest.shards[0].file = file.into();
        write_sealed(&dir.place(10).join(Manifest::FILE), "test", &manifest).unwrap();
        for why in [dir.manifest(10).unwrap_err(), dir.verify(10).unwrap_err()] {
            assert!(why.contains("is not the name of a file") && !why.contains('\x1b'), "{why}");
        }
    }
    let mut manifest = sound;
    manifest.info.step = 11;
    write_sealed(&dir.place(10).join(Manifest::FILE), "test", &manifest).unwrap();
    assert_eq!(dir.verify(10).unwrap_err(), "manifest.json: it is of step 11");
}

#[test]
fn a_generation_counts_only_if_the_record_has_it_and_its_checkpoint_is_there() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10], 3);
    let (server, warn) = (ServerNumber { index: 0, count: 2 }, &mut |_: &str| ());
    let claimed = dir.claim(server, None, warn).unwrap().generation;
    assert!(dir.knows(claimed));
    let far = Generation { number: 1 << 62, base: None };
    let elsewhere = Generation { base: Some(11), ..claimed };
    for false_one in [far, elsewhere, Generation { base: None, ..claimed }] {
        assert!(!dir.knows(false_one), "{false_one:?}");
        let other = ServerNumber { index: 1, count: 2 };
        let error = dir.follow(other, false_one).unwrap_err().to_string();
        assert!(error.contains("the run's record has no generation"), "{error}");
    }
    assert_eq!(dir.generation(), claimed.number, "the record is as it was");
}

#[test]
fn skipped_checkpoints_are_reported_once_and_counted_at_the_end() {
    let run = TempDir::new().unwrap();
    let (reports, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
    let (theirs, slow) = (reports.clone(), gate.clone());
    let report = move |report: Result<&str, &str>| match report {
        // The copy is free again only after this.
        Ok(_) => drop(slow.lock().unwrap()),
        Err(text) => theirs.lock().unwrap().push(text.to_owned()),
    };
    let mut writer = CheckpointWriter::start(spec(run.path(), 0, 1, 3), Arc::new(report)).unwrap();
    let held = gate.lock().unwrap();
    for step in 1..=5 {
        let marks = vec![ChunkMarks { version: step, slots: vec![SlotMark::default()] }];
        assert_eq!(writer.take(step, marks, false, |out| out.fill(1.0)), step == 1);
    }
    drop(held);
    drop(writer);
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports[0].contains("step 2 was skipped"), "{reports:?}");
    assert!(reports[1].contains("3 more checkpoints were skipped"), "{reports:?}");
}

#[test]
fn a_checkpoint_with_numbers_that_are_not_finite_is_not_written_and_not_sound() {
    let run = TempDir::new().unwrap();
    let dir = checkpoint_dir(run.path());
    write(run.path(), 1, &[10], 3);
    let marks = || vec![ChunkMarks { version: 20, slots: vec![SlotMark::default()] }];
    let reports = Arc::new(Mutex::new(Vec::new()));
    let theirs = reports.clone();
    let report = move |report: Result<&str, &str>| {
        theirs.lock().unwrap().push(report.map(String::from).map_err(String::from));
    };
    let spec = spec(run.path(), 0, 1, 3);
    let mut writer = CheckpointWriter::start(spec, Arc::new(report)).unwrap();
    writer.take(20, marks(), true, |out| {
        out.fill(1.0);
        out[5] = f32::NAN;
    });
    drop(writer);
    let reports = reports.lock().unwrap();
    assert!(reports[0].as_ref().unwrap_err().contains("not all finite"), "{reports:?}");
    assert_eq!(dir.newest(&mut |_| ()).unwrap().manifest.info.step, 10);

    // One that an earlier version has written is passed over.
    write(run.path(), 1, &[30], 3);
    damage_values(&dir, 30);
    let mut skipped = Vec::new();
    let newest = dir.newest(&mut |why| skipped.push(why.to_owned())).unwrap();
    assert_eq!(newest.manifest.info.step, 10);
    assert!(skipped[0].contains("not finite"), "{skipped:?}");
}

/// Makes a number of a checkpoint infinite, with a checksum that agrees.
fn damage_values(dir: &CheckpointDir, step: u64) {
    let mut manifest = dir.manifest(step).unwrap();
    let path = dir.place(step).join(&manifest.shards[0].file);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    manifest.shards[0].crc32c = format!("{:08x}", crc32c::crc32c(&bytes));
    write_sealed(&dir.place(step).join(Manifest::FILE), "test", &manifest).unwrap();
}
