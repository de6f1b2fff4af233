//! Shows how far the fetching of a data set has come.

use std::time::Instant;

use paceline_data::{OpenObserver, OpenProgress, OpenReport};
use paceline_fetch::FetchProgress;

use crate::data_display::DataDisplay;
use crate::interrupt::Interrupt;
use crate::stop_source::StopSource;

/// Shows sources and files as lines, and what takes longer than a second as it proceeds.
pub(crate) struct FetchDisplay {
    display: DataDisplay,
    /// The file that arrives, and since when.
    file: Option<(&'static str, Instant)>,
}

impl Default for FetchDisplay {
    fn default() -> Self {
        // A signal ends the process at once: it leaves no file under its final name.
        let stop = StopSource { interrupt: Interrupt::default(), channel: None };
        Self { display: DataDisplay::new(false, &stop), file: None }
    }
}

impl FetchDisplay {
    /// Shows a report.
    pub(crate) fn show(&mut self, progress: &FetchProgress) {
        match progress {
            FetchProgress::Bytes { file, so_far, total } => {
                let since = match self.file {
                    Some((last, since)) if last == *file => since,
                    _ => Instant::now(),
                };
                self.file = Some((file, since));
                let share = *so_far as f64 / (*total).max(1) as f64;
                let progress = OpenProgress {
                    action: "fetching",
                    what: file,
                    share,
                    share_before: 0.0,
                    rows: 0,
                    rows_before: 0,
                    elapsed: since.elapsed(),
                };
                // Signals end this process by themselves.
                let _ = self.display.report(OpenReport::Progress(progress));
            }
            FetchProgress::Running { elapsed, .. } => {
                self.display.show(&progress.to_string(), *elapsed);
            }
            _ => self.display.say(&progress.to_string()),
        }
    }
}
