//! Meetings over real sockets: every process is a thread.

use std::io::Write;
use std::sync::atomic::AtomicI32;
use std::time::Instant;

use paceline_trust::{Authority, CA_FILE, CertificateFiles};

use super::*;
use crate::placement::{PlaceFlags, Placement, Variables};

/// A process's surroundings in a test.
#[derive(Default)]
struct TestSurroundings {
    waits: Mutex<Vec<String>>,
    signal: AtomicI32,
}

impl MeetingHooks for TestSurroundings {
    fn waiting(&self, text: Option<&str>) {
        self.waits.lock().unwrap().extend(text.map(String::from));
    }

    fn stop_signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}

const NO_SERVERS: RoleSettings = RoleSettings { servers: 0, dedicated: false };

fn place(rank: usize, size: usize, meet: Option<String>) -> RankedPlace {
    let flags = PlaceFlags { local: false, rank: Some(rank), size: Some(size), meet };
    match Placement::find(&flags, &Variables::default(), 1).unwrap() {
        Placement::Ranked(place) => *place,
        other => panic!("{other:?}"),
    }
}

fn settings<'a>(place: &'a RankedPlace, roles: RoleSettings) -> MeetingSettings<'a> {
    MeetingSettings {
        place,
        roles,
        secret: Some("secret"),
        tls: None,
        dir: None,
        run: None,
        version: "1.0",
        job: &[],
        timeout: Duration::from_secs(20),
    }
}

/// Lets processes with these settings meet, each with its own surroundings.
fn meet_all(all: &[MeetingSettings<'_>]) -> Vec<Result<Option<Meeting>, PlaceError>> {
    let meet = |settings: MeetingSettings<'_>| settings.meet(&TestSurroundings::default());
    thread::scope(|scope| {
        let threads: Vec<_> = all.iter().map(|settings| scope.spawn(|| meet(*settings))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn free_port(ip: &str) -> Option<u16> {
    let listener = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), 0)).ok()?;
    Some(listener.local_addr().unwrap().port())
}

#[test]
fn processes_meet_at_a_stated_address_over_ipv4_and_ipv6() {
    for ip in ["127.0.0.1", "::1"] {
        let Some(port) = free_port(ip) else { continue };
        let at = if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
        // Rank 0 is the last: the others wait for it.
        let places = [2, 1, 0].map(|rank| place(rank, 3, Some(at.clone())));
        let all = places.each_ref().map(|place| settings(place, NO_SERVERS));
        let meetings: Vec<_> =
            meet_all(&all).into_iter().map(|met| met.unwrap().unwrap()).collect();
        for (meeting, rank) in meetings.iter().zip([2, 1, 0]) {
            assert_eq!(meeting.cluster.task, Task { role: Role::Worker, index: rank });
            assert_eq!(meeting.cluster.addresses, meetings[0].cluster.addresses);
            assert_eq!(meeting.token, "secret");
            let listener = meeting.listener.as_ref().unwrap();
            let own = listener.local_addr().unwrap().to_string();
            assert_eq!(meeting.cluster.addresses[&meeting.cluster.task], own);
        }
        assert_eq!(meetings[0].cluster.workers_here(), 3);
    }
}

#[test]
fn processes_meet_through_a_file_and_rank_0_makes_the_secret() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let places = [0, 1, 2].map(|rank| place(rank, 3, None));
    let roles = RoleSettings { servers: 2, dedicated: false };
    let start = AgreedRun { dir: run.clone(), checkpoint: Some(7), is_finished: false };
    let all = places.each_ref().map(|place| MeetingSettings {
        secret: None,
        dir: Some(run.as_path()),
        run: (place.rank == 0).then_some(&start),
        ..settings(place, roles)
    });
    let meetings: Vec<_> = meet_all(&all).into_iter().map(|met| met.unwrap().unwrap()).collect();
    assert_eq!(meetings[1].token, meetings[0].token);
    assert_eq!(meetings[0].token.len(), 32);
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 0, "the file is gone");
    // All are on one machine, so rank 0 runs both servers.
    let servers: Vec<_> = meetings.iter().map(|meeting| meeting.servers.len()).collect();
    assert_eq!(servers, [2, 0, 0]);
    assert!(meetings.iter().all(|meeting| meeting.listener.is_none()));
    for (task, listener) in &meetings[0].servers {
        let port = listener.local_addr().unwrap().port();
        let address = &meetings[2].cluster.addresses[task];
        assert!(address.ends_with(&format!(":{port}")), "{task} at {address}, port {port}");
        assert_eq!(meetings[2].ranks[task], 0);
    }
    assert_eq!(meetings[2].run, Some(start));
}

