//! Frames and payloads: what is written is read back, and rubbish is refused, never believed.

use crate::*;
use proptest::prelude::*;

fn kinds() -> impl Strategy<Value = FrameKind> {
    proptest::sample::select(FrameKind::ALL.to_vec())
}

proptest! {
    #[test]
    fn a_header_survives_the_wire(
        kind in kinds(), len in 0usize..CHUNK_BYTES, chunk: u32, count: u32, numbers: [u64; 3],
    ) {
        let mut header = Header::new(kind, len.min(kind.max_payload_bytes()) / 4 * 4);
        (header.chunk, header.count) = (chunk, count);
        [header.step, header.version, header.sequence] = numbers;
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn random_bytes_never_panic(bytes: [u8; HEADER_BYTES], kind in kinds()) {
        let _ = Header::decode(&bytes);
        let mut likelier = bytes;
        likelier[..4].copy_from_slice(&[kind as u8, 0, 0, 0]);
        if let Ok(header) = Header::decode(&likelier) {
            prop_assert!(header.len as usize <= kind.max_payload_bytes());
            prop_assert_eq!(header.encode(), likelier);
        }
    }

    #[test]
    fn random_payloads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Hello::decode(&bytes), Welcome::decode(&bytes), Refusal::decode(&bytes));
        let _ = TaskReport::decode_list(&bytes);
        let version = PROTOCOL_VERSION.to_le_bytes();
        let likelier = [&b"PACE"[..], &version, &[0], &bytes].concat();
        if let Ok(hello) = Hello::decode(&likelier) {
            prop_assert_eq!(hello.encode(), likelier);
        }
    }

    #[test]
    fn a_hello_survives_the_wire(
        is_worker: bool, is_rounded: bool, slot: u32, incarnation: u64, digests: [[u8; 32]; 2],
        server: u32, servers: u32,
        cut in 1usize..80,
        (id, name) in (any::<u64>(), "[a-z0-9:._-]{0,64}"),
        keys in "[a-z.]{0,20}( = [0-9]{0,9}\n)?",
        number: u64, base in proptest::option::of(0..u64::MAX),
    ) {
        let role = if is_worker { PeerRole::Worker } else { PeerRole::Evaluator };
        let wire = if is_rounded { WireFormat::Bf16 } else { WireFormat::F32 };
        let [digest, layout_digest] = digests;
        let job = JobIdentity { digest, keys: keys.into() };
        let version = PROTOCOL_VERSION;
        let hello = Hello {
            version, role, wire, slot, incarnation, job, layout_digest, server, servers,
            process: ProcessName { id, name },
            generation: Generation { number, base },
        };
        let bytes = hello.encode();
        prop_assert_eq!(Hello::decode(&bytes), Ok(hello));
        prop_assert!(Hello::decode(&bytes[..bytes.len() - cut]).is_err());
    }

    #[test]
    fn reports_survive_the_wire(
        list in proptest::collection::vec((0u32..1000, "[a-z]{0,50}"), 0..10)
    ) {
        let slot = |slot: u32| (slot != 0).then_some(slot);
        let report = |(number, text): (u32, String)| {
            TaskReport { slot: slot(number), bytes: text.into() }
        };
        let reports: Vec<_> = list.into_iter().map(report).collect();
        prop_assert_eq!(TaskReport::decode_list(&TaskReport::encode_list(&reports)), Ok(reports));
    }
}

/// Changes one byte of a good header and gives what decoding says.
fn with_byte(kind: FrameKind, at: usize, value: u8) -> Result<Header, FrameError> {
    let mut bytes = Header::new(kind, 0).encode();
    bytes[at] = value;
    Header::decode(&bytes)
}

#[test]
fn each_kind_has_its_flags() {
    let flags = |kind| (0..=255).filter(move |&bits| with_byte(kind, 1, bits).is_ok());
    assert!(flags(FrameKind::PullKeys).eq([0, 8, 64, 72]));
    assert!(flags(FrameKind::Pull).eq([0, 8]));
    assert!(flags(FrameKind::Values).eq([0, 1, 2, 3]));
    assert!(flags(FrameKind::PushKeys).eq([0]));
}

#[test]
fn limits_are_kept_to() {
    assert_eq!(with_byte(FrameKind::Heartbeat, 0, 99), Err(FrameError::UnknownKind(99)));
    assert_eq!(with_byte(FrameKind::Heartbeat, 2, 1), Err(FrameError::Reserved));
    assert_eq!(
        with_byte(FrameKind::Push, 1, 1),
        Err(FrameError::Flags { kind: FrameKind::Push, flags: 1 })
    );
    assert_eq!(
        with_byte(FrameKind::Push, 4, 3),
        Err(FrameError::Length { kind: FrameKind::Push, len: 3 })
    );
    assert_eq!(
        with_byte(FrameKind::Pull, 4, 4),
        Err(FrameError::Length { kind: FrameKind::Pull, len: 4 })
    );
    let values = FrameError::Length { kind: FrameKind::Values, len: 3 };
    assert_eq!(with_byte(FrameKind::Values, 4, 3), Err(values));
    // A gradient is followed by keys, which may end anywhere.
    assert!(with_byte(FrameKind::PushKeys, 4, 3).is_ok());
    let limits = [
        (FrameKind::Push, CHUNK_BYTES),
        (FrameKind::PushKeys, SPARSE_BYTES),
        (FrameKind::PullKeys, SPARSE_BYTES),
        (FrameKind::Values, SPARSE_BYTES),
        (FrameKind::Hello, HELLO_BYTES),
        (FrameKind::Leave, CONTROL_BYTES),
    ];
    for (kind, most) in limits {
        let mut bytes = Header::new(kind, most).encode();
        assert!(Header::decode(&bytes).is_ok());
        bytes[4..8].copy_from_slice(&(most as u32 + 4).to_le_bytes());
        assert!(Header::decode(&bytes).is_err());
    }
}

#[test]
fn another_version_is_named_before_anything_else_is_read() {
    assert_eq!(Hello::decode(b"PACE\x63\x00"), Err(MessageError::Version(99)));
    assert_eq!(Hello::decode(b"GET / HTTP/1.1\r\n"), Err(MessageError::Magic));
}

#[test]
fn a_refusal_survives_the_wire() {
    for code in RefuseCode::ALL {
        let refusal = Refusal { code, text: "why not".into() };
        assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
    }
}
