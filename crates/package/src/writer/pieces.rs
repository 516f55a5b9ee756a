//! Writes a long text in pieces, so that the difference to an earlier package needs only the pieces that are new.
//!
//! A text is cut where its own lines say so, and not at fixed offsets: a line more or less changes the piece that it is in and leaves
//! the others as they are. An empty line ends a piece, which in a dump is the end of a table.

use std::io::{self, Write};

use super::{PackageWriter, WriteError, at};
use crate::{
    checksums::Sha256Sum,
    hashing::Hasher,
    manifest::{Piece, Pieces},
    path::PackagePath,
};

/// Bytes from which on a line may end a piece by its checksum.
const SMALL: u64 = 64 << 10;
/// Bytes from which on every line ends a piece.
const LARGE: u64 = 4 << 20;
/// One line in this many ends a piece by its checksum: some hundred KiB of usage rows.
const ONE_IN: u32 = 2048;

impl PackageWriter {
    /// Writes a text that `fill` writes. Pieces of it that the base has are left out, if the base has any; the others are in the
    /// file `rest` then. Returns the result of `fill`.
    ///
    /// # Errors
    /// Those of `fill`, and those of writing; `failed` turns the latter into the former's kind.
    pub fn put_in_pieces<T, E>(
        &mut self,
        path: &PackagePath,
        rest: &PackagePath,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
        failed: impl Fn(WriteError) -> E,
    ) -> Result<T, E> {
        let leaves_out = self.base.as_ref().is_some_and(|it| !it.pieces.is_empty());
        let start = self.offset();
        self.begin(if leaves_out { rest } else { path }.as_str(), 0).map_err(&failed)?;
        let mut cut = Cut::new(self, leaves_out);
        let filled = fill(&mut cut)?;
        cut.end_piece().map_err(at(path)).map_err(&failed)?;
        let done = cut.done();
        self.end_pieces(path, rest, done, start).map_err(failed)?;
        Ok(filled)
    }

    fn end_pieces(
        &mut self,
        path: &PackagePath,
        rest: &PackagePath,
        Done { mut list, whole, written, leaves_out }: Done,
        start: Option<u64>,
    ) -> Result<(), WriteError> {
        let (now, mut of_rest) = (self.now_ms, None);
        if self.base.as_ref().is_some_and(|it| it.contents.contains(&whole)) {
            self.drop_written(start)?;
            self.add_from_base(path, whole.0, whole.1, now)?;
            if !leaves_out {
                return Ok(());
            }
            for it in &mut list {
                it.in_base = true;
            }
        } else if leaves_out {
            self.finish_file(rest, written.0, written.1, now, start)?;
            self.add_from_base(path, whole.0, whole.1, now)?;
            of_rest = Some(rest.clone());
        } else {
            self.finish_file(path, whole.0, whole.1, now, start)?;
        }
        self.pieces.insert(path.clone(), Pieces { list, rest: of_rest });
        Ok(())
    }
}

/// A text that was cut.
struct Done {
    list: Vec<Piece>,
    /// Sum and size of the whole text, and of what was written of it.
    whole: (Sha256Sum, u64),
    written: (Sha256Sum, u64),
    leaves_out: bool,
}

/// A sum in the making, and the bytes so far.
#[derive(Default)]
struct Sum(Hasher, u64);

impl Sum {
    fn update(&mut self, text: &[u8]) {
        self.0.update(text);
        self.1 += text.len() as u64;
    }

    fn finish(self) -> (Sha256Sum, u64) {
        (self.0.finish(), self.1)
    }
}

/// A text that is being cut and written.
struct Cut<'a> {
    writer: &'a mut PackageWriter,
    cutter: Cutter,
    whole: Sum,
    written: Sum,
    piece: Sum,
    list: Vec<Piece>,
    /// The present piece, which is written only if the base lacks it. `None` if everything is written as it comes.
    held: Option<Vec<u8>>,
}

impl<'a> Cut<'a> {
    fn new(writer: &'a mut PackageWriter, leaves_out: bool) -> Self {
        Self {
            writer,
            cutter: Cutter::default(),
            whole: Sum::default(),
            written: Sum::default(),
            piece: Sum::default(),
            list: Vec::new(),
            held: leaves_out.then(Vec::new),
        }
    }

    fn add(&mut self, text: &[u8]) -> io::Result<()> {
        self.whole.update(text);
        self.piece.update(text);
        match &mut self.held {
            Some(held) => held.extend_from_slice(text),
            None => self.writer.write(text)?,
        }
        Ok(())
    }