#[test]
fn a_file_of_an_earlier_start_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = MeetingPoint {
        session: String::new(),
        secret: "old".into(),
        machine: machine(),
        addresses: Vec::new(),
        // Discards what it receives, and says nothing.
        local_addresses: vec![format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap())],
    };
    let _file = MeetingFile::create(dir.path(), &earlier).unwrap().unwrap();
    let places = [1, 0].map(|rank| place(rank, 2, None));
    let all = places.each_ref().map(|place| MeetingSettings {
        secret: None,
        dir: Some(dir.path()),
        ..settings(place, NO_SERVERS)
    });
    assert!(meet_all(&all).iter().all(Result::is_ok));
}

#[test]
fn a_process_that_only_holds_the_meeting_is_no_task() {
    let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let held = RankedPlace { part: MeetingPart::Holds, rank: 3, ..place(0, 3, Some(at.clone())) };
    let joins = [0, 1, 2]
        .map(|rank| RankedPlace { part: MeetingPart::Joins, ..place(rank, 3, Some(at.clone())) });
    let roles = RoleSettings { servers: 1, dedicated: true };
    let all: Vec<_> = joins.iter().chain([&held]).map(|place| settings(place, roles)).collect();
    let met = meet_all(&all);
    assert!(matches!(met[3], Ok(None)));
    let tasks: Vec<_> =
        met[..3].iter().flatten().flatten().map(|met| met.cluster.task.to_string()).collect();
    assert_eq!(tasks, ["worker:0", "worker:1", "ps:0"]);
}

