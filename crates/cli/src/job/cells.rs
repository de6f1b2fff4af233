//! From `[sweep]` to its cells: one job for each combination of values and each seed.
//!
//! All cells are made and checked before the first is run, so that a slip in the last value of
//! a list does not show after a night. Combinations that come to the same run, such as two
//! numbers of workers in mode `single`, are run once.

use std::collections::BTreeSet;

use paceline_lab::Finding;
use toml::de::DeValue;

use super::problem::{Problem, Problems};
use super::raw::RawJob;
use super::schema::KEYS;
use super::sweep::{Reference, Setting, Sweep};
use super::value::Value;

/// More runs than this are a mistake.
const MOST_CELLS: usize = 10_000;

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct CellJob {
    /// The keys that the sweep sets and this run heeds, with their values as people write them.
    pub settings: Vec<(String, String)>,
    /// Which repeat of its settings it is, from 0.
    pub repeat: u64,
    /// What it draws from.
    pub seed: u64,
    /// The job of the run.
    pub job: RawJob,
    /// What others measured with these settings: figure, value, whose.
    pub references: Vec<(String, f64, String)>,
}

impl RawJob {
    /// Whether the job is one of many runs.
    pub fn has_sweep(&self) -> bool {
        self.sweep.is_some()
    }

    /// Has every cell of the sweep run so often, whatever the file says.
    pub fn set_repeats(&mut self, repeats: u64) {
        if let Some(sweep) = &mut self.sweep {
            sweep.repeats = repeats;
            sweep.seeds.clear();
        }
    }

    /// What others have found, to be held against the runs.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The job's name, which its directories carry.
    pub fn name(&self) -> String {
        self.resolve().word("name")
    }

    /// Every run that the job asks for, all of them checked. With `quick` they are shortened
    /// by what `[sweep.quick]` says.
    pub fn cells(&self, quick: bool) -> Result<Vec<CellJob>, Problems> {
        let single = RawJob { sweep: None, ..self.clone() };
        let one = Sweep {
            origin: super::Origin::Default,
            repeats: 1,
            seeds: Vec::new(),
            axes: Vec::new(),
            cases: Vec::new(),
            quick: Vec::new(),
        };
        let sweep = self.sweep.as_ref().unwrap_or(&one);
        let fault = |message: String| {
            Problems::from(Problem { origin: sweep.origin.clone(), message: message.to_owned() })
        };
        let matrix = sweep.matrix(quick);
        let repeats = sweep.seeds.len().max(sweep.repeats as usize);
        if matrix.len().saturating_mul(repeats) > MOST_CELLS {
            let runs = matrix.len().saturating_mul(repeats);
            return Err(fault(format!("sweep has {runs} runs; at most {MOST_CELLS} can be made")));
        }
        let mut problems: Vec<Problem> = self.clashes(sweep);
        let mut cells = Vec::new();
        let mut seen = BTreeSet::new();
        let swept = sweep.keys();
        for repeat in 0..repeats {
            for settings in &matrix {
                let mut job = single.clone();
                settings.iter().for_each(|setting| job.assign(setting));
                job.reseed(sweep, repeat);
                match job.check() {
                    Err(found) => problems.extend(found.0),
                    Ok(plan) if seen.insert(job.identity()) => cells.push(CellJob {
                        settings: job.heeded(settings, &swept),
                        repeat: repeat as u64,
                        seed: plan.seed,
                        references: self.references_of(&job, quick),
                        job,
                    }),
                    Ok(_) => {}
                }
            }
        }
        let mut found: Vec<Problem> = Vec::new();
        problems.retain(|problem| {
            let new = !found.contains(problem);
            if new {
                found.push(problem.clone());
            }
            new
        });
        if problems.is_empty() { Ok(cells) } else { Err(Problems::in_order(problems)) }
    }

    /// Keys that both the command line and the sweep set: who should win nobody can tell.
    fn clashes(&self, sweep: &Sweep) -> Vec<Problem> {
        let keys = sweep.keys();
        let set = self.entries.iter().filter(|(key, entry)| {
            matches!(entry.origin, super::Origin::Set { .. }) && keys.contains(key.as_str())
        });
        let fault = |key: &str| format!("{key} is set by [sweep] too; change it there");
        set.map(|(key, entry)| Problem { origin: entry.origin.clone(), message: fault(key) })
            .collect()
    }

    /// Gives a key the value that a sweep says, in place of whatever it and the keys below have.
    fn assign(&mut self, setting: &Setting) {
        match DeValue::parse(&setting.text) {
            Ok(value) => self.put(&setting.key, value.get_ref(), &setting.origin),
            Err(error) => self.problems.push(Problem {
                origin: setting.origin.clone(),
                message: format!("{} has a value that is not sound TOML: {error}", setting.key),
            }),
        }
    }

