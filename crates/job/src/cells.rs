//! From `[sweep]` to its cells: one job for each combination of values and each seed.
//!
//! All cells are created and checked before the first one runs, so that a mistake in the last value
//! of a list is reported at once, not after hours. Combinations that give the same run, such as two
//! numbers of workers in mode `single`, run once.

use std::collections::{BTreeMap, BTreeSet};

use paceline_lab::Finding;
use paceline_lab::sweep_plan::ReferenceFigure;
use toml::de::DeValue;

use super::problem::{Problem, Problems, SettingOrigin, remove_duplicates};
use super::raw::RawJob;
use super::schema::find_key;
use super::sweep_sections::{ReferenceSection, SweepSection, SweepSetting};
use super::value::{JobValue, plain};

/// The most runs of a sweep; more are a mistake.
const MAX_CELLS: usize = 10_000;

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct CellJob {
    /// The keys that the sweep sets and that apply to this run, with their values as written.
    pub settings: Vec<(String, String)>,
    /// The repeat of its settings, from 0.
    pub repeat: u64,
    /// The seed.
    pub seed: u64,
    /// The job of the run.
    pub job: RawJob,
    /// Published measurements with these settings.
    pub references: Vec<ReferenceFigure>,
}

impl RawJob {
    /// Whether the job has a `[sweep]` section.
    pub fn has_sweep(&self) -> bool {
        self.sweep.is_some()
    }

    /// Sets the number of runs per cell. It replaces the file's repeats and seeds.
    pub fn set_repeats(&mut self, repeats: u64) {
        if let Some(sweep) = &mut self.sweep {
            sweep.repeats = repeats;
            sweep.seeds.clear();
        }
    }

    /// Published conclusions, to be compared with the runs.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The job's name, which is part of its directories' names.
    pub fn name(&self) -> String {
        self.resolve().word("name")
    }

    /// All runs of the job, each checked. With `quick`, the settings of `[sweep.quick]` shorten
    /// them.
    pub fn cells(&self, quick: bool) -> Result<Vec<CellJob>, Problems> {
        let single = RawJob { sweep: None, ..self.clone() };
        let one = SweepSection::new(SettingOrigin::Default);
        let sweep = self.sweep.as_ref().unwrap_or(&one);
        let fault = |message: String| {
            Problems::from(Problem { origin: sweep.origin.clone(), message: message.to_owned() })
        };
        let repeats = sweep.seeds.len().max(sweep.repeats as usize);
        let runs = sweep.combinations().saturating_mul(repeats);
        if runs > MAX_CELLS {
            return Err(fault(format!("sweep has {runs} runs; at most {MAX_CELLS} are allowed")));
        }
        let matrix = sweep.matrix(quick);
        let mut problems: Vec<Problem> = self.clashes(sweep);
        let mut cells = Vec::new();
        let mut seen = BTreeSet::new();
        let swept = sweep.keys();
        let mut unused = UnusedKeys::default();
        for repeat in 0..repeats {
            for settings in &matrix {
                let mut job = single.clone();
                settings.iter().for_each(|setting| job.assign(setting));
                job.reseed(sweep, repeat);
                let checked = job.check_values();
                unused.add(&mut job);
                match checked {
                    Err(found) => problems.extend(found.0),
                    Ok(plan) if seen.insert(job.identity()) => cells.push(CellJob {
                        settings: job.distinguishing_settings(settings, &swept),
                        repeat: repeat as u64,
                        seed: plan.seed,
                        references: self.references_of(&job, quick),
                        job,
                    }),
                    Ok(_) => {}
                }
            }
        }
        problems.extend(unused.problems.into_values());
        remove_duplicates(&mut problems);
        if problems.is_empty() { Ok(cells) } else { Err(Problems::in_order(problems)) }
    }

    /// Keys that both the command line and the sweep set: it is not clear which value is meant.
    fn clashes(&self, sweep: &SweepSection) -> Vec<Problem> {
        let keys = sweep.keys();
        let set = self.entries.iter().filter(|(key, entry)| {
            matches!(entry.origin, SettingOrigin::Set { .. }) && keys.contains(key.as_str())
        });
        let fault = |key: &str| format!("{key} is set by [sweep] too; change it there");
        set.map(|(key, entry)| Problem { origin: entry.origin.clone(), message: fault(key) })
            .collect()
    }

    /// Sets a key to a value of the sweep, and removes its earlier value and all keys below it.
    fn assign(&mut self, setting: &SweepSetting) {
        match DeValue::parse(&setting.text) {
            Ok(value) => self.put(&setting.key, value.get_ref(), &setting.origin),
            Err(error) => self.problems.push(Problem {
                origin: setting.origin.clone(),
                message: format!("{} has a value that is not valid TOML: {error}", setting.key),
            }),
        }
    }

