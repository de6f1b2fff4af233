use proptest::prelude::*;

use super::*;

const VERSION: u16 = 9;
const SERVICE: Service = Service::Training;
const CLAIMS: Claims = Claims { role: 4, slot: 77, incarnation: 1 << 40 | 5 };

fn credentials() -> Credentials {
    Credentials::with_token(b"a secret of the run")
}

fn statement(is_sealed: bool) -> Statement {
    Statement { version: VERSION, service: SERVICE, claims: CLAIMS, is_sealed }
}

fn dial() -> Dialer {
    Dialer::new(&credentials(), statement(true)).unwrap()
}

fn challenge(first: &[u8; FIRST_BYTES]) -> (HandshakeAcceptor, [u8; CHALLENGE_BYTES]) {
    HandshakeAcceptor::challenge(&credentials(), SERVICE, VERSION, true, first).unwrap()
}

#[test]
fn both_sides_end_with_the_same_claims_and_keys() {
    let dialer = dial();
    let (acceptor, challenge) = challenge(dialer.first());
    let answered = dialer.answer(&challenge).unwrap();
    let accepted = acceptor.finish(&answered.proof).unwrap();
    assert_eq!(accepted.claims, CLAIMS);
    let (ours, theirs) = (answered.keys.unwrap(), accepted.keys.unwrap());
    assert_eq!((ours.send, ours.receive), (theirs.receive, theirs.send));
    assert_ne!(ours.send, ours.receive);
}

#[test]
fn neither_side_sends_the_secret() {
    let dialer = dial();
    let (_, challenge) = challenge(dialer.first());
    let proof = dialer.answer(&challenge).unwrap().proof;
    let sent = [&dialer.first()[..], &challenge, &proof].concat();
    let secret = credentials();
    assert!(!sent.windows(secret.token().len()).any(|bytes| bytes == secret.token()));
}

#[test]
fn a_side_with_another_secret_is_refused_by_the_other() {
    let stranger = Credentials::with_token(b"a guess");
    let dialer = Dialer::new(&stranger, statement(true)).unwrap();
    let (acceptor, answer) = challenge(dialer.first());
    assert!(matches!(dialer.answer(&answer), Err(HandshakeError::Token)));
    assert!(matches!(acceptor.finish(&[7; PROOF_BYTES]), Err(HandshakeError::Token)));
    let (_, forged) =
        HandshakeAcceptor::challenge(&stranger, SERVICE, VERSION, true, dial().first()).unwrap();
    assert!(matches!(dial().answer(&forged), Err(HandshakeError::Token)));
}

#[test]
fn recorded_messages_are_refused_when_they_are_sent_again() {
    let dialer = dial();
    let (_, answer) = challenge(dialer.first());
    let proof = dialer.answer(&answer).unwrap().proof;
    // The same first message and proof, to an acceptor with a new nonce.
    let (again, _) = challenge(dialer.first());
    assert!(matches!(again.finish(&proof), Err(HandshakeError::Token)));
    // The same challenge, to a dialer with a new nonce.
    assert!(matches!(dial().answer(&answer), Err(HandshakeError::Token)));
}

#[test]
fn an_acceptor_cannot_be_made_to_prove_what_a_dialer_must() {
    let dialer = dial();
    let (acceptor, answer) = challenge(dialer.first());
    let reflected = answer.last_chunk::<PROOF_BYTES>().unwrap();
    assert!(matches!(acceptor.finish(reflected), Err(HandshakeError::Token)));
}

#[test]
fn another_version_and_missing_seals_are_refused_with_a_reason() {
    let newer = Statement { version: 12, ..statement(true) };
    let dialer = Dialer::new(&credentials(), newer).unwrap();
    let refused =
        HandshakeAcceptor::challenge(&credentials(), SERVICE, VERSION, true, dialer.first());
    let error = refused.err().unwrap();
    assert_eq!(error.to_string(), "protocol version 12, not 9");
    let answer = error.refusal(VERSION).unwrap();
    let told = dialer.answer(&answer).err().unwrap();
    assert_eq!(told.to_string(), "protocol version 9, not 12");

    let dialer = Dialer::new(&credentials(), statement(false)).unwrap();
    let refused =
        HandshakeAcceptor::challenge(&credentials(), SERVICE, VERSION, true, dialer.first());
    let answer = refused.err().unwrap().refusal(VERSION).unwrap();
    assert!(matches!(dialer.answer(&answer), Err(HandshakeError::Seals)));
    let (acceptor, answer) =
        HandshakeAcceptor::challenge(&credentials(), SERVICE, VERSION, false, dialer.first())
            .unwrap();
    let answered = dialer.answer(&answer).unwrap();
    assert!(answered.keys.is_none());
    assert!(acceptor.finish(&answered.proof).unwrap().keys.is_none());
}

proptest! {
    #[test]
    fn every_flipped_bit_ends_the_handshake(message in 0..3usize, at: usize, bit in 0..8u32) {
        let flip = |bytes: &mut [u8]| bytes[at % bytes.len()] ^= 1 << bit;
        let dialer = dial();
        let mut first = *dialer.first();
        if message == 0 {
            flip(&mut first);
        }
        let own = credentials();
        let challenged = HandshakeAcceptor::challenge(&own, SERVICE, VERSION, true, &first);
        let Ok((acceptor, mut answer)) = challenged else { return Ok(()) };
        if message == 1 {
            flip(&mut answer);
        }
        let Ok(answered) = dialer.answer(&answer) else { return Ok(()) };
        prop_assert_eq!(message, 2, "the dialer has not noticed");
        let mut proof = answered.proof;
        flip(&mut proof);
        prop_assert!(acceptor.finish(&proof).is_err());
    }

    #[test]
    fn random_messages_are_refused(
        first in proptest::collection::vec(any::<u8>(), FIRST_BYTES),
        answer in proptest::collection::vec(any::<u8>(), CHALLENGE_BYTES),
        is_likely: bool,
    ) {
        let mut first: [u8; FIRST_BYTES] = first.try_into().unwrap();
        let mut answer: [u8; CHALLENGE_BYTES] = answer.try_into().unwrap();
        if is_likely {
            for message in [&mut first[..], &mut answer[..]] {
                message[..7].copy_from_slice(&[b'P', b'A', b'C', b'E', 9, 0, 1]);
            }
            answer[6] = ACCEPTED;
        }
        prop_assert!(dial().answer(&answer).is_err());
        let own = credentials();
        let challenged = HandshakeAcceptor::challenge(&own, SERVICE, VERSION, true, &first);
        if let Ok((acceptor, _)) = challenged {
            prop_assert!(is_likely && acceptor.finish(&[0; PROOF_BYTES]).is_err());
        }
    }
}