    /// Draws anew for each repeat: from the next seed, or the one listed.
    fn reseed(&mut self, sweep: &Sweep, repeat: usize) {
        let own = match self.entries.get("seed").map(|entry| &entry.value) {
            Some(Value::Whole(seed)) => *seed,
            Some(_) => return, // Checking says what is wrong with it.
            None => 1,
        };
        let seed = match sweep.seeds.get(repeat) {
            Some(seed) => *seed as i64,
            None if repeat == 0 => return,
            None => own.saturating_add(repeat as i64),
        };
        let text = seed.to_string();
        self.assign(&Setting { key: "seed".into(), text, origin: sweep.origin.clone() });
    }

    /// All that the run heeds, as text: equal for equal runs.
    fn identity(&self) -> String {
        let resolved = self.resolve();
        let heeded = KEYS.iter().filter(|key| resolved.applies(key));
        let lines = heeded.filter_map(|key| {
            let entry = resolved.entries.get(&key.path)?;
            Some(format!("{} = {}\n", key.path, entry.value))
        });
        lines.collect()
    }

    /// The settings of a cell that tell it from others and that its run heeds.
    fn heeded(&self, settings: &[Setting], swept: &BTreeSet<&str>) -> Vec<(String, String)> {
        let resolved = self.resolve();
        let settings = settings.iter().filter(|setting| swept.contains(setting.key.as_str()));
        let applies = |setting: &&Setting| {
            KEYS.iter().find(|key| key.path == setting.key).is_none_or(|key| resolved.applies(key))
        };
        let shown = |setting: &Setting| (setting.key.clone(), plain(&setting.text));
        settings.filter(applies).map(shown).collect()
    }

    /// What others measured with the settings of this job. Of a shortened run only rates can
    /// stand beside theirs.
    fn references_of(&self, cell: &RawJob, quick: bool) -> Vec<(String, f64, String)> {
        let resolved = cell.resolve();
        let fits = |reference: &&Reference| {
            reference.when.iter().all(|setting| {
                let wanted = DeValue::parse(&setting.text);
                let wanted = wanted.ok().and_then(|value| Value::from_toml(value.get_ref()).ok());
                let key = KEYS.iter().find(|key| key.path == setting.key);
                let entry = key.filter(|key| resolved.applies(key));
                let entry = entry.and_then(|key| resolved.entries.get(&key.path));
                wanted.is_some() && entry.map(|entry| &entry.value) == wanted.as_ref()
            })
        };
        let comparable = |figure: &str| !quick || figure.ends_with("_per_second");
        let mut found = Vec::new();
        for reference in self.references.iter().filter(fits) {
            for (figure, value) in &reference.figures {
                if comparable(figure) {
                    found.push((figure.clone(), *value, reference.from.clone()));
                }
            }
        }
        found
    }

    /// The places of references that no cell has the settings of: likely slips.
    pub fn idle_references(&self, cells: &[CellJob]) -> Vec<String> {
        let idle = self.references.iter().filter(|reference| {
            let alone = RawJob { references: vec![(*reference).clone()], ..Self::default() };
            cells.iter().all(|cell| alone.references_of(&cell.job, false).is_empty())
        });
        idle.map(|reference| reference.origin.to_string()).collect()
    }
}

impl Sweep {
    /// The keys that differ from cell to cell.
    fn keys(&self) -> BTreeSet<&str> {
        let cases = self.cases.iter().flatten().map(|setting| setting.key.as_str());
        self.axes.iter().map(|axis| axis.key.as_str()).chain(cases).collect()
    }

    /// Every combination of values, the last list changing fastest, with the cases as one more
    /// list before all others.
    fn matrix(&self, quick: bool) -> Vec<Vec<Setting>> {
        let mut cells = match self.cases.is_empty() {
            true => vec![Vec::new()],
            false => self.cases.clone(),
        };
        for axis in &self.axes {
            if cells.len() > MOST_CELLS {
                break; // The caller refuses it; going on could only fill the memory.
            }
            let setting = |text: &String| Setting {
                key: axis.key.clone(),
                text: text.clone(),
                origin: axis.origin.clone(),
            };
            cells = cells
                .iter()
                .flat_map(|cell| {
                    axis.values.iter().map(|value| [&cell[..], &[setting(value)]].concat())
                })
                .collect();
        }
        if quick {
            for cell in &mut cells {
                for setting in &self.quick {
                    let below = format!("{}.", setting.key);
                    cell.retain(|old| old.key != setting.key && !old.key.starts_with(&below));
                    cell.push(setting.clone());
                }
            }
        }
        cells
    }
}

/// A value as people write it: words without quotes, tables on one line.
pub(super) fn plain(text: &str) -> String {
    match DeValue::parse(text).map(|value| value.into_inner()) {
        Ok(DeValue::String(word)) => word.to_string(),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}