    /// Sets the seed of a repeat: the next one, or the one listed.
    fn reseed(&mut self, sweep: &SweepSection, repeat: usize) {
        let own = match self.entries.get("seed").map(|entry| &entry.value) {
            Some(JobValue::Whole(seed)) => *seed,
            Some(_) => return, // Checking reports the problem.
            None => 1,
        };
        let seed = match sweep.seeds.get(repeat) {
            Some(seed) => *seed as i64,
            None if repeat == 0 => return,
            None => own.saturating_add(repeat as i64),
        };
        let text = seed.to_string();
        self.assign(&SweepSetting { key: "seed".into(), text, origin: sweep.origin.clone() });
    }

    /// All keys that apply to the run, as text: equal for equal runs.
    fn identity(&self) -> String {
        let resolved = self.resolve();
        let used = resolved.used_keys().into_iter();
        used.map(|used| format!("{} = {}\n", used.path, used.entry.value)).collect()
    }

    /// The settings that distinguish a cell from others and apply to its run.
    fn distinguishing_settings(
        &self,
        settings: &[SweepSetting],
        swept: &BTreeSet<&str>,
    ) -> Vec<(String, String)> {
        let resolved = self.resolve();
        let settings = settings.iter().filter(|setting| swept.contains(setting.key.as_str()));
        let applies = |setting: &&SweepSetting| {
            find_key(&setting.key).is_none_or(|key| resolved.applies(key, &setting.key))
        };
        let shown = |setting: &SweepSetting| (setting.key.clone(), plain(&setting.text));
        settings.filter(applies).map(shown).collect()
    }

    /// Published measurements with the settings of this cell. Of a shortened run only rates are
    /// comparable.
    fn references_of(&self, cell: &RawJob, quick: bool) -> Vec<ReferenceFigure> {
        let resolved = cell.resolve();
        let fits = |reference: &&ReferenceSection| {
            reference.when.iter().all(|setting| {
                let wanted = DeValue::parse(&setting.text);
                let wanted =
                    wanted.ok().and_then(|value| JobValue::from_toml(value.get_ref()).ok());
                let key = find_key(&setting.key);
                let entry = key.filter(|key| resolved.applies(key, &setting.key));
                let entry = entry.and_then(|_| resolved.entries.get(&setting.key));
                wanted.is_some() && entry.map(|entry| &entry.value) == wanted.as_ref()
            })
        };
        let comparable = |figure: &str| !quick || figure.ends_with("_per_second");
        let mut found = Vec::new();
        for reference in self.references.iter().filter(fits) {
            for (figure, value) in &reference.figures {
                if comparable(figure) {
                    found.push(ReferenceFigure {
                        figure: figure.clone(),
                        value: *value,
                        from: reference.from.clone(),
                    });
                }
            }
        }
        found
    }

    /// The origins of references whose settings no cell has: likely mistakes.
    pub fn idle_references(&self, cells: &[CellJob]) -> Vec<String> {
        let idle = self.references.iter().filter(|reference| {
            let alone = RawJob { references: vec![(*reference).clone()], ..Self::default() };
            cells.iter().all(|cell| alone.references_of(&cell.job, false).is_empty())
        });
        idle.map(|reference| reference.origin.to_string()).collect()
    }
}

/// The keys that are set and that no cell uses.
#[derive(Default)]
struct UnusedKeys {
    used: BTreeSet<String>,
    problems: BTreeMap<String, Problem>,
}

impl UnusedKeys {
    /// Adds a cell, and removes from it the keys that it does not use.
    fn add(&mut self, cell: &mut RawJob) {
        let resolved = cell.resolve();
        let unused: BTreeMap<_, _> = resolved.unused().into_iter().collect();
        for path in cell.entries.keys().filter(|path| !unused.contains_key(path.as_str())) {
            self.problems.remove(path);
            self.used.insert(path.clone());
        }
        cell.entries.retain(|path, _| !unused.contains_key(path.as_str()));
        for (path, problem) in unused {
            if !self.used.contains(path) {
                self.problems.entry(path.to_owned()).or_insert(problem);
            }
        }
    }
}

impl SweepSection {
    /// The keys that the cells set differently.
    fn keys(&self) -> BTreeSet<&str> {
        let cases = self.cases.iter().flatten().map(|setting| setting.key.as_str());
        self.axes.iter().map(|axis| axis.key.as_str()).chain(cases).collect()
    }

    /// The number of combinations of values.
    fn combinations(&self) -> usize {
        let lists = self.axes.iter().map(|axis| axis.values.len());
        lists.fold(self.cases.len().max(1), usize::saturating_mul)
    }

    /// Every combination of values. The last list changes fastest; the cases come before all lists.
    fn matrix(&self, quick: bool) -> Vec<Vec<SweepSetting>> {
        let mut cells = if self.cases.is_empty() { vec![Vec::new()] } else { self.cases.clone() };
        for axis in &self.axes {
            let setting = |text: &String| SweepSetting {
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
