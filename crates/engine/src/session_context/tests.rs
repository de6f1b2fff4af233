//! Tests of the context of a session.

use super::*;

/// Counts the calls that a session passes on.
#[derive(Default)]
struct CountedContext {
    calls: Mutex<Vec<&'static str>>,
}

impl CountedContext {
    fn count(&self, call: &'static str) {
        lock(&self.calls).push(call);
    }
}

impl TaskContext for CountedContext {
    fn waiting(&self, _text: Option<&str>) {
        self.count("waiting");
    }

    fn working(&self, _work: LongWork) {
        self.count("working");
    }

    fn is_run_over(&self) -> bool {
        self.count("is_run_over");
        true
    }

    fn reopen_run(&self) -> Result<(), TrainError> {
        self.count("reopen_run");
        Ok(())
    }

    fn should_leave(&self) -> bool {
        self.count("should_leave");
        true
    }

    fn stop_signal(&self) -> Option<i32> {
        self.count("stop_signal");
        Some(2)
    }

    fn is_run_ending(&self) -> bool {
        self.count("is_run_ending");
        true
    }

    fn separate_run(&self) -> Option<String> {
        self.count("separate_run");
        Some("another disk".into())
    }
}

#[test]
fn a_session_passes_every_question_on_to_the_context() {
    let counted = Arc::new(CountedContext::default());
    let context = SessionContext {
        context: counted.clone(),
        recorders: Recorders::default(),
        trained: Arc::default(),
    };
    assert!(context.is_run_over() && context.should_leave());
    assert_eq!(context.stop_signal(), Some(2));
    context.reopen_run().unwrap();
    context.waiting(None);
    context.working(LongWork::Test { done: 1, total: 2 });
    assert!(context.is_run_ending() && context.separate_run().is_some());
    let calls = [
        "is_run_over",
        "should_leave",
        "stop_signal",
        "reopen_run",
        "waiting",
        "working",
        "is_run_ending",
        "separate_run",
    ];
    assert_eq!(*lock(&counted.calls), calls);
}
