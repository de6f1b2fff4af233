//! The text of one file of a table: its header, then its records, block by block, on all cores.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use memchr::{memchr_iter, memrchr_iter};
use paceline_data::DataError;
use paceline_data::sniff::{BYTE_ORDER_MARK, FileKind, SNIFF_BYTES, sniff};
use paceline_data::sparse::{MAX_LINE_BYTES, endless_line};

use crate::blocks::{Block, NextBlock, TableBlocks};
use crate::column_names::column_names;
use crate::format_choice::FormatChoice;
use crate::records::{RecordFields, Records};
use crate::text_format::TextFormat;

/// The most threads that parse.
const MOST_THREADS: usize = 16;
/// Blocks on their way to and from each thread.
const BLOCKS_PER_THREAD: usize = 2;
/// The most columns of a table.
pub(crate) const MOST_COLUMNS: usize = 100_000;
/// How much of the text decides on its format, in bytes.
const DETECTED_BYTES: usize = 256 << 10;

/// An opened table: its format and the names of its columns are known.
pub(crate) struct TableText<'s> {
    path: &'s Path,
    blocks: TableBlocks<'s>,
    /// The first block, until it is taken.
    first: Option<Block>,
    /// The line at which the first block begins, from 1.
    line: u64,
    /// What errors count: lines, or rows of a file without lines.
    unit: RowUnit,
    names: Vec<String>,
}

/// What a thread makes of the records of a block.
pub(crate) trait BlockWork: Sync {
    /// The result, whose memory is used again for later blocks.
    type Part: Default + Send;

    /// Parses the records of a block.
    fn parse(&self, text: &[u8], part: &mut Self::Part);
}

/// A part, and the line at which its block begins.
pub(crate) struct ParsedBlock<'p, P> {
    pub(crate) part: &'p mut P,
    pub(crate) text: &'p [u8],
    pub(crate) first_line: u64,
}

/// What comes out of a file, in order.
pub(crate) enum TableEvent<'p, P> {
    /// A block was parsed.
    Parsed(ParsedBlock<'p, P>),
    /// This line is too long and was skipped.
    LongLine(u64),
}

impl<'s> TableText<'s> {
    /// Opens the text of a file, which must be plain (not gzip). `path` is for errors.
    pub(crate) fn open(
        path: &'s Path,
        source: Box<dyn Read + 's>,
        choice: &FormatChoice,
    ) -> Result<Self, DataError> {
        let guess = TextFormat { quotes: !choice.without_quotes, ..TextFormat::default() };
        let mut blocks = TableBlocks::new(source, guess);
        let text = blocks.peek().map_err(DataError::io("read", path))?;
        check_is_text(path, text)?;
        if text.starts_with(BYTE_ORDER_MARK) {
            blocks.drop_front(BYTE_ORDER_MARK.len());
        }
        let text = blocks.peek().map_err(DataError::io("read", path))?;
        blocks.format = choice.detect(first_lines(text));
        let mut first = Block::default();
        let first_is = blocks.read(&mut first).map_err(DataError::io("read", path))?;
        let unit = RowUnit::Lines;
        let mut table = Self { path, blocks, first: None, line: 1, unit, names: Vec::new() };
        match first_is {
            NextBlock::Records => table.read_names(&mut first)?,
            NextBlock::LongLine | NextBlock::EndlessLine => {
                return Err(table.row_errors().at(1, long_line()));
            }
            NextBlock::OpenQuote => return Err(table.row_errors().open_quote(1)),
            NextBlock::End => return Err(table.fault("the file is empty".into())),
        }
        if first.text().is_empty() && table.blocks.ends_in_quotes() {
            return Err(table.row_errors().open_quote(table.line));
        }
        table.first = Some(first);
        Ok(table)
    }

    /// Makes errors count rows, for a file whose lines are not its own.
    #[cfg(feature = "parquet")]
    pub(crate) fn counting_rows(mut self) -> Self {
        (self.unit, self.line) = (RowUnit::Rows, 1);
        self
    }

    fn read_names(&mut self, first: &mut Block) -> Result<(), DataError> {
        let (mut records, mut fields) =
            (Records::new(first.text(), self.blocks.format), RecordFields::default());
        if !records.next(&mut fields) {
            return Ok(());
        }
        if fields.len() > MOST_COLUMNS {
            let what = format!("{} columns; there may be at most {MOST_COLUMNS}", fields.len());
            return Err(self.fault(what));
        }
        if !self.blocks.format.header {
            self.names = (1..=fields.len()).map(|column| column.to_string()).collect();
            return Ok(());
        }
        let names = column_names(&fields).map_err(|column| {
            self.fault(format!("the name of column {column} is not UTF-8; rename it"))
        })?;
        let end = records.end();
        self.line += memchr_iter(b'\n', &first.text()[..end]).count() as u64;
        first.drop_front(end);
        self.names = names;
        self.check_names()
    }

