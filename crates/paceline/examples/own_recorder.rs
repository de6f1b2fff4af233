//! Reports to a recorder of your own: it prints the loss of every hundredth step and every test.

use std::io;

use paceline::prelude::*;

struct Printer;

impl Recorder for Printer {
    fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        if record.worker_steps.is_multiple_of(100) {
            println!("step {:4}: loss {:.3}", record.step, record.loss);
        }
        Ok(())
    }

    fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        println!("step {:4}: accuracy {:.1} %", record.step, 100.0 * record.score.accuracy);
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), TrainError> {
    Session::new(Softmax::new(784, 10), Digits::generate(6_000, 1))
        .optimizer(Sgd::new(0.1))
        .stop(Stop::epochs(2))
        .recorder(Printer)
        .run()?;
    Ok(())
}
