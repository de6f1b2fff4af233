//! What an evaluator does: pull the parameters now and then, and test them. It takes no part,
//! nobody waits for it, and it ends when the servers do.

use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::Role as ClientRole;
use paceline_model::Score;

use super::Cluster;
use super::calling::link_config;
use super::part::SharedLink;
use super::remote::Remote;
use crate::Failure;
use crate::board::Board;
use crate::build::{Room, build_examiner, build_model};
use crate::job::{Plan, RawJob};
use crate::link::Link;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::run::RunDir;
use crate::source::load_data;

/// How long to wait before looking again whether there is something new to test.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Tests until the run is over.
pub(super) fn run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    run: &RunDir,
    interrupted: &dyn Fn() -> Option<i32>,
) -> Result<(), Failure> {
    let data = load_data(job, plan, &mut |_| {})?;
    let log = Log::create(run, cluster.task)?;
    let model = build_model(plan, data.shape(), Room::LEAST)?;
    let mut board = Board::create(&run.task(&cluster.task.to_string()), plan, &cluster.others())?;
    let task = cluster.task.to_string();
    let number = (task.as_str(), cluster.number());
    let mut metrics = Metrics::start(plan, number, cluster.others(), &run.task(&task))?;
    let config = link_config(job, plan, cluster, ClientRole::Evaluator, model.layout())?;
    let mut examiner = build_examiner(plan, &data, 1)?;
    let say = |text: &str| log.info(text);
    let gives_up = || interrupted().is_some();
    let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
    let begun = Instant::now();
    let (mut next, mut last) = (plan.evaluate.every, None::<Score>);
    while interrupted().is_none() {
        let step = link.global_step();
        board.note(&link)?;
        if let Some(metrics) = metrics.as_mut().filter(|metrics| metrics.is_due(Instant::now())) {
            metrics.publish(Instant::now(), |figures, _| {
                figures.add("paceline_global_step", step as f64);
                if let Some(score) = last {
                    figures.add("paceline_test_loss", score.loss);
                    figures.add("paceline_test_accuracy_ratio", score.accuracy);
                }
            });
        }
        if step >= next {
            let score = match link.look(examiner.keys().as_deref()) {
                Err(Failure::Rewound) => {
                    link.begin_again()?;
                    continue;
                }
                looked => examiner.test(looked?)?,
            };
            last = Some(score);
            board.test(step, &score, step as f64 / begun.elapsed().as_secs_f64())?;
            let (loss, accuracy) = (score.loss, 100.0 * score.accuracy);
            log.info(&format!("step {step}: test loss {loss:.4}, accuracy {accuracy:.2} %"));
            next = (step / plan.evaluate.every + 1) * plan.evaluate.every;
        } else {
            thread::sleep(LOOK_EVERY);
        }
        let refreshed = match link.refresh() {
            Err(Failure::Rewound) => link.begin_again(),
            refreshed => refreshed,
        };
        if let Err(error) = refreshed {
            log.info(&format!("the servers are gone: {error}"));
            break;
        }
        // Should the run have gone back, what is behind it comes again.
        next = next.min((link.global_step() / plan.evaluate.every + 1) * plan.evaluate.every);
    }
    board.finish(true)
}