    fn check_names(&self) -> Result<(), DataError> {
        let mut sorted: Vec<&String> = self.names.iter().collect();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let what = format!("two columns are named {:?}; rename one of them", pair[0]);
                Err(self.fault(what))
            }
            None => Ok(()),
        }
    }

    fn fault(&self, what: String) -> DataError {
        DataError::Sparse { path: self.path.into(), what }
    }

    /// How the text is written.
    pub(crate) fn format(&self) -> TextFormat {
        self.blocks.format
    }

    /// The names of the columns; their numbers from 1 if there is no header.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The text of the first block, without the header.
    pub(crate) fn first_text(&self) -> &[u8] {
        self.first.as_ref().map_or(&[], Block::text)
    }

    /// The file, for errors.
    pub(crate) fn path(&self) -> &'s Path {
        self.path
    }

    /// Makes the errors of bad rows.
    pub(crate) fn row_errors(&self) -> RowErrors {
        RowErrors { path: self.path.into(), counter: self.counter() }
    }

    /// Parses all records on several threads, and hands over the results in the order of the file.
    pub(crate) fn parse_all<W: BlockWork>(
        mut self,
        work: &W,
        take: &mut TakeEvent<'_, W::Part>,
    ) -> Result<(), DataError> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut spare = Vec::new();
            let (mut next, mut done, mut line) = (0usize, 0usize, self.line);
            loop {
                if next - done == cores * BLOCKS_PER_THREAD {
                    spare.push(receive(&threads, done, &mut line, take)?);
                    done += 1;
                }
                let mut task: BlockTask<W::Part> = spare.pop().unwrap_or_default();
                match self.next_block(&mut task.block)? {
                    NextBlock::End => break,
                    NextBlock::Records => {}
                    fault => {
                        // What was read before the fault is reported first.
                        while done < next {
                            spare.push(receive(&threads, done, &mut line, take)?);
                            done += 1;
                        }
                        match fault {
                            NextBlock::OpenQuote => {
                                return Err(self.row_errors().open_quote(line));
                            }
                            NextBlock::EndlessLine => {
                                return Err(self.row_errors().endless_line(line - 1));
                            }
                            _ => {}
                        }
                        take(TableEvent::LongLine(line))?;
                        line += 1;
                        spare.push(task);
                        continue;
                    }
                }
                if threads.len() <= next % cores {
                    threads.push(ParserThread::start(scope, work, self.counter()));
                }
                threads[next % cores].send(task);
                next += 1;
            }
            while done < next {
                receive(&threads, done, &mut line, take)?;
                done += 1;
            }
            Ok(())
        })
    }

    /// The line, or row, at which the first block begins, from 1.
    pub(crate) fn first_line(&self) -> u64 {
        self.line
    }

    /// Counts lines, or rows of a file without lines.
    pub(crate) fn counter(&self) -> RowCounter {
        RowCounter { unit: self.unit, format: self.blocks.format }
    }

    /// Reads the next block.
    pub(crate) fn next_block(&mut self, block: &mut Block) -> Result<NextBlock, DataError> {
        if let Some(first) = self.first.take() {
            *block = first;
            return Ok(NextBlock::Records);
        }
        self.blocks.read(block).map_err(DataError::io("read", self.path))
    }
}

/// The whole lines among the first [`DETECTED_BYTES`], or more if there are not two of them.
fn first_lines(text: &[u8]) -> &[u8] {
    let mut ends = memrchr_iter(b'\n', &text[..text.len().min(DETECTED_BYTES)]);
    match (ends.next(), ends.next()) {
        (Some(last), Some(_)) if text.len() > DETECTED_BYTES => &text[..=last],
        _ => text,
    }
}

/// Refuses what cannot be the text of a table.
fn check_is_text(path: &Path, text: &[u8]) -> Result<(), DataError> {
    let head = &text[..text.len().min(SNIFF_BYTES)];
    let found = if is_wide(head) { FileKind::Utf16 } else { sniff(head) };
    if let FileKind::Table(_) | FileKind::Criteo | FileKind::Text | FileKind::Empty = found {
        return Ok(());
    }
    let what = match found {
        FileKind::Binary => "this is not text, nor a known format".into(),
        FileKind::Parquet => "a Parquet file is not read from a stream; give its path".into(),
        found => return Err(DataError::WrongKind { path: path.into(), kind: "table", found }),
    };
    Err(DataError::Sparse { path: path.into(), what })
}