#[test]
fn missing_tasks_are_named_while_others_wait_and_when_the_time_is_up() {
    let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let mut holder = place(0, 3, Some(at.clone()));
    holder.hosts = Some(["a", "b", "c"].map(String::from).to_vec());
    let other = place(1, 3, Some(at));
    let short = Duration::from_millis(2_500);
    let [first, second] = [&holder, &other]
        .map(|place| MeetingSettings { timeout: short, ..settings(place, NO_SERVERS) });
    let hooks = [TestSurroundings::default(), TestSurroundings::default()];
    let started = Instant::now();
    let errors = thread::scope(|scope| {
        let held = scope.spawn(|| first.meet(&hooks[0]));
        let joined = second.meet(&hooks[1]);
        [held.join().unwrap(), joined].map(|met| met.unwrap_err())
    });
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    for error in errors {
        assert!(matches!(error, PlaceError::Lost(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("within 2.5 s: waiting for worker:2 on host c"), "{text}");
    }
    let waits = hooks[1].waits.lock().unwrap();
    assert!(waits.contains(&"waiting for worker:2 on host c, never connected".into()), "{waits:?}");
}

#[test]
fn a_process_with_another_job_version_or_rank_is_refused_at_once() {
    let job = ["seed = 1", "train.batch = 10"].map(String::from);
    let other_job = ["seed = 1", "train.batch = 20"].map(String::from);
    // Keys that stand at the same place of both lists need not be the same.
    let longer_job = ["seed = 1", "model.factors = 8", "train.batch = 10"].map(String::from);
    let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let [zero, one] = [0, 1].map(|rank| place(rank, 3, Some(at.clone())));
    let four = place(1, 4, Some(at.clone()));
    let second_zero = RankedPlace { part: MeetingPart::Joins, ..zero.clone() };
    let with = |place, job| MeetingSettings { job, ..settings(place, NO_SERVERS) };
    let hooks = TestSurroundings::default();
    thread::scope(|scope| {
        let held = scope.spawn(|| with(&zero, &job).meet(&hooks));
        for (wrong, parts) in [
            (
                with(&one, &other_job),
                &["rank 1 on host", "train.batch is 10 at the holder", "and 20 at rank 1"][..],
            ),
            (with(&one, &longer_job), &["model.factors is not set at the holder", "and 8 at"]),
            (with(&four, &job), &["one of 4 processes", "of 3"]),
            (MeetingSettings { version: "0.9", ..with(&one, &job) }, &["0.9", "1.0"]),
            (with(&second_zero, &job), &["rank 0"]),
        ] {
            let started = Instant::now();
            let error = wrong.meet(&TestSurroundings::default()).unwrap_err();
            assert!(matches!(error, PlaceError::Usage(_)), "{error}");
            assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
            let text = error.to_string();
            parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        }
        // A signal ends the wait.
        hooks.signal.store(15, Ordering::Relaxed);
        let error = held.join().unwrap().unwrap_err();
        assert!(matches!(error, PlaceError::Interrupted { signal: 15, .. }), "{error}");
    });
}

#[test]
fn a_refused_process_with_a_long_name_neither_floods_nor_silences_the_others() {
    let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let [zero, one] = [0, 1].map(|rank| place(rank, 3, Some(at.clone())));
    let hooks = [TestSurroundings::default(), TestSurroundings::default()];
    let long = |letter: &str| RankedPlace {
        host: Some(letter.repeat(400_000)),
        ..place(1, 4, Some(at.clone()))
    };
    thread::scope(|scope| {
        scope.spawn(|| settings(&zero, NO_SERVERS).meet(&hooks[0]));
        scope.spawn(|| settings(&one, NO_SERVERS).meet(&hooks[1]));
        for letter in ["a", "b", "c", "d"] {
            let refused = settings(&long(letter), NO_SERVERS).meet(&TestSurroundings::default());
            assert!(refused.unwrap_err().to_string().len() < 2_000);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        let heard = || hooks[1].waits.lock().unwrap().iter().any(|text| text.contains("refused"));
        while !heard() && Instant::now() < deadline {
            thread::yield_now();
        }
        hooks.iter().for_each(|hooks| hooks.signal.store(15, Ordering::Relaxed));
        assert!(heard(), "it does not hear what is missing");
    });
    let waits = hooks[1].waits.lock().unwrap();
    let longest = waits.iter().map(String::len).max();
    assert!(longest < Some(5_000), "{longest:?}");
}

#[test]
fn of_two_processes_with_rank_0_one_holds_the_meeting_and_the_other_names_both() {
    let dir = tempfile::tempdir().unwrap();
    let zero = place(0, 2, None);
    let with = MeetingSettings { dir: Some(dir.path()), ..settings(&zero, NO_SERVERS) };
    let hooks = [TestSurroundings::default(), TestSurroundings::default()];
    let started = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> =
            hooks.iter().map(|hooks| scope.spawn(move || with.meet(hooks))).collect();
        // Either of them may be the first.
        let is_refused = |at: &usize| threads[*at].is_finished();
        let refused = loop {
            assert!(started.elapsed() < Duration::from_secs(10), "both hold the meeting");
            match (0..2).find(is_refused) {
                Some(at) => break at,
                None => thread::yield_now(),
            }
        };
        assert!(with.check_alone(&hooks[refused]).is_err());
        hooks[1 - refused].signal.store(15, Ordering::Relaxed);
        for (at, thread) in threads.into_iter().enumerate() {
            let error = thread.join().unwrap().unwrap_err();
            let text = error.to_string();
            assert_eq!(matches!(error, PlaceError::Usage(_)), at == refused, "{text}");
            let says_both = text.contains("two processes have the same rank: rank 0 on host");
            assert_eq!(says_both, at == refused, "{text}");
        }
    });
}

#[test]
fn a_process_with_another_secret_is_not_let_in_and_delays_none() {
    let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let places = [0, 1].map(|rank| place(rank, 2, Some(at.clone())));
    let intruder = MeetingSettings { secret: Some("guess"), ..settings(&places[1], NO_SERVERS) };
    let hooks = TestSurroundings::default();
    thread::scope(|scope| {
        let held = scope.spawn(|| settings(&places[0], NO_SERVERS).meet(&hooks));
        let started = Instant::now();
        let error = intruder.meet(&TestSurroundings::default()).unwrap_err();
        assert!(matches!(error, PlaceError::Usage(_)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        let text = error.to_string();
        for part in ["rank 1 on host", &format!("rank 0 at {at}"), "different secrets"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The holder names the other side too.
        while !hooks.waits.lock().unwrap().iter().any(|wait| wait.contains("at 127.0.0.1, which")) {
            assert!(started.elapsed() < Duration::from_secs(10), "{:?}", hooks.waits);
            thread::yield_now();
        }
        let silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(&at)).collect();
        assert!(settings(&places[1], NO_SERVERS).meet(&TestSurroundings::default()).is_ok());
        assert!(held.join().unwrap().is_ok());
        drop(silent);
    });
}

#[test]
fn a_stranger_that_says_one_byte_after_another_does_not_delay_the_start() {
    let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let places = [0, 1].map(|rank| place(rank, 2, Some(at.clone())));
    thread::scope(|scope| {
        let held =
            scope.spawn(|| settings(&places[0], NO_SERVERS).meet(&TestSurroundings::default()));
        let mut stream = loop {
            match std::net::TcpStream::connect(&at) {
                Ok(stream) => break stream,
                Err(_) => thread::yield_now(),
            }
        };
        stream.write_all(b"P").unwrap();
        // Until it is closed, which ends the loop.
        scope.spawn(move || {
            while stream.write_all(b"A").is_ok() {
                thread::sleep(Duration::from_millis(500));
            }
        });
        let started = Instant::now();
        assert!(settings(&places[1], NO_SERVERS).meet(&TestSurroundings::default()).is_ok());
        assert!(held.join().unwrap().is_ok());
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    });
}

#[test]
fn processes_that_cannot_find_each_other_are_refused_before_they_wait() {
    let alone = place(1, 2, None);
    let error = settings(&alone, NO_SERVERS).meet(&TestSurroundings::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("--run-dir") && text.contains("PACELINE_TOKEN"), "{text}");
}

#[test]
fn with_certificates_each_process_is_the_task_that_its_own_states() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["worker:0", "worker:1", "worker:2"].map(String::from);
    Authority::of_run().unwrap().write(dir.path(), &names).unwrap();
    let identities = names.each_ref().map(|name| {
        let CertificateFiles { cert, key } = CertificateFiles::of(dir.path(), name);
        TlsIdentity::read(&dir.path().join(CA_FILE), &cert, &key).unwrap()
    });
    let meet = |identities: [&TlsIdentity; 2]| {
        let at = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
        let places = [0, 1].map(|rank| place(rank, 2, Some(at.clone())));
        let all = [0, 1].map(|rank| MeetingSettings {
            tls: Some(identities[rank]),
            timeout: Duration::from_secs(2),
            ..settings(&places[rank], NO_SERVERS)
        });
        meet_all(&all).into_iter().map(|met| met.map_err(|error| error.to_string())).collect()
    };
    let met: Vec<Result<_, _>> = meet([&identities[0], &identities[1]]);
    assert!(met.iter().all(Result::is_ok), "{met:?}");
    let met: Vec<Result<_, _>> = meet([&identities[0], &identities[2]]);
    let error = met[1].as_ref().unwrap_err();
    assert!(error.contains("is not worker:1's"), "{error}");
}
