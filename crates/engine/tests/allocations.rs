//! A step allocates nothing that grows with the model, in any mode.
//!
//! The only test of its binary: it counts the allocations of all threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_data::Digits;
use paceline_engine::{FactorChoice, Mode, ModelSizing, Session, Sharing, Stop, WireFormat};
use paceline_model::{Layer, LayerKind, Model, Momentum, Network, Shape};

/// The least bytes of an allocation that counts; the hidden layers' gradients have 188 kB or more.
const LARGE: usize = 16 << 10;

static LARGE_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts large allocations.
struct LargeCounting;

fn count(bytes: usize) {
    LARGE_ALLOCATIONS.fetch_add(usize::from(bytes >= LARGE), Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator's signature")]
// SAFETY: everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for LargeCounting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: LargeCounting = LargeCounting;

/// A perceptron with this many hidden values: with 700, its 556,510 parameters are exchanged layer
/// by layer, with 60 at once.
fn session(hidden: usize) -> Session {
    let build = move |sizing: ModelSizing| {
        let layers = vec![
            Layer::new("flatten", LayerKind::Flatten),
            Layer::dense("hidden", hidden),
            Layer::new("tanh", LayerKind::Tanh),
            Layer::dense("scores", 10),
        ];
        let network =
            Network::new(Shape::image(1, 28, 28), layers, sizing.block.min(64), sizing.threads);
        Ok(Box::new(network.unwrap()) as Box<dyn Model>)
    };
    Session::with_builder(build, Digits::generate(200, 1))
        .optimizer(Momentum::new(0.001, 0.9))
        .batch(4)
        .test_every(1000)
}

#[test]
fn a_step_allocates_nothing_that_grows_with_the_model() {
    let (servers, mesh) = (Sharing::servers(2).workers(2), Sharing::mesh(2));
    let rounded = WireFormat::Bf16;
    let cases = [
        (Sharing::none(), FactorChoice::Auto),
        (servers, FactorChoice::Auto),
        (servers.wire(rounded), FactorChoice::Auto),
        (servers.mode(Mode::Async), FactorChoice::Auto),
        (mesh, FactorChoice::Always),
        (mesh, FactorChoice::Never),
        (mesh.wire(rounded), FactorChoice::Always),
        (mesh.wire(rounded), FactorChoice::Never),
    ];
    for (sharing, factors) in cases {
        for hidden in [700, 60] {
            let of_steps = |steps| {
                let before = LARGE_ALLOCATIONS.load(Ordering::Relaxed);
                let session = session(hidden).share(sharing).factors(factors);
                session.stop(Stop::steps(steps)).run().unwrap();
                LARGE_ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            // Of what threads do at the same time, a few allocations depend on chance.
            let (few, many) = (of_steps(10), of_steps(210));
            assert!(
                many < few + 50,
                "{sharing} {factors:?} {hidden}: {few}, {many} with more steps"
            );
        }
    }
}