    fn end_piece(&mut self) -> io::Result<()> {
        let (sha256, size) = std::mem::take(&mut self.piece).finish();
        if size == 0 {
            return Ok(());
        }
        let mut in_base = false;
        if let Some(held) = &mut self.held {
            in_base = self.writer.base.as_ref().is_some_and(|it| it.pieces.contains(&(sha256, size)));
            if !in_base {
                self.written.update(held);
                self.writer.write(held)?;
            }
            held.clear();
            held.shrink_to(LARGE as usize);
        }
        self.list.push(Piece { size, sha256, in_base });
        Ok(())
    }

    fn done(self) -> Done {
        let leaves_out = self.held.is_some();
        Done { list: self.list, whole: self.whole.finish(), written: self.written.finish(), leaves_out }
    }
}

impl Write for Cut<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut rest = text;
        while !rest.is_empty() {
            self.writer.progress.go_on()?;
            let (bytes, ends) = self.cutter.look(rest);
            let (now, later) = rest.split_at(bytes);
            self.add(now)?;
            if ends {
                self.end_piece()?;
            }
            rest = later;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds the ends of pieces.
#[derive(Default)]
struct Cutter {
    /// Bytes of the present piece.
    size: u64,
    line: crc32fast::Hasher,
    line_size: usize,
}

impl Cutter {
    /// Looks at what follows in the text. Returns how much of it belongs to the present piece, and whether the piece ends there.
    fn look(&mut self, text: &[u8]) -> (usize, bool) {
        let mut at = 0;
        for line in text.split_inclusive(|it| *it == b'\n') {
            at += line.len();
            self.size += line.len() as u64;
            self.line.update(line);
            self.line_size += line.len();
            if !line.ends_with(b"\n") {
                break;
            }
            let is_empty = std::mem::take(&mut self.line_size) == 1;
            let sum = std::mem::take(&mut self.line).finalize();
            if is_empty || self.size >= LARGE || self.size >= SMALL && sum.is_multiple_of(ONE_IN) {
                self.size = 0;
                return (at, true);
            }
        }
        (at, false)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _};

    use super::*;

    /// Cuts a text that comes in portions of `portion` bytes.
    fn cut(text: &str, portion: usize) -> Vec<String> {
        let (mut cutter, mut pieces) = (Cutter::default(), vec![String::new()]);
        for mut rest in text.as_bytes().chunks(portion) {
            while !rest.is_empty() {
                let (bytes, ends) = cutter.look(rest);
                pieces.last_mut().unwrap().push_str(std::str::from_utf8(&rest[..bytes]).unwrap());
                if ends {
                    pieces.push(String::new());
                }
                rest = &rest[bytes..];
            }
        }
        pieces.retain(|it| !it.is_empty());
        pieces
    }

    fn rows(range: std::ops::Range<u32>) -> String {
        range.fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "{n}\t{}\tchat/completions", n.wrapping_mul(2_654_435_761));
            text
        })
    }

    #[test]
    fn a_text_is_cut_the_same_however_it_comes() {
        let text = format!("-- head\n\nCOPY a\n{}\\.\n\nCOPY b\nx\n\\.\n\nend\n", rows(0..40_000));
        let pieces = cut(&text, 1 << 18);
        assert_eq!(pieces.concat(), text);
        assert_eq!(pieces[0], "-- head\n\n");
        assert_eq!(pieces[pieces.len() - 2..], ["COPY b\nx\n\\.\n\n", "end\n"]);
        assert!(
            pieces.len() > 8 && pieces.iter().all(|it| it.len() as u64 <= LARGE + 100),
            "{}",
            pieces.len()
        );
        for portion in [1, 7, 100_003] {
            assert_eq!(cut(&text, portion), pieces, "{portion}");
        }
    }

    #[test]
    fn lines_more_and_less_change_the_pieces_that_they_are_in() {
        let (before, after) = (cut(&rows(0..200_000), 1 << 18), cut(&rows(300..200_300), 1 << 18));
        let before: BTreeSet<_> = before.into_iter().collect();
        let new: usize = after.iter().filter(|it| !before.contains(*it)).map(String::len).sum();
        let all: usize = after.iter().map(String::len).sum();
        assert!(after.len() > 20 && new * 8 < all, "{new} of {all} bytes in {} pieces", after.len());
    }

    #[test]
    fn a_line_without_end_and_lines_that_are_all_alike_make_pieces_too() {
        assert_eq!(cut(&"x".repeat(9 << 20), 1 << 18).len(), 1);
        let alike = cut(&"the same line\n".repeat(1 << 20), 1 << 18);
        assert!((3..300).contains(&alike.len()), "{}", alike.len());
    }
}
