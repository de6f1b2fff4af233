//! Trains on examples from an iterator.

use paceline::prelude::*;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Points in the plane; the class says on which side of a line they lie.
    let points = (0..2_000u32).map(|i| {
        let (x, y) = ((i * 37 % 101) as f32 / 50.0 - 1.0, (i * 59 % 97) as f32 / 48.0 - 1.0);
        (vec![x, y], u32::from(x + 0.5 * y > 0.1))
    });
    let data = InMemoryExamples::from_rows(points)?.hold_out(400, 1)?;
    let report = Session::new(Softmax::new(2, 2), data)
        .optimizer(Adam::new(0.05))
        .batch(20)
        .stop(Stop::epochs(10))
        .run()?;
    println!("{:.2} % of points are on the right side", 100.0 * report.accuracy);
    assert!(report.accuracy > 0.95, "the model learns");
    Ok(())
}
