//! `paceline export`: a trained model as an ONNX file.

use std::io::Write;

use paceline_onnx::export as export_model;
use paceline_score::{OutputFile, ScoreError, check_onnx_name};

use super::data::size;
use super::output::print;
use super::trained_model::{load_trained, score_failure};
use crate::Failure;
use crate::interrupt::Interrupt;
use crate::predict_args::ExportArgs;
use paceline_terminal::wrap_output;

/// Writes the model as ONNX, and says what the graph takes and what it leaves to the caller.
pub(super) fn export(args: &ExportArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let failed = |error| score_failure(error, &interrupt);
    check_onnx_name(&args.output).map_err(failed)?;
    let trained = load_trained(&args.model)?;
    let mut file = OutputFile::create(&args.output, args.force).map_err(failed)?;
    let exported =
        export_model(&trained.model).map_err(|error| Failure::Usage(error.to_string()))?;
    if interrupt.signal().is_some() {
        return Err(failed(ScoreError::Interrupted));
    }
    let written = file.write_all(&exported.bytes);
    written.map_err(Failure::at("write", &args.output))?;
    file.finish().map_err(failed)?;
    let size = size(exported.bytes.len() as u64);
    let form = trained.model.description().form.name();
    let mut lines = vec![format!("{}: {form}, {size}", args.output.display())];
    lines.extend(exported.notes);
    let output = "outputs: probabilities (N x classes), class (the index of the most likely) and \
                  scores; the metadata has the names of the classes";
    lines.push(output.into());
    let lines: Vec<_> = lines.iter().map(|line| wrap_output(line, "  ")).collect();
    print(&format!("{}\n", lines.join("\n")))
}