/// Whether about every second byte is zero, as in UTF-16 without a byte order mark.
fn is_wide(text: &[u8]) -> bool {
    let zeros = |skip: usize| text.iter().skip(skip).step_by(2).filter(|&&b| b == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    10 * even.max(odd) > 4 * text.len() && 20 * even.min(odd) < text.len()
}

/// The fault of a line above the limit.
pub(crate) fn long_line() -> String {
    format!("longer than {MAX_LINE_BYTES} bytes")
}

/// Makes the errors of a file's bad rows.
pub(crate) struct RowErrors {
    path: PathBuf,
    counter: RowCounter,
}

impl RowErrors {
    /// The error of a line, or of a row of a file without lines; from 1.
    pub(crate) fn at(&self, number: u64, what: String) -> DataError {
        let unit = match self.counter.unit {
            RowUnit::Lines => "line",
            RowUnit::Rows => "row",
        };
        DataError::Row { path: self.path.clone(), unit, number, what }
    }

    /// The error of a row that comes after `text` in a block with this first line.
    pub(crate) fn within(&self, first: u64, text: &[u8], what: String) -> DataError {
        self.at(first + self.counter.count(text), what)
    }

    /// The error of a line that is too long to be skipped.
    pub(crate) fn endless_line(&self, line: u64) -> DataError {
        let what = format!("line {line}: {}", endless_line());
        DataError::Sparse { path: self.path.clone(), what }
    }

    /// The error of a quote that is not closed.
    pub(crate) fn open_quote(&self, line: u64) -> DataError {
        let what = format!(
            "line {line}: a quote is opened and not closed within {MAX_LINE_BYTES} bytes or before \
             the end of the file; close it, or set data.quotes = false if quotes are ordinary \
             characters"
        );
        DataError::Sparse { path: self.path.clone(), what }
    }
}

/// Takes what a table has, in the order of the file.
type TakeEvent<'a, P> = dyn FnMut(TableEvent<'_, P>) -> Result<(), DataError> + 'a;

/// What errors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowUnit {
    Lines,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet has rows"))]
    Rows,
}

/// Counts the lines or the rows of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowCounter {
    unit: RowUnit,
    format: TextFormat,
}

impl RowCounter {
    pub(crate) fn count(&self, text: &[u8]) -> u64 {
        if self.unit == RowUnit::Lines {
            return memchr_iter(b'\n', text).count() as u64;
        }
        let (mut records, mut fields) = (Records::new(text, self.format), RecordFields::default());
        let mut rows = 0;
        while records.next(&mut fields) {
            rows += 1;
        }
        rows
    }
}

/// A block on its way to a thread and back.
struct BlockTask<P> {
    block: Block,
    part: P,
    /// Lines or rows of the block.
    lines: u64,
}

impl<P: Default> Default for BlockTask<P> {
    fn default() -> Self {
        Self { block: Block::default(), part: P::default(), lines: 0 }
    }
}

/// A thread that parses blocks.
struct ParserThread<P> {
    tasks: SyncSender<BlockTask<P>>,
    parsed: Receiver<BlockTask<P>>,
}

impl<P: Default + Send> ParserThread<P> {
    fn start<'scope, W: BlockWork<Part = P>>(
        scope: &'scope thread::Scope<'scope, '_>,
        work: &'scope W,
        counter: RowCounter,
    ) -> Self
    where
        P: 'scope,
    {
        let (tasks, to_parse) = sync_channel::<BlockTask<P>>(BLOCKS_PER_THREAD);
        let (done, parsed) = sync_channel(BLOCKS_PER_THREAD);
        scope.spawn(move || {
            for mut task in to_parse {
                task.lines = counter.count(task.block.text());
                work.parse(task.block.text(), &mut task.part);
                if done.send(task).is_err() {
                    return;
                }
            }
        });
        Self { tasks, parsed }
    }

    fn send(&self, task: BlockTask<P>) {
        // It fails only if the thread panicked, which the scope reports.
        let _ = self.tasks.send(task);
    }
}

/// Takes the result of a block, in order.
fn receive<P>(
    threads: &[ParserThread<P>],
    number: usize,
    line: &mut u64,
    take: &mut TakeEvent<'_, P>,
) -> Result<BlockTask<P>, DataError> {
    // Blocks go to the threads in turn; the first ones start the threads.
    let thread = &threads[number % threads.len()];
    let Ok(mut task) = thread.parsed.recv() else {
        return Err(DataError::BadExample { what: "a thread that parses has failed".into() });
    };
    let block = ParsedBlock { part: &mut task.part, text: task.block.text(), first_line: *line };
    take(TableEvent::Parsed(block))?;
    *line += task.lines;
    Ok(task)
}
