//! The meeting of processes: what its holder hears of a guest, and a guest of the holder. Both know
//! the secret.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use paceline_place::{
    Meeting, MeetingHooks, MeetingPart, MeetingSettings, PlaceError, PlaceFlags, Placement,
    RoleSettings, Variables,
};
use paceline_trust::{MessageChannel, Service};

use crate::foreign_threads::check_threads;
use crate::peer_pool::{Peer, PeerPool, PeerReply, SECRET, answer_peers, credentials};

const SIZE: usize = 3;
const ROLES: RoleSettings = RoleSettings { servers: 2, dedicated: false };
/// Guests that stay, so that a meeting can become complete.
const STAYING: usize = 6;
/// The longest message.
const MOST_BYTES: usize = 1 << 20;

/// Waits for nothing, and was asked to end if it has a signal.
struct Surroundings(Option<i32>);

impl MeetingHooks for Surroundings {
    fn waiting(&self, _: Option<&str>) {}

    fn stop_signal(&self) -> Option<i32> {
        self.0
    }
}

fn meet(
    address: SocketAddr,
    part: MeetingPart,
    rank: usize,
    signal: Option<i32>,
) -> Result<Option<Meeting>, PlaceError> {
    let meet = Some(address.to_string());
    let flags = PlaceFlags { local: false, rank: Some(0), size: Some(SIZE), meet };
    let Ok(Placement::Ranked(mut place)) = Placement::find(&flags, &Variables::default(), 1) else {
        unreachable!("a rank and a size")
    };
    (place.part, place.rank) = (part, rank);
    let settings = MeetingSettings {
        place: &place,
        roles: ROLES,
        secret: Some(SECRET),
        tls: None,
        dir: None,
        run: None,
        version: "1.0",
        job: &["train.batch = 10".to_owned(), "seed = 1".to_owned()],
        timeout: Duration::from_secs(600),
    };
    settings.meet(&Surroundings(signal))
}

/// A meeting that begins again whenever it is over.
struct HeldMeetings {
    peers: PeerPool,
    staying: VecDeque<Peer>,
}

thread_local! {
    static HELD: RefCell<Option<HeldMeetings>> = const { RefCell::new(None) };
    static HOLDER: RefCell<Option<FalseHolder>> = const { RefCell::new(None) };
}

impl HeldMeetings {
    fn start() -> Self {
        let address = free_address();
        thread::spawn(move || {
            loop {
                let _ = meet(address, MeetingPart::Holds, SIZE, None);
            }
        });
        while TcpStream::connect(address).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        Self { peers: PeerPool::new(address, Service::Meeting), staying: VecDeque::new() }
    }
}

fn free_address() -> SocketAddr {
    let found = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    found.expect("a free port")
}

/// How a process introduces itself.
pub(crate) fn meeting(bytes: &[u8]) {
    HELD.with_borrow_mut(|held| {
        let held = held.get_or_insert_with(HeldMeetings::start);
        // A meeting that is over closes all connections.
        let mut taken = held.peers.take();
        for _ in 0..1_000 {
            if taken.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
            taken = held.peers.take();
        }
        let mut peer = taken.expect("the holder accepts a process of the run");
        if peer.send(&[bytes]).is_ok() {
            held.staying.push_back(peer);
        }
        if held.staying.len() > STAYING {
            held.staying.pop_front();
        }
        check_threads();
    });
}

/// The introductions of all processes.
pub(crate) fn meeting_seeds() -> Vec<Vec<u8>> {
    (0..SIZE).filter_map(introduction).collect()
}

/// What a process says at a meeting.
fn introduction(rank: usize) -> Option<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let mut introduction = None;
    thread::scope(|scope| {
        let guest = scope.spawn(move || meet(address, MeetingPart::Joins, rank, Some(15)));
        let answer = |message: &[u8]| {
            introduction = Some(message.to_vec());
            PeerReply::Close
        };
        answer_peers(&listener, Service::Meeting, 1, answer);
        let _ = guest.join();
    });
    introduction
}

/// A holder that says what an input has.
struct FalseHolder {
    address: SocketAddr,
    say: SyncSender<Vec<u8>>,
}

impl FalseHolder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let (say, said) = sync_channel::<Vec<u8>>(1);
        thread::spawn(move || speak(&listener, &said));
        Self { address, say }
    }
}

fn speak(listener: &TcpListener, said: &Receiver<Vec<u8>>) {
    while let Ok((stream, _)) = listener.accept() {
        let channel = MessageChannel::accept(stream, &credentials(), Service::Meeting);
        let (Ok(mut channel), Ok(message)) = (channel, said.recv()) else { return };
        if let Ok(Some(_)) = channel.receive(MOST_BYTES) {
            let _ = channel.send(&[&message]);
        }
    }
}

/// What a guest hears.
pub(crate) fn guest(bytes: &[u8]) {
    HOLDER.with_borrow_mut(|holder| {
        let holder = holder.get_or_insert_with(FalseHolder::start);
        holder.say.send(bytes.to_vec()).expect("the other thread waits for it");
        let _ = meet(holder.address, MeetingPart::Joins, 1, Some(15));
        check_threads();
    });
}

/// What the holder of a meeting says to processes that wait, that it refuses and that it takes.
pub(crate) fn guest_seeds() -> Vec<Vec<u8>> {
    let address = free_address();
    let introductions = meeting_seeds();
    let Some((last, others)) = introductions.split_last() else { return Vec::new() };
    thread::scope(|scope| {
        scope.spawn(move || meet(address, MeetingPart::Holds, SIZE, None));
        while TcpStream::connect(address).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        let mut peers = PeerPool::new(address, Service::Meeting);
        let mut introduce = |introduction: &Vec<u8>| {
            let mut peer = peers.take().ok()?;
            peer.send(&[introduction]).ok()?;
            Some(peer)
        };
        let hear = |peer: &mut Peer| peer.receive(MOST_BYTES).ok()?.map(<[u8]>::to_vec);
        // Who hears what is missing has a place. Another process with its rank is refused.
        let mut waiting: Vec<Peer> = others.iter().filter_map(&mut introduce).collect();
        let mut seeds: Vec<_> = waiting.iter_mut().filter_map(hear).collect();
        let refused = others.last().and_then(&mut introduce);
        seeds.extend(refused.and_then(|mut peer| hear(&mut peer)));
        let taken = introduce(last);
        seeds.extend(taken.and_then(|mut peer| hear(&mut peer)));
        drop(peers);
        seeds
    })
}
